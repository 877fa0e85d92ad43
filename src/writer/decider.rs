//! The deciding thread: takes jobs, decides them on the state, hands batches on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use parking_lot::RwLock;
use quota_ledger::{
    Timestamp, decide,
    desk::{Desk, Open},
    event::{Actor, Entry},
    state::State,
};

use super::{Answer, Job, Options, Sitting, Watermark, now};

/// Most jobs decided under one hold of the state's lock: readers wait no longer than that.
const GROUP_JOBS: usize = 128;

/// A batch is closed at about this many bytes, well below what the journal takes.
const BATCH_BYTES: usize = 4 * 1024 * 1024;

/// How often is looked for what is due although no time is known: the watermark moves by itself.
const TICK: Duration = Duration::from_millis(100);

/// Entries and answers that go to the syncer together.
pub(super) struct Closed {
    pub(super) entries: Vec<Entry>,
    pub(super) answers: Vec<Answer>,
}

pub(super) struct Decider {
    jobs: Receiver<Option<Job>>,
    closed: Sender<Closed>,
    idle: Receiver<()>,
    state: Arc<RwLock<State>>,
    watermark: Arc<Watermark>,
    options: Options,
    clock: Arc<Actor>,
    open: Open,
    answers: Vec<Answer>,
    syncer_is_idle: bool,
    /// A decision wants its batch to end with it.
    closes: bool,
    /// There will be no more jobs.
    ended: bool,
    /// Tells the handles that there are no more decisions.
    over: Arc<AtomicBool>,
}

impl Decider {
    pub(super) fn new(
        jobs: Receiver<Option<Job>>,
        closed: Sender<Closed>,
        idle: Receiver<()>,
        state: Arc<RwLock<State>>,
        watermark: Arc<Watermark>,
        options: Options,
        over: Arc<AtomicBool>,
    ) -> Self {
        Self {
            jobs,
            closed,
            idle,
            state,
            watermark,
            options,
            clock: Actor::named("clock"),
            open: Open::default(),
            answers: Vec::new(),
            syncer_is_idle: true,
            closes: false,
            ended: false,
            over,
        }
    }

    /// Runs until the ledger is closed and everything decided has been handed on, or the syncer has stopped.
    pub(super) fn run(mut self) {
        while self.step().is_some() {}
        // Nobody shall wait for a decision that is not made any more.
        self.over.store(true, Ordering::SeqCst);
        while self.jobs.try_recv().is_ok() {}
    }

    fn step(&mut self) -> Option<()> {
        if self.must_hand_on() {
            self.idle.recv().ok()?;
            self.syncer_is_idle = true;
            return self.hand_on();
        }
        crossbeam_channel::select! {
            recv(self.jobs) -> job => match job.ok().flatten() {
                Some(job) => self.sit(Some(job)),
                None => self.ended = true,
            },
            recv(self.idle) -> signal => {
                signal.ok()?;
                self.syncer_is_idle = true;
            }
            default(self.until_due()) => self.sit(None),
        }
        if self.ended {
            self.finish();
            return None;
        }
        self.hand_on()
    }

    /// The batch can take no more: nothing is decided until the syncer has taken it.
    fn must_hand_on(&self) -> bool {
        let full = self.closes
            || self.open.len() >= self.options.max_batch_entries
            || self.open.bytes() >= BATCH_BYTES;
        full && !self.syncer_is_idle
    }

    /// Decides a group: first what is due, then the job and those that wait behind it.
    fn sit(&mut self, job: Option<Job>) {
        let state = self.state.clone();
        let mut state = state.write();
        let now = now();
        self.emit_due(&mut state, now);
        let mut next = job;
        let mut decided = 0;
        while let Some(job) = next.take() {
            let desk = Desk::new(&mut state, &mut self.open, now);
            let mut sitting = Sitting {
                desk,
                policy: &self.options.policy,
                closes: false,
            };
            let answer = job(&mut sitting);
            self.closes |= sitting.closes;
            self.answers.push(answer);
            let full = self.open.len() >= self.options.max_batch_entries;
            decided += 1;
            let over = decided == GROUP_JOBS || self.open.bytes() >= BATCH_BYTES;
            if self.closes || full || over {
                break;
            }
            next = match self.jobs.try_recv() {
                Ok(Some(job)) => Some(job),
                Ok(None) | Err(TryRecvError::Disconnected) => {
                    self.ended = true;
                    None
                }
                Err(TryRecvError::Empty) => None,
            };
        }
    }

    fn emit_due(&mut self, state: &mut State, now: Timestamp) {
        let mut desk = Desk::new(state, &mut self.open, now);
        let max_hold = self.options.policy.max_hold;
        let events = decide::due(desk.state(), desk.now(), self.watermark.get(), max_hold);
        desk.record(&self.clock, events);
    }

    fn until_due(&self) -> Duration {
        let state = self.state.read();
        let next = [state.next_expiration(), state.next_lapse()]
            .into_iter()
            .flatten()
            .min();
        let Some(next) = next else {
            return Duration::from_secs(3600);
        };
        let wait = next.since(now()).nanoseconds();
        match u64::try_from(wait) {
            // A nanosecond more, since an object counts up to and at its limit.
            Ok(wait) => Duration::from_nanos(wait.saturating_add(1)).min(Duration::from_secs(3600)),
            Err(_) => TICK,
        }
    }

    fn hand_on(&mut self) -> Option<()> {
        if !self.syncer_is_idle || (self.open.is_empty() && self.answers.is_empty()) {
            return Some(());
        }
        let closed = Closed {
            entries: self.open.take(),
            answers: std::mem::take(&mut self.answers),
        };
        self.closes = false;
        self.syncer_is_idle = false;
        self.closed.send(closed).ok()
    }

    fn finish(&mut self) {
        while !(self.open.is_empty() && self.answers.is_empty()) {
            if !self.syncer_is_idle && self.idle.recv().is_err() {
                return;
            }
            self.syncer_is_idle = true;
            if self.hand_on().is_none() {
                return;
            }
        }
    }
}
