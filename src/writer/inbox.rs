//! The shared queue of the two threads, and the conditions on which they sleep.
//!
//! A wake-up costs more than a decision. So while a batch is being synced, the decider is woken only for many jobs: no
//! caller gets an answer before the sync is over anyway.

#[cfg(test)]
mod tests;

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use quota_ledger::group_commit::ClosedBatch;
use quota_semantics::Name;
use tokio::sync::watch;

use super::{Answer, Job, Unavailable, decider::Idle};
use crate::fairness::{ACTIVITY, Lane, Lanes, Queued};

/// Jobs that are worth a wake-up while the syncer is busy.
const WORTH_WAKING: usize = 64;

pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// Wakes the decider.
    for_decider: Condvar,
    /// Wakes the syncer.
    for_syncer: Condvar,
    capacity: usize,
    /// Reports the decider's progress to the task that changes the role.
    gate: watch::Sender<Gate>,
}

struct Waiting {
    jobs: Lanes<Job>,
    /// The next batch for the syncer.
    batch: Option<ClosedBatch<Answer>>,
    /// Since when the syncer has been idle; none while it is busy.
    idle: Option<Idle>,
    /// No further jobs are accepted.
    closed: bool,
    /// One of the two threads has ended: nothing is decided any more.
    ended: bool,
    gate: Gate,
    /// The state may be wrong: the gate is not opened any more.
    is_barred: bool,
    /// The clock is wrong: the gate is not opened until it is right.
    is_suspended: bool,
    /// Whether the gate that is being shut can be opened again: no other node has led since.
    may_stay_open: bool,
    /// How often the gate was opened.
    term: u64,
    /// What the sleeping decider waits for; none while it is awake.
    sleeps_for: Option<WakeCondition>,
}

/// The situation in which the decider wakes up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    /// None while the syncer is busy.
    pub(super) idle: Option<Idle>,
    pub(super) closed: bool,
    /// Whether more jobs can be taken than were taken.
    pub(super) more: bool,
    pub(super) gate: Gate,
    /// Jobs that were taken and are not decided must not be decided.
    pub(super) is_barred: bool,
}

/// The conditions that the decider waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WakeCondition {
    /// Jobs, or an idle syncer if `handing` something on.
    Jobs {
        /// A decided batch goes to the syncer as soon as it is idle.
        handing: bool,
    },
    /// This many jobs, although the syncer is idle; but at most for this time.
    More { jobs: usize, longest: Duration },
    /// An idle syncer, and nothing else.
    Syncer,
    /// Nothing, since there is work left.
    Nothing,
}

impl Waiting {
    const fn must_not_decide(&self) -> bool {
        self.is_barred || self.is_suspended
    }

    fn idle_now(&self) -> Idle {
        Idle { since: Instant::now(), waiting: self.jobs.ready() }
    }

    /// Ends delays by the accounts' times; when closing, ends all delays.
    fn end_delays(&mut self, now: Instant) {
        match self.closed || self.gate != Gate::Open {
            true => self.jobs.end_all_delays(),
            false => self.jobs.end_delays(now),
        }
    }

    fn have(&self, wants: WakeCondition, capacity: usize) -> bool {
        let idle = self.idle.is_some();
        // A full inbox is always reason enough: it refuses further jobs.
        let enough = if idle { 1 } else { WORTH_WAKING.min(capacity) };
        match self.gate {
            Gate::Open => {}
            Gate::Closing => return self.ended || idle || wants == WakeCondition::Nothing,
            Gate::Voiding => return self.ended || idle,
            Gate::Shut | Gate::Void => return self.ended || self.closed,
        }
        self.ended
            || match wants {
                WakeCondition::Nothing => true,
                WakeCondition::Syncer => idle,
                WakeCondition::More { jobs, .. } => {
                    self.closed || self.jobs.ready() >= jobs.min(WORTH_WAKING).min(capacity)
                }
                WakeCondition::Jobs { handing } => {
                    let done = self.closed && !handing;
                    self.jobs.ready() >= enough || (handing && idle) || done
                }
            }
    }
}

impl Inbox {
    pub(super) fn new(capacity: usize, gate: Gate) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                jobs: Lanes::default(),
                batch: None,
                idle: Some(Idle { since: Instant::now(), waiting: 0 }),
                closed: false,
                ended: false,
                gate,
                is_barred: false,
                is_suspended: false,
                may_stay_open: false,
                term: 0,
                sleeps_for: None,
            }),
            for_decider: Condvar::new(),
            for_syncer: Condvar::new(),
            capacity,
            gate: watch::Sender::new(gate),
        }
    }

    /// Why a decision has no answer. Before the first term no other node can lead: then the ledger has failed, although
    /// this may not be recorded yet, and the decision may be durable.
    pub(super) fn why_dropped(&self) -> Unavailable {
        let waiting = self.waiting.lock();
        let is_alone = waiting.term == 0 && !waiting.must_not_decide();
        match waiting.closed || waiting.ended || is_alone {
            true => Unavailable::Stopped,
            false => Unavailable::NotLeader,
        }
    }

    /// Whether the syncer is idle.
    pub(super) fn syncer_rests(&self) -> bool {
        self.waiting.lock().idle.is_some()
    }

    /// Accepts jobs that are to be decided one after the other: all of them, or none.
    pub(super) fn push(
        &self,
        lane: &Lane,
        jobs: impl IntoIterator<Item = Job, IntoIter: ExactSizeIterator>,
    ) -> Result<(), Unavailable> {
        ACTIVITY.note(lane.principal(), Instant::now());
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.ended {
            return Err(Unavailable::Stopped);
        }
        if waiting.gate != Gate::Open {
            return Err(Unavailable::NotLeader);
        }
        let jobs = jobs.into_iter();
        if !waiting.jobs.have_room(lane, jobs.len(), self.capacity) {
            return Err(Unavailable::Overloaded);
        }
        for job in jobs {
            let lane = lane.clone();
            waiting.jobs.push(Queued { lane, job });
        }
        self.wake_decider(waiting);
        Ok(())
    }

    /// Puts back jobs that were taken and not decided: jobs that arrived meanwhile may have precedence. If the gate was
    /// barred meanwhile, they are dropped.
    pub(super) fn put_back(&self, taken: &mut VecDeque<Queued<Job>>) {
        let mut waiting = self.waiting.lock();
        if waiting.must_not_decide() {
            drop(waiting);
            taken.clear();
            return;
        }
        while let Some(last) = taken.pop_back() {
            waiting.jobs.put_back(last);
        }
    }

    /// Charges a principal for a decision.
    pub(super) fn charge(&self, principal: &Name, work: Duration) {
        let mut waiting = self.waiting.lock();
        waiting.jobs.charge(principal, work, Instant::now());
    }

    /// Accepts no more jobs; waiting ones are still decided.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        self.wake_decider(waiting);
    }

    /// Hands a batch to the idle syncer. If the decisions became void meanwhile, the batch is dropped.
    pub(super) fn hand_on(&self, batch: ClosedBatch<Answer>) {
        let mut waiting = self.waiting.lock();
        if matches!(waiting.gate, Gate::Voiding | Gate::Void) {
            drop(waiting);
            return;
        }
        waiting.idle = None;
        waiting.batch = Some(batch);
        drop(waiting);
        self.for_syncer.notify_one();
    }

    /// Sleeps until there is a batch. Returns the batch and the term of its decisions; none if one of the two threads
    /// has ended.
    pub(super) fn next_batch(&self) -> Option<(ClosedBatch<Answer>, u64)> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.batch.is_some() || waiting.ended {
                let term = waiting.term;
                return waiting.batch.take().map(|batch| (batch, term));
            }
            self.for_syncer.wait(&mut waiting);
        }
    }

    /// The syncer has made its batch durable, or has dropped it, and can take the next one.
    pub(super) fn syncer_is_idle(&self) {
        let mut waiting = self.waiting.lock();
        waiting.idle = Some(waiting.idle_now());
        self.wake_decider(waiting);
    }

    /// The decider has made its batch durable itself: the next one can follow.
    pub(super) fn idle_now(&self) -> Idle {
        self.waiting.lock().idle_now()
    }

    /// Ends all decisions. Waiting jobs are dropped with their answers.
    pub(super) fn end(&self) {
        let mut waiting = self.waiting.lock();
        waiting.ended = true;
        let dropped = std::mem::take(&mut waiting.jobs);
        self.wake_decider(waiting);
        self.for_syncer.notify_one();
        drop(dropped);
    }

    /// Wakes the decider, since the conditions that it waits for may have changed.
    fn wake_at_once(&self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.sleeps_for = None;
        drop(waiting);
        self.for_decider.notify_one();
    }

    /// Wakes the decider if its conditions hold.
    fn wake_decider(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let wants = waiting.sleeps_for;
        if wants.is_some_and(|wants| waiting.have(wants, self.capacity)) {
            waiting.sleeps_for = None;
            drop(waiting);
            self.for_decider.notify_one();
        }
    }

    /// Sleeps until the conditions hold, at most for this time, and moves jobs into `taken` while that has fewer than
    /// `most`. None if one of the two threads has ended.
    pub(super) fn wait(
        &self,
        wants: WakeCondition,
        longest: Duration,
        most: usize,
        taken: &mut VecDeque<Queued<Job>>,
    ) -> Option<Woken> {
        let mut waiting = self.waiting.lock();
        waiting.end_delays(Instant::now());
        if !waiting.have(wants, self.capacity) {
            waiting.sleeps_for = Some(wants);
            let next_ready = waiting.jobs.next_ready();
            let longest = next_ready
                .map_or(longest, |at| longest.min(at.saturating_duration_since(Instant::now())));
            let condition = |waiting: &mut Waiting| waiting.sleeps_for.is_some();
            self.for_decider.wait_while_for(&mut waiting, condition, longest);
            waiting.sleeps_for = None;
            waiting.end_delays(Instant::now());
        }
        if waiting.ended {
            return None;
        }
        if wants != WakeCondition::Syncer {
            let room = most.saturating_sub(taken.len());
            let now = Instant::now();
            taken.extend(std::iter::from_fn(|| waiting.jobs.pop(now)).take(room));
        }
        Some(Woken {
            idle: waiting.idle,
            closed: waiting.closed,
            more: waiting.jobs.ready() > 0,
            gate: waiting.gate,
            is_barred: waiting.must_not_decide(),
        })
    }
}

/// Whether this node makes decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::writer) enum Gate {
    /// Decisions are made.
    Open,
    /// No new jobs are accepted; accepted ones are decided and made durable.
    Closing,
    /// No decisions are made, and the state equals the journal: another node decides.
    Shut,
    /// Another node leads: decisions that are not durable are dropped once the syncer is idle. Until then its batch may
    /// still become durable.
    Voiding,
    /// No decisions are made, and the state holds dropped decisions: it has to be rebuilt.
    Void,
}

impl Inbox {
    /// The gate, and notifications of its changes.
    pub(in crate::writer) fn gate(&self) -> watch::Receiver<Gate> {
        self.gate.subscribe()
    }

    /// Whether decisions are made.
    pub(in crate::writer) fn is_open(&self) -> bool {
        *self.gate.borrow() == Gate::Open
    }

    /// How often the gate was opened.
    pub(in crate::writer) fn term(&self) -> u64 {
        self.waiting.lock().term
    }

    /// Begins to make decisions, unless barred. The state equals the journal.
    pub(in crate::writer) fn open(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.must_not_decide() {
            return;
        }
        waiting.term += 1;
        waiting.may_stay_open = false;
        self.set_gate(&mut waiting, Gate::Open);
        self.wake_at_once(waiting);
    }

    /// Accepts no more jobs until the gate is opened again; accepted ones are decided. The gate is shut when all
    /// decisions are durable.
    pub(in crate::writer) fn begin_to_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Open {
            waiting.may_stay_open = true;
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
    }

    /// Shuts the gate for good, whichever node leads: undecided jobs are dropped.
    pub(in crate::writer) fn bar(&self) {
        self.stop_deciding(|waiting| waiting.is_barred = true);
    }

    /// As [`Inbox::bar`], until [`Inbox::resume`].
    pub(in crate::writer) fn suspend(&self) {
        self.stop_deciding(|waiting| waiting.is_suspended = true);
    }

    /// The gate can be opened again.
    pub(in crate::writer) fn resume(&self) {
        self.waiting.lock().is_suspended = false;
    }

    /// Whether the gate was shut until [`Inbox::resume`].
    pub(in crate::writer) fn is_suspended(&self) -> bool {
        self.waiting.lock().is_suspended
    }

    fn stop_deciding(&self, mark: impl FnOnce(&mut Waiting)) {
        let mut waiting = self.waiting.lock();
        mark(&mut waiting);
        waiting.may_stay_open = false;
        let dropped = std::mem::take(&mut waiting.jobs);
        if waiting.gate == Gate::Open {
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
        drop(dropped);
    }

    /// Accepts jobs again after [`Inbox::begin_to_shut`], unless another node has led since.
    pub(in crate::writer) fn stay_open(&self) {
        let mut waiting = self.waiting.lock();
        if std::mem::take(&mut waiting.may_stay_open) {
            self.set_gate(&mut waiting, Gate::Open);
        }
        self.wake_at_once(waiting);
    }

    /// Another node is to lead: [`Inbox::stay_open`] has no effect any more.
    pub(in crate::writer) fn stay_shut(&self) {
        self.waiting.lock().may_stay_open = false;
    }

    /// The decider has made all its decisions durable. Jobs that it has put back are decided first.
    pub(in crate::writer) fn has_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Closing && waiting.jobs.is_empty() {
            self.set_gate(&mut waiting, Gate::Shut);
        }
    }

    /// The decider has dropped its decisions.
    pub(in crate::writer) fn has_voided(&self) {
        self.set_gate_from(Gate::Voiding, Gate::Void);
    }

    /// The state was rebuilt from the journal.
    pub(in crate::writer) fn is_rebuilt(&self) {
        self.set_gate_from(Gate::Void, Gate::Shut);
    }

    /// Marks decisions of this term that are not durable as void.
    pub(in crate::writer) fn void(&self, term: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.term != term || !matches!(waiting.gate, Gate::Open | Gate::Closing | Gate::Shut)
        {
            return;
        }
        let dropped = (waiting.batch.take(), std::mem::take(&mut waiting.jobs));
        if dropped.0.is_some() {
            waiting.idle = Some(waiting.idle_now());
        }
        waiting.may_stay_open = false;
        self.set_gate(&mut waiting, Gate::Voiding);
        self.wake_decider(waiting);
        drop(dropped);
    }

    fn set_gate_from(&self, before: Gate, gate: Gate) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == before {
            self.set_gate(&mut waiting, gate);
        }
    }

    fn set_gate(&self, waiting: &mut Waiting, gate: Gate) {
        waiting.gate = gate;
        self.gate.send_replace(gate);
    }
}
