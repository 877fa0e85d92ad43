//! Throttling of background work, which is divided into steps.

use std::{fmt, sync::Arc};

/// A function that is called between the steps of background work: moving frames, sealing, compaction, snapshots. A
/// step takes little more than a millisecond. The function may wait, so that other work gets the processors; by default
/// nothing is called.
#[derive(Clone, Default)]
pub struct Throttle(Option<Arc<dyn Fn() + Send + Sync>>);

impl Throttle {
    /// Calls `pause` between two steps, on the thread that does them.
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
