//! The deciding thread: takes jobs, decides them on the state, hands batches on.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError};
use parking_lot::RwLock;
use quota_ledger::{
    batcher::{Batcher, Closed},
    state::State,
};

use super::{Answer, Job, Options, Sitting, Watermark, now};

/// Most jobs decided under one hold of the state's lock: readers wait no longer than that.
const GROUP_JOBS: usize = 128;

/// How often is looked for what is due although no time is known: the watermark moves by itself.
const TICK: Duration = Duration::from_millis(100);

pub(super) struct Decider {
    jobs: Receiver<Option<Job>>,
    closed: Sender<Closed<Answer>>,
    idle: Receiver<()>,
    state: Arc<RwLock<State>>,
    watermark: Arc<Watermark>,
    options: Options,
    batcher: Batcher<Answer>,
    /// There will be no more jobs.
    ended: bool,
    /// Tells the handles that there are no more decisions.
    over: Arc<AtomicBool>,
}

impl Decider {
    pub(super) fn new(
        jobs: Receiver<Option<Job>>,
        closed: Sender<Closed<Answer>>,
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
            batcher: Batcher::new(options.max_batch_entries),
            options,
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
        // Full, and not handed on: the syncer is busy.
        if self.batcher.is_full() {
            self.idle.recv().ok()?;
            self.batcher.synced();
            return self.hand_on();
        }
        crossbeam_channel::select! {
            recv(self.jobs) -> job => match job.ok().flatten() {
                Some(job) => self.sit(Some(job)),
                None => self.ended = true,
            },
            recv(self.idle) -> signal => {
                signal.ok()?;
                self.batcher.synced();
            }
            default(self.until_due()) => self.sit(None),
        }
        if self.ended {
            self.finish();
            return None;
        }
        self.hand_on()
    }

    /// Decides a group: first what is due, then the job and those that wait behind it.
    fn sit(&mut self, job: Option<Job>) {
        let state = self.state.clone();
        let mut state = state.write();
        let now = now();
        let watermark = self.watermark.get();
        let policy = &self.options.policy;
        self.batcher.record_due(&mut state, now, watermark, policy);
        let mut next = job;
        let mut decided = 0;
        while let Some(job) = next.take() {
            let mut sitting = Sitting {
                desk: self.batcher.desk(&mut state, now),
                policy,
                closes: false,
            };
            let answer = job(&mut sitting);
            let closes = sitting.closes;
            let takes_more = self.batcher.decided(answer, closes);
            decided += 1;
            if !takes_more || decided == GROUP_JOBS {
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
        match self.batcher.hand_on() {
            Some(closed) => self.closed.send(closed).ok(),
            None => Some(()),
        }
    }

    fn finish(&mut self) {
        while !self.batcher.is_empty() {
            if self.hand_on().is_none() || self.idle.recv().is_err() {
                return;
            }
            self.batcher.synced();
        }
    }
}
