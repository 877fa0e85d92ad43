//! A clock that continues while the machine is suspended, since a lease must not survive a suspension; and the time of
//! day, compared with that of other machines by it.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::protocol::Millis;
use quota_semantics::Timestamp;
use rustix::time::{ClockId, clock_gettime};

/// Milliseconds since the start of the clock.
#[derive(Clone, Copy, Debug)]
pub struct Clock(Millis);

/// Milliseconds since the machine was started.
pub fn since_boot() -> Millis {
    let time = clock_gettime(ClockId::Boottime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    seconds * 1_000 + nanos / 1_000_000
}

impl Clock {
    /// Starts a clock.
    pub fn start() -> Self {
        Self(since_boot())
    }

    /// Milliseconds since its start.
    pub fn now(self) -> Millis {
        since_boot().saturating_sub(self.0)
    }

    /// The latest time on this clock at which the other clock can have shown `time`; none: that may have been before the
    /// start.
    pub fn at(self, time: Timestamp, other: Offset) -> Option<Millis> {
        let since_boot = milliseconds(time) - other.ahead - other.uncertainty;
        let at = u64::try_from(since_boot).ok()?.checked_sub(self.0)?;
        Some(at.min(self.now()))
    }
}

/// The time of day.
pub fn wall() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |span| span.as_nanos());
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX))
}

/// The time of day by another clock, compared with the time since this machine was started. Jumps of this machine's time
/// of day do not affect it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offset {
    /// The milliseconds by which the other clock is ahead.
    ahead: i64,
    /// The uncertainty in milliseconds: half of the round-trip time.
    uncertainty: i64,
}

impl Offset {
    /// Compares a clock that showed `time` at a moment between `requested` and `answered`, in milliseconds since this
    /// machine was started.
    pub fn between(requested: Millis, time: Timestamp, answered: Millis) -> Self {
        let half = signed(answered.saturating_sub(requested)) / 2;
        Self { ahead: milliseconds(time) - signed(requested) - half, uncertainty: half }
    }

    /// The value within the uncertainty that is nearest to another offset.
    fn nearest(self, to: i64) -> i64 {
        to.clamp(self.ahead - self.uncertainty, self.ahead + self.uncertainty)
    }
}

/// This machine's time of day, and the time that other clocks agree on. A wrong clock must not date decisions: reservations
/// would expire too early, or live too long.
#[derive(Debug)]
pub struct WallClock {
    /// The milliseconds by which the agreed time is ahead of the time since boot; [`UNKNOWN`] before it was compared.
    agreed: AtomicI64,
    /// Most milliseconds between the two; [`ANY`]: this clock counts alone.
    most: AtomicI64,
}

const UNKNOWN: i64 = i64::MIN;
const ANY: i64 = i64::MAX;

impl Default for WallClock {
    fn default() -> Self {
        Self { agreed: AtomicI64::new(UNKNOWN), most: AtomicI64::new(ANY) }
    }
}

impl WallClock {
    /// From now on this clock counts only while it differs from the agreed time by at most this many milliseconds.
    pub fn limit(&self, most: i64) {
        self.most.store(most, Ordering::Release);
    }

    /// Sets the time that all clocks agree on: their median.
    pub fn agree(&self, others: &[Offset]) {
        let agreed = median(own_offset(), others);
        self.agreed.store(agreed, Ordering::Release);
    }

    /// The milliseconds by which this clock is ahead of the agreed time; none before it was compared.
    pub fn ahead(&self) -> Option<i64> {
        let agreed = self.agreed.load(Ordering::Acquire);
        (agreed != UNKNOWN).then(|| own_offset() - agreed)
    }

    /// The time of day; none if this clock must not count.
    pub fn now(&self) -> Option<Timestamp> {
        let most = self.most.load(Ordering::Acquire);
        if most == ANY {
            return Some(wall());
        }
        let agreed = self.agreed.load(Ordering::Acquire);
        let (now, offset) = read();
        let is_right = agreed != UNKNOWN && offset.abs_diff(agreed) <= most.unsigned_abs();
        is_right.then_some(now)
    }
}

/// The median of this machine's offset and those of others. Of an even number of clocks the one farther from this
/// machine's counts: this machine's clock alone proves nothing.
fn median(own: i64, others: &[Offset]) -> i64 {
    let mut all: Vec<_> = others.iter().map(|other| other.nearest(own)).collect();
    all.push(own);
    all.sort_unstable();
    let middle = [all[(all.len() - 1) / 2], all[all.len() / 2]];
    middle.into_iter().max_by_key(|offset| offset.abs_diff(own)).unwrap_or(own)
}

/// How often both clocks are read anew if the process was interrupted meanwhile.
const READINGS: usize = 3;

/// The time of day, and how many milliseconds it is ahead of the time since boot.
fn read() -> (Timestamp, i64) {
    let reading = || {
        let before = since_boot();
        let now = wall();
        let took = since_boot() - before;
        (took, now, milliseconds(now) - signed(before))
    };
    let mut best = reading();
    for _ in 1..READINGS {
        if best.0 <= 1 {
            break;
        }
        best = [best, reading()].into_iter().min_by_key(|it| it.0).unwrap_or(best);
    }
    (best.1, best.2)
}

fn own_offset() -> i64 {
    read().1
}

fn milliseconds(time: Timestamp) -> i64 {
    time.nanoseconds() / 1_000_000
}

fn signed(milliseconds: Millis) -> i64 {
    i64::try_from(milliseconds).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_nanoseconds(milliseconds * 1_000_000)
    }

    #[test]
    fn a_clock_is_compared_within_what_the_answer_took() {
        let offset = Offset::between(1_000, at(51_100), 1_200);
        assert_eq!((offset.ahead, offset.uncertainty), (50_000, 100));
        assert_eq!(offset.nearest(50_050), 50_050);
        assert_eq!(offset.nearest(60_000), 50_100);
        assert_eq!(offset.nearest(0), 49_900);
    }

    #[test]
    fn a_message_from_before_the_start_shows_nothing_of_the_present() {
        let start = since_boot();
        let clock = Clock(start);
        let other = Offset { ahead: 1_000_000, uncertainty: 5 };
        let stored = |after: i64| at(signed(start) + 1_000_000 + after);
        assert_eq!(clock.at(stored(-720_000), other), None);
        assert_eq!(clock.at(stored(4), other), None);
        assert_eq!(clock.at(stored(5), other), Some(0));
        // The other clock has jumped ahead since.
        let ahead = clock.at(stored(3_600_000), other);
        assert!(ahead.is_some_and(|at| at <= clock.now()));
    }

    #[test]
    fn most_clocks_decide_and_this_one_alone_does_not() {
        let other = |ahead| Offset { ahead, uncertainty: 10 };
        // This clock has jumped ahead: both others say so, and one other does, too.
        assert_eq!(median(300_000, &[other(0), other(0)]), 10);
        assert_eq!(median(300_000, &[other(0)]), 10);
        // One other clock is wrong.
        assert_eq!(median(0, &[other(5), other(300_000)]), 0);
        assert_eq!(median(0, &[other(5), other(-300_000)]), 0);
        assert_eq!(median(7, &[]), 7);
        // Two against two: it is not known which are right.
        let apart = [other(0), other(300_000), other(300_000)];
        assert_eq!(median(0, &apart), 299_990);
    }

    #[test]
    fn a_clock_that_is_not_compared_or_differs_does_not_count() {
        let clock = WallClock::default();
        assert!(clock.now().is_some());
        clock.limit(500);
        assert_eq!((clock.now(), clock.ahead()), (None, None));
        clock.agree(&[]);
        assert!(clock.now().is_some());
        let wrong = Offset { ahead: own_offset() - 300_000, uncertainty: 0 };
        clock.agree(&[wrong, wrong]);
        assert_eq!(clock.now(), None);
        assert!(clock.ahead().is_some_and(|ahead| ahead > 299_000));
    }
}
