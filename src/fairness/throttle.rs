//! Makes background work yield the processors to request threads.
//!
//! The scheduler preempts a busy thread only at its next tick, whatever the nice value: background work would keep a
//! processor for four to eight milliseconds each time, longer than nearly all requests take.

use std::{
    cell::Cell,
    thread,
    time::{Duration, Instant},
};

use quota_journal::Throttle;
use rustix::time::{ClockId, clock_gettime};
use tokio_util::sync::CancellationToken;

/// How long background work runs before it pauses.
const STEP: Duration = Duration::from_micros(250);

/// How long it pauses.
const PAUSE: Duration = Duration::from_micros(500);

thread_local! {
    /// The beginning of this thread's step.
    static BEGAN: Cell<Instant> = Cell::new(Instant::now());
}

/// Throttles until `stop`: from then on a caller waits for the work to end.
#[must_use]
pub(crate) fn until(stop: CancellationToken) -> Throttle {
    Throttle::new(move || {
        if !stop.is_cancelled() {
            pause();
        }
    })
}

/// Pauses if this thread's step was long enough; answers whether it was.
pub(crate) fn pause() -> bool {
    pause_for(|| Some(PAUSE))
}

/// Like [`pause`], but for the duration that `wanted` returns if that is longer. If `wanted` returns none, the next
/// step begins at once.
pub(crate) fn pause_for(wanted: impl FnOnce() -> Option<Duration>) -> bool {
    let is_over = BEGAN.get().elapsed() >= STEP;
    if is_over {
        if let Some(wanted) = wanted() {
            thread::sleep(wanted.max(PAUSE));
        }
        BEGAN.set(Instant::now());
    }
    is_over
}

/// Measures the processor time of the thread on which it was made. Time in which another thread has the processor does
/// not count.
#[derive(Debug)]
pub(crate) struct Meter(Duration);

impl Meter {
    pub(crate) fn start() -> Self {
        Self(used_by_this_thread())
    }

    /// The processor time since the start, or since the last call.
    pub(crate) fn lap(&mut self) -> Duration {
        let used = used_by_this_thread();
        used.saturating_sub(std::mem::replace(&mut self.0, used))
    }
}

fn used_by_this_thread() -> Duration {
    let used = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(used).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_pauses_behind_each_step() {
        let long_ago = Instant::now() - 4 * STEP;
        BEGAN.set(long_ago);
        assert!(pause());
        // The next step begins after the pause.
        assert!(BEGAN.get() >= long_ago + 4 * STEP + PAUSE);
        BEGAN.set(Instant::now() + 1000 * STEP);
        assert!(!pause());
    }

    #[test]
    fn the_first_step_of_a_thread_begins_with_it() {
        let before = Instant::now();
        let began = std::thread::spawn(|| BEGAN.get());
        assert!(began.join().unwrap() >= before);
    }
}
