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
    digest_points::Marked,
    inbox::{Gate, Inbox, WakeCondition},
    linger::Linger,
    syncer::Syncer,
};
use crate::{
    clock::now,
    fairness::{Queued, throttle::Meter},
    metrics::{self, Limit, StateLock},
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
    GroupCommit::new(options.max_batch_entries).sealing_at(batching.max_bytes)
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
