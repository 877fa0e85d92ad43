//! Bounds how much is logged about callers that are turned away, since they decide how many there are.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Lets one line pass, and counts those that come before the pause is over.
#[derive(Debug, Default)]
pub(super) struct Throttle(Mutex<Passed>);

#[derive(Debug, Default)]
struct Passed {
    last: Option<Instant>,
    held_back: u64,
}

impl Throttle {
    /// Whether a line may be logged now, and if so how many were held back since the last one.
    pub(super) fn pass(&self, now: Instant) -> Option<u64> {
        let mut passed = self.0.lock();
        let too_soon = |last: Instant| now.saturating_duration_since(last) < PAUSE;
        if passed.last.is_some_and(too_soon) {
            passed.held_back = passed.held_back.saturating_add(1);
            return None;
        }
        passed.last = Some(now);
        Some(std::mem::take(&mut passed.held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_pause_tells_how_many_there_were() {
        let (throttle, start) = (Throttle::default(), Instant::now());
        assert_eq!(throttle.pass(start), Some(0));
        assert_eq!(throttle.pass(start), None);
        assert_eq!(throttle.pass(start + PAUSE / 2), None);
        assert_eq!(throttle.pass(start + PAUSE), Some(2));
        assert_eq!(throttle.pass(start + 3 * PAUSE), Some(0));
    }
}
