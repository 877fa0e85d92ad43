//! Background work, cut into steps.

use std::{fmt, sync::Arc};

/// What is done between the steps of such work: moving frames, sealing, compaction, snapshots. A step takes little
/// more than a millisecond. Whoever has the journal may wait there, so that others get the processors; by default nothing
/// is done.
#[derive(Clone, Default)]
pub struct Throttle(Option<Arc<dyn Fn() + Send + Sync>>);

impl Throttle {
    /// Does this between two steps, on the thread that takes them.
    pub fn new(pause: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(pause)))
    }

    pub(super) fn pause(&self) {
        if let Some(pause) = &self.0 {
            pause();
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Throttle")
    }
}
