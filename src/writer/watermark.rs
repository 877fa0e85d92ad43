//! Up to when the sources have been consumed.

use std::sync::atomic::{AtomicI64, Ordering};

use quota_ledger::Timestamp;

/// The time up to which every source is known to have been consumed completely.
///
/// Without sources there is nothing to wait for. With one it is unknown until it has been caught up with.
#[derive(Debug)]
pub struct Watermark(AtomicI64);

impl Watermark {
    /// There are no sources: the wall clock decides alone.
    #[must_use]
    pub const fn without_sources() -> Self {
        Self(AtomicI64::new(i64::MAX))
    }

    /// There is a source, and nothing is known of it yet.
    #[must_use]
    pub const fn unknown() -> Self {
        Self(AtomicI64::new(i64::MIN))
    }

    /// Everything up to `time` has been consumed and is durable.
    pub fn advance(&self, time: Timestamp) {
        self.0.fetch_max(time.nanoseconds(), Ordering::AcqRel);
    }

    /// The time up to which everything has been consumed.
    #[must_use]
    pub fn get(&self) -> Timestamp {
        Timestamp::from_nanoseconds(self.0.load(Ordering::Acquire))
    }

    /// Whether the sources have been caught up with at least once since the start.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.get() > Timestamp::from_nanoseconds(i64::MIN)
    }
}
