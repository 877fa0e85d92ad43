//! Delays a batch briefly for clients that were just answered.
//!
//! In a cluster, a batch takes a millisecond or more to become durable, and meanwhile the clients of the next batch
//! wait. If the next batch is sent at once, it goes without the clients of the first, and from then on each half of the
//! clients waits for the other. So a batch waits until as many jobs have arrived as were answered, or for half of the
//! time that the last batch took. PostgreSQL does the same (`commit_delay`). If the answered clients do not come back,
//! waiting is in vain: then the next batches do not wait, and each time more of them. On a single node a sync is too
//! short for that.

use std::time::{Duration, Instant};

/// The divisor of the last batch's duration that gives the longest wait.
const PART: u32 = 2;

/// Upper limit of the wait: a slow server is no reason to be slower still.
const LONGEST: Duration = Duration::from_millis(3);

/// Most batches without a wait after one that waited in vain.
const MOST_SKIPPED: u32 = 64;

/// When the syncer became idle, and how many jobs waited then.
#[derive(Clone, Copy, Debug)]
pub(super) struct Idle {
    pub(super) since: Instant,
    pub(super) waiting: usize,
}

/// A batch that is being made durable.
#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Instant,
    answers: usize,
}

/// The jobs that a batch waits for.
#[derive(Clone, Copy, Debug)]
struct Expected {
    answers: usize,
    until: Instant,
}

/// The rule and its state.
#[derive(Debug)]
pub(super) struct Linger {
    is_on: bool,
    sent: Option<Sent>,
    expected: Option<Expected>,
    /// How many more batches do not wait.
    skipped: u32,
    /// How many batches will not wait after the next one that waits in vain.
    penalty: u32,
}

impl Linger {
    pub(super) const fn new(is_on: bool) -> Self {
        Self { is_on, sent: None, expected: None, skipped: 0, penalty: 1 }
    }

    /// A batch with this many answers was handed on.
    pub(super) fn sent(&mut self, at: Instant, answers: usize) {
        if let Some(expected) = self.expected.take() {
            // The wait pays off if three quarters of the expected jobs arrived.
            if answers * 4 >= expected.answers * 3 {
                self.penalty = 1;
            } else {
                self.skipped = self.penalty;
                self.penalty = (self.penalty * 2).min(MOST_SKIPPED);
            }
        }
        self.sent = self.is_on.then_some(Sent { at, answers });
    }

    /// That batch is durable. `decided` is the number of answers of the next batch.
    pub(super) fn synced(&mut self, idle: Idle, decided: usize) {
        if let Some(sent) = self.sent.take() {
            if self.skipped > 0 {
                self.skipped -= 1;
                return;
            }
            let took = idle.since.saturating_duration_since(sent.at);
            self.expected = Some(Expected {
                answers: sent.answers + idle.waiting + decided,
                until: idle.since + (took / PART).min(LONGEST),
            });
        }
    }

    /// How many more answers the batch waits for, and how long. None if it does not wait.
    pub(super) fn wait(&self, now: Instant, decided: usize) -> Option<(usize, Duration)> {
        let expected = self.expected?;
        let more = expected.answers.checked_sub(decided).filter(|more| *more > 0)?;
        let longest = expected.until.checked_duration_since(now)?;
        (!longest.is_zero()).then_some((more, longest))
    }

    /// Drops all expectations.
    pub(super) const fn forget(&mut self) {
        self.sent = None;
        self.expected = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// The state after a batch of this many answers, durable after 4 ms, when this many jobs waited.
    fn after(answers: usize, waiting: usize) -> (Linger, Instant) {
        let mut linger = Linger::new(true);
        let began = Instant::now();
        linger.sent(began, answers);
        assert_eq!(linger.wait(began, 0), None, "it is on its way");
        let since = began + 4 * MS;
        linger.synced(Idle { since, waiting }, 0);
        (linger, since)
    }

    #[test]
    fn a_batch_waits_for_those_who_were_answered_and_those_who_waited() {
        let (linger, idle) = after(32, 30);
        assert_eq!(linger.wait(idle, 30), Some((32, 2 * MS)));
        assert_eq!(linger.wait(idle + MS, 61), Some((1, MS)));
        assert_eq!(linger.wait(idle + MS, 62), None, "all have come");
        let late = linger.wait(idle + 2 * MS, 30);
        assert_eq!(late, None, "it has waited for long enough");
    }

    #[test]
    fn whoever_is_alone_waits_for_nobody() {
        let (linger, idle) = after(1, 0);
        assert_eq!(linger.wait(idle, 1), None);
        let much_later = idle + 1000 * MS;
        assert_eq!(linger.wait(much_later, 0), None);
    }

    #[test]
    fn the_time_is_bounded() {
        let mut linger = Linger::new(true);
        let began = Instant::now();
        linger.sent(began, 2);
        let since = began + 1000 * MS;
        linger.synced(Idle { since, waiting: 0 }, 1);
        assert_eq!(linger.wait(since, 1), Some((2, LONGEST)));
        linger.forget();
        assert_eq!(linger.wait(since, 1), None);
    }

    #[test]
    fn after_waiting_in_vain_more_and_more_batches_do_not_wait() {
        let mut linger = Linger::new(true);
        let mut now = Instant::now();
        let mut round = |linger: &mut Linger, answers| {
            linger.sent(now, answers);
            now += 4 * MS;
            let (since, waiting) = (now, 0);
            linger.synced(Idle { since, waiting }, 0);
            linger.wait(now, 0).is_some()
        };
        assert!(round(&mut linger, 40));
        let waited: Vec<bool> = (0..12).map(|_| round(&mut linger, 4)).collect();
        let waits = |at: usize| waited.get(at).copied();
        // Four of forty expected jobs arrived; from then on four of four.
        assert_eq!((waits(0), waits(1), waits(2)), (Some(false), Some(true), Some(true)));
        assert!(round(&mut linger, 40), "more came than were expected");
        assert!(!round(&mut linger, 4));
        assert!(round(&mut linger, 4));
    }

    #[test]
    fn a_single_node_does_not_wait() {
        let mut linger = Linger::new(false);
        let began = Instant::now();
        linger.sent(began, 8);
        let since = began + 4 * MS;
        linger.synced(Idle { since, waiting: 8 }, 0);
        assert_eq!(linger.wait(since, 8), None);
    }
}
