//! The deciding thread: takes jobs, decides them on the state, hands batches on.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::RwLock;
use quota_core::state::State;
use quota_journal::Journal;
use quota_ledger::group_commit::{GroupCommit, SealedBatch};

use super::{
    Answer, DecisionContext, Options, Watermark,
    inbox::{Gate, Inbox, Wants},
    lanes::Waiting,
    linger::Linger,
    marks::Marked,
    now,
    syncer::Syncer,
};
use crate::{
    cpu_throttle::Meter,
    metrics::{self, StateLock},
};

/// How long to sleep when nothing is due.
const LONGEST: Duration = Duration::from_secs(3600);

/// Most jobs decided under one hold of the state's lock: readers wait no longer than that.
const GROUP_JOBS: usize = 128;

/// After so long no further job is begun under the same hold: they may each take long, readers wait, and something
/// may have come that is to be decided first.
const GROUP_TIME: Duration = Duration::from_millis(2);

/// What takes longer than this is charged to its principal. Ordinary decisions take far less, and take turns.
const EXPENSIVE: Duration = Duration::from_micros(500);

/// Most entries of a batch that the decider syncs itself: with more of them it had better decide what comes next.
const LONE_ENTRIES: usize = 8;

/// How often is looked for what is due although no time is known: the watermark moves by itself.
const TICK: Duration = Duration::from_millis(100);

pub(super) struct Decider<J> {
    inbox: Arc<Inbox>,
    /// Jobs that were taken, and not decided yet.
    taken: VecDeque<Waiting>,
    syncer: Arc<Syncer<J>>,
    state: Arc<RwLock<State>>,
    watermark: Arc<Watermark>,
    options: Options,
    max_batch_bytes: usize,
    group_commit: GroupCommit<Answer>,
    linger: Linger,
    /// Not all that was due at the last look is recorded.
    more_is_due: bool,
}

impl<J: Journal> Decider<J> {
    pub(super) fn new(
        inbox: Arc<Inbox>,
        syncer: Arc<Syncer<J>>,
        state: Arc<RwLock<State>>,
        watermark: Arc<Watermark>,
        options: Options,
        (max_batch_bytes, linger): (usize, Linger),
    ) -> Self {
        watermark.follow(&state.read());
        Self {
            inbox,
            taken: VecDeque::new(),
            syncer,
            state,
            watermark,
            group_commit: GroupCommit::new(options.max_batch_entries).sealing_at(max_batch_bytes),
            max_batch_bytes,
            linger,
            more_is_due: false,
            options,
        }
    }

    /// Runs until the ledger is closed and everything decided has been handed on, or the syncer has stopped.
    pub(super) fn run(mut self) {
        while self.step().is_some() {}
        // Nobody shall wait for a decision that is not made any more.
        self.inbox.end();
    }

    fn step(&mut self) -> Option<()> {
        let wants = self.wants();
        let longest = match wants {
            Wants::Jobs { .. } => self.until_due(),
            Wants::More { longest, .. } => longest,
            Wants::Syncer | Wants::Nothing => LONGEST,
        };
        let woken = self
            .inbox
            .wait(wants, longest, GROUP_JOBS, &mut self.taken)?;
        if !matches!(woken.gate, Gate::Open | Gate::Closing) {
            self.more_is_due = false;
            if woken.gate == Gate::Voiding {
                self.drop_decided();
            }
            return (!woken.closed).then_some(());
        }
        if let Some(idle) = woken.idle {
            self.group_commit.synced();
            self.linger.synced(idle, self.group_commit.answers());
        }
        if self.group_commit.is_full() {
            return self.hand_on(woken.more);
        }
        if woken.is_barred {
            self.taken.clear();
        }
        let more = self.sit(woken.gate) || woken.more;
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

    /// Nothing is decided here any more, once all that was is durable.
    fn shut(&mut self) {
        if self.group_commit.is_empty() && self.taken.is_empty() && self.inbox.syncer_rests() {
            self.inbox.has_shut();
        }
    }

    /// Another node leads: what was decided and is not durable was decided for nothing. Those who wait for it are refused
    /// so, since their answers are dropped.
    fn drop_decided(&mut self) {
        self.taken.clear();
        if let Some(marks) = self.syncer.marks.get() {
            marks.void();
        }
        self.group_commit =
            GroupCommit::new(self.options.max_batch_entries).sealing_at(self.max_batch_bytes);
        self.linger.forget();
        self.inbox.has_voided();
    }

    /// Whether what is decided waits for more.
    fn lingers(&self) -> bool {
        let decided = self.group_commit.answers();
        let is_all = self.taken.is_empty() && !self.group_commit.is_full();
        is_all && self.linger.wait(Instant::now(), decided).is_some()
    }

    fn wants(&self) -> Wants {
        if self.group_commit.is_full() {
            return Wants::Syncer;
        }
        if !self.taken.is_empty() {
            return Wants::Nothing;
        }
        let decided = self.group_commit.answers();
        if let Some((jobs, longest)) = self.linger.wait(Instant::now(), decided) {
            return Wants::More { jobs, longest };
        }
        let handing = !self.group_commit.is_empty();
        Wants::Jobs { handing }
    }

    /// Decides a group: first what is due, then the jobs that were taken. Gives whether it has put some back.
    fn sit(&mut self, gate: Gate) -> bool {
        let state = self.state.clone();
        let mut state = state.write();
        let began = Instant::now();
        let now = now();
        let watermark = self.watermark.get();
        let policy = &self.options.policy;
        // Whoever decides next records what is due from now on.
        self.more_is_due = gate == Gate::Open
            && self
                .group_commit
                .record_due(&mut state, now, watermark, policy);
        let mut meter = JobMeter::start();
        let mut has_put_back = false;
        while let Some(Waiting { turn, job }) = self.taken.pop_front() {
            let mut context = DecisionContext {
                transaction: self.group_commit.transaction(&mut state, now),
                policy,
                closes: false,
            };
            let answer = job(&mut context);
            let closes = context.closes;
            let expensive = meter.took();
            if let (Some(took), Some(principal)) = (expensive, turn.principal()) {
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
        let next = [
            state.next_expiration(),
            state.next_lapse(),
            state.next_override_end(),
        ]
        .into_iter()
        .flatten()
        .min();
        let Some(next) = next else {
            return LONGEST;
        };
        let wait = next.since(now()).nanoseconds();
        match u64::try_from(wait) {
            // A nanosecond more, since an object counts up to and at its limit.
            Ok(wait) => Duration::from_nanos(wait.saturating_add(1)).min(LONGEST),
            Err(_) => TICK,
        }
    }

    /// Takes an image of the state behind a sealed batch, if one is due. Nothing was decided since.
    fn mark(&self, sealed: &SealedBatch<Answer>) {
        let Some(marks) = self.syncer.marks.get().filter(|_| !sealed.is_empty()) else {
            return;
        };
        // Batches are sealed one at a time: the one before is durable.
        let before = self.syncer.durable.borrow().time;
        let state = self.state.read();
        let head = state.head();
        if marks.is_due(before, head.time) {
            let (sequence, image) = (head.sequence, state.image());
            marks.seal(Marked { sequence, image });
        }
    }

    /// Has a batch synced, if one can be. Whoever asks alone gets the answer without another thread being woken.
    fn hand_on(&mut self, more: bool) -> Option<()> {
        let Some(closed) = self.group_commit.seal() else {
            return Some(());
        };
        self.mark(&closed);
        self.linger.sent(Instant::now(), closed.answers());
        let is_lone = closed.answers() <= 1 && closed.len() <= LONE_ENTRIES;
        if more || !self.taken.is_empty() || !is_lone {
            self.inbox.hand_on(closed);
            return Some(());
        }
        if self.syncer.sync(closed)? {
            self.group_commit.synced();
            self.linger.synced(self.inbox.idle_now(), 0);
        }
        Some(())
    }
}

/// Finds out which jobs of a group are expensive. The time of day is looked at for each of them, that of the processor, which
/// costs more, only for those that may be.
struct JobMeter {
    processor: Meter,
    /// What was decided since the processor's time was looked at.
    cheap: Duration,
    at: Instant,
}

impl JobMeter {
    fn start() -> Self {
        Self {
            processor: Meter::start(),
            cheap: Duration::ZERO,
            at: Instant::now(),
        }
    }

    /// What the job took that was just done, if it was expensive. Time in which another thread had the processor does not
    /// count.
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
