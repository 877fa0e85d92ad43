//! The deciding thread: takes jobs, decides them on the state, hands batches to the syncer.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use quota_core::{decide, state::State};
use quota_journal::Journal;
use quota_ledger::group_commit::{ClosedBatch, DUE_AT_ONCE, GroupCommit};
use quota_replication::jetstream::WallClock;

use super::{
    Answer, DecisionContext, Job, Options, Watermark,
    inbox::{Gate, Inbox, WakeCondition},
    syncer::{Marked, Syncer},
};
use crate::{
    fairness::{Meter, Queued},
    metrics::{self, Limit, StateLock},
    now,
};

/// How long to sleep when no event is scheduled.
const LONGEST: Duration = Duration::from_secs(3600);

/// Most jobs decided while the state is locked once: readers wait no longer than that.
const GROUP_JOBS: usize = 128;

/// After this time no further job begins under the same lock: each job may take long, readers wait, and a job with
/// precedence may have arrived.
const GROUP_TIME: Duration = Duration::from_millis(2);

/// A longer decision is charged to its principal. Ordinary decisions take far less time, and take turns.
const EXPENSIVE: Duration = Duration::from_micros(500);

/// How often to check for due events without a scheduled time: the watermark moves independently.
const TICK: Duration = Duration::from_millis(100);

/// How batches are made. The best values depend on how long a batch takes to become durable.
pub(super) struct Batching {
    /// Most bytes of a batch.
    pub(super) max_bytes: usize,
    /// Most answers, and most entries, of a batch that the decider syncs itself. To hand a batch to the syncer takes two
    /// wake-ups. They pay off if the decider has many jobs to decide meanwhile.
    pub(super) own_max: usize,
    pub(super) linger: Linger,
}

pub(super) struct Decider<J> {
    inbox: Arc<Inbox>,
    /// Jobs that were taken from the inbox and are not decided yet.
    taken: VecDeque<Queued<Job>>,
    syncer: Arc<Syncer<J>>,
    state: Arc<RwLock<State>>,
    watermark: Arc<Watermark>,
    options: Options,
    batching: Batching,
    clock: Arc<WallClock>,
    group_commit: GroupCommit<Answer>,
    /// Whether due events of the last check remain unrecorded.
    more_is_due: bool,
}

impl<J: Journal> Decider<J> {
    pub(super) fn new(
        inbox: Arc<Inbox>,
        syncer: Arc<Syncer<J>>,
        state: Arc<RwLock<State>>,
        watermark: Arc<Watermark>,
        (options, clock): (Options, Arc<WallClock>),
        batching: Batching,
    ) -> Self {
        watermark.follow(&state.read());
        Self {
            inbox,
            taken: VecDeque::new(),
            syncer,
            state,
            watermark,
            group_commit: open_batch(&options, &batching),
            batching,
            clock,
            more_is_due: false,
            options,
        }
    }

    /// Runs until the ledger is closed and all decisions have been handed on, or the syncer has stopped.
    pub(super) fn run(mut self) {
        while self.step().is_some() {}
        // No caller shall wait for a decision that will not be made.
        self.inbox.end();
    }

    fn step(&mut self) -> Option<()> {
        let wants = self.wants();
        let longest = match wants {
            WakeCondition::Jobs { .. } => self.until_due(),
            WakeCondition::More { longest, .. } => longest,
            WakeCondition::Syncer | WakeCondition::Nothing => LONGEST,
        };
        let woken = self.inbox.wait(wants, longest, GROUP_JOBS, &mut self.taken)?;
        if !matches!(woken.gate, Gate::Open | Gate::Closing) {
            self.more_is_due = false;
            if woken.gate == Gate::Voiding && woken.idle.is_some() {
                self.drop_decided();
            }
            return (!woken.closed).then_some(());
        }
        if let Some(idle) = woken.idle {
            self.group_commit.synced();
            self.batching.linger.synced(idle, self.group_commit.answers());
        }
        if self.group_commit.is_full() {
            return self.hand_on(woken.more);
        }
        if woken.is_barred {
            self.taken.clear();
        }
        let more = self.decide_group(woken.gate) || woken.more;
        if self.lingers() && woken.gate == Gate::Open && !woken.closed {
            return Some(());
        }
        self.hand_on(more)?;
        if woken.gate == Gate::Closing && woken.idle.is_some() && !more {
            self.shut();
        }
        let over = woken.closed && self.group_commit.is_empty() && self.taken.is_empty();
        (!over || more).then_some(())
    }

    /// Shuts the gate once all decisions are durable.
    fn shut(&mut self) {
        if self.group_commit.is_empty() && self.taken.is_empty() && self.inbox.syncer_rests() {
            self.inbox.has_shut();
        }
    }

    /// Another node leads: drops decisions that are not durable. Their callers are refused, since their answers are
    /// dropped.
    fn drop_decided(&mut self) {
        self.taken.clear();
        if let Some(marks) = self.syncer.marks.get() {
            marks.void();
        }
        self.group_commit = open_batch(&self.options, &self.batching);
        self.batching.linger.forget();
        self.inbox.has_voided();
    }

    /// Whether the current batch waits for more jobs.
    fn lingers(&self) -> bool {
        let decided = self.group_commit.answers();
        let is_all = self.taken.is_empty() && !self.group_commit.is_full();
        is_all && self.batching.linger.wait(Instant::now(), decided).is_some()
    }

    fn wants(&self) -> WakeCondition {
        if self.group_commit.is_full() {
            return WakeCondition::Syncer;
        }
        if !self.taken.is_empty() {
            return WakeCondition::Nothing;
        }
        let decided = self.group_commit.answers();
        if let Some((jobs, longest)) = self.batching.linger.wait(Instant::now(), decided) {
            return WakeCondition::More { jobs, longest };
        }
        let handing = !self.group_commit.is_empty();
        WakeCondition::Jobs { handing }
    }

    /// Decides a group: first due events, then the jobs that were taken. Returns true if jobs were put back.
    fn decide_group(&mut self, gate: Gate) -> bool {
        let Some(now) = self.clock.now() else {
            // Nothing may be dated by it: another node decides.
            self.more_is_due = false;
            self.inbox.suspend();
            self.taken.clear();
            return false;
        };
        let now = now.whole_microseconds();
        let state = self.state.clone();
        let mut state = state.write();
        let began = Instant::now();
        let consumed = self.watermark.consumed();
        let policy = &self.options.policy;
        // While the gate is closing, the next leader records due events.
        self.more_is_due = gate == Gate::Open && {
            if decide::held_too_long(&state, now, consumed, policy.max_hold, DUE_AT_ONCE) {
                metrics::limit_reached(Limit::MaxHold);
            }
            self.group_commit.record_due(&mut state, now, consumed, policy)
        };
        let mut meter = JobMeter::start();
        let mut has_put_back = false;
        while let Some(Queued { lane, job }) = self.taken.pop_front() {
            let mut context = DecisionContext {
                transaction: self.group_commit.transaction(&mut state, now),
                policy,
                closes: false,
            };
            let answer = job(&mut context);
            let closes = context.closes;
            let expensive = meter.took();
            if let (Some(took), Some(principal)) = (expensive, lane.principal()) {
                self.inbox.charge(principal, took);
            }
            if !self.group_commit.decided(answer, closes) {
                break;
            }
            if expensive.is_some() || meter.at.duration_since(began) > GROUP_TIME {
                has_put_back |= !self.taken.is_empty();
                self.inbox.put_back(&mut self.taken);
            }
        }
        self.watermark.follow(&state);
        drop(state);
        metrics::state_lock(StateLock::Writer, began.elapsed());
        has_put_back
    }

    fn until_due(&self) -> Duration {
        if self.more_is_due {
            return Duration::ZERO;
        }
        let state = self.state.read();
        let next = [state.next_expiration(), state.next_lapse(), state.next_override_end()]
            .into_iter()
            .flatten()
            .min();
        let Some(next) = next else {
            return LONGEST;
        };
        let wait = next.since(now()).nanoseconds();
        match u64::try_from(wait) {
            // One nanosecond more, since an object counts up to and including its limit.
            Ok(wait) => Duration::from_nanos(wait.saturating_add(1)).min(LONGEST),
            Err(_) => TICK,
        }
    }

    /// Takes an image of the state after a closed batch, if one is due. Nothing was decided since.
    fn mark(&self, closed: &ClosedBatch<Answer>) {
        let Some(marks) = self.syncer.marks.get().filter(|_| !closed.is_empty()) else {
            return;
        };
        // Batches are closed one at a time: the previous one is durable.
        let before = self.syncer.durable.borrow().time;
        let state = self.state.read();
        let head = state.head();
        if marks.is_due(before, head.time) {
            let (sequence, image) = (head.sequence, state.image());
            marks.put(Marked { sequence, image });
        }
    }

    /// Hands a batch to the syncer, if possible. A small batch is synced here if no job waits.
    fn hand_on(&mut self, more: bool) -> Option<()> {
        let Some(closed) = self.group_commit.close() else {
            return Some(());
        };
        self.mark(&closed);
        self.batching.linger.sent(Instant::now(), closed.answers());
        let is_small = closed.answers().max(closed.len()) <= self.batching.own_max;
        if more || !self.taken.is_empty() || !is_small {
            self.inbox.hand_on(closed);
            return Some(());
        }
        if self.syncer.sync(closed)? {
            self.group_commit.synced();
            self.batching.linger.synced(self.inbox.idle_now(), 0);
        }
        Some(())
    }
}

fn open_batch(options: &Options, batching: &Batching) -> GroupCommit<Answer> {
    GroupCommit::new(options.max_batch_entries).closing_at(batching.max_bytes)
}

/// Determines which jobs of a group are expensive. It reads the wall clock for each job. It reads the processor time,
/// which costs more, only for jobs that may be expensive.
struct JobMeter {
    processor: Meter,
    /// The time of cheap decisions since the processor time was last read.
    cheap: Duration,
    at: Instant,
}

impl JobMeter {
    fn start() -> Self {
        Self { processor: Meter::start(), cheap: Duration::ZERO, at: Instant::now() }
    }

    /// The processor time of the job that just ended, if it was expensive. Time in which another thread had the
    /// processor does not count.
    fn took(&mut self) -> Option<Duration> {
        let before = std::mem::replace(&mut self.at, Instant::now());
        let elapsed = self.at.duration_since(before);
        if elapsed <= EXPENSIVE {
            self.cheap += elapsed;
            return None;
        }
        let cheap = std::mem::take(&mut self.cheap);
        let took = self.processor.lap().saturating_sub(cheap);
        (took > EXPENSIVE).then_some(took)
    }
}

/// The divisor of the last batch's duration that gives the longest wait.
const PART: u32 = 2;

/// Upper limit of the wait: a slow server is no reason to be slower still.
const LONGEST_LINGER: Duration = Duration::from_millis(3);

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

/// Delays a batch briefly for clients that were just answered.
///
/// In a cluster, a batch takes a millisecond or more to become durable, and meanwhile the clients of the next batch
/// wait. If the next batch is sent at once, it goes without the clients of the first, and from then on each half of the
/// clients waits for the other. So a batch waits until as many jobs have arrived as were answered, or for half of the
/// time that the last batch took. PostgreSQL does the same (`commit_delay`). If the answered clients do not come back,
/// waiting is in vain: then the next batches do not wait, and each time more of them. On a single node a sync is too
/// short for that.
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
                until: idle.since + (took / PART).min(LONGEST_LINGER),
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
        assert_eq!(linger.wait(since, 1), Some((2, LONGEST_LINGER)));
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
