//! A clock that continues while the machine is suspended: a lease must not survive a suspension.

use quota_replication::Millis;
use quota_semantics::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the start of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Millis);

fn since_boot() -> Millis {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000 + nanos / 1_000_000
}

impl Clock {
    /// Starts a clock.
    #[must_use]
    pub fn start() -> Self {
        Self(since_boot())
    }

    /// Milliseconds since its start.
    #[must_use]
    pub fn now(self) -> Millis {
        since_boot().saturating_sub(self.0)
    }
}

/// The time of day.
#[must_use]
pub fn wall() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |span| span.as_nanos());
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}
