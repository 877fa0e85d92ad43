//! What waits for the two threads, and what they sleep on.
//!
//! A wake-up costs more than a decision. So while a batch is being synced, the decider is not woken for each job
//! but for many: nobody gets an answer before the sync is over anyway.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use quota_ledger::group_commit::SealedBatch;
use quota_semantics::Name;
use tokio::sync::watch;

use super::{
    Answer, Job, Unavailable,
    lanes::{self, Lanes, Turn},
    linger::Idle,
};
use crate::pacing::ACTIVITY;

/// Jobs that are worth a wake-up while the syncer is busy.
const WORTH_WAKING: usize = 64;

pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// There is something for the decider.
    for_decider: Condvar,
    /// There is something for the syncer.
    for_syncer: Condvar,
    capacity: usize,
    /// Tells whoever changes the role how far the decider is.
    gate: watch::Sender<Gate>,
}

/// Whether decisions are made here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    /// They are.
    Open,
    /// No new ones are taken; those that were taken are decided and made durable.
    Closing,
    /// None are made, and the state is that of the journal: another node decides.
    Shut,
    /// Another node leads: what was decided and is not durable is being dropped.
    Voiding,
    /// None are made, and the state holds decisions that were dropped: it has to be rebuilt.
    Void,
}

struct Waiting {
    jobs: Lanes,
    /// What the syncer is to make durable next.
    batch: Option<SealedBatch<Answer>>,
    /// It can take a batch since then; none while it is busy.
    idle: Option<Idle>,
    /// There will be no more jobs.
    closed: bool,
    /// One of the two threads has gone: nothing is decided any more.
    ended: bool,
    gate: Gate,
    /// The state is not what it should be: the gate is not opened any more.
    is_barred: bool,
    /// How often the gate was opened.
    term: u64,
    /// What the decider sleeps for; none while it is awake.
    sleeps_for: Option<Wants>,
}

/// What the decider finds when it wakes up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    /// None while the syncer is busy.
    pub(super) idle: Option<Idle>,
    pub(super) closed: bool,
    /// Whether jobs wait that can be taken and were not.
    pub(super) more: bool,
    pub(super) gate: Gate,
    /// What was taken and is not decided is not to be decided.
    pub(super) is_barred: bool,
}

/// What the decider waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// Jobs, or an idle syncer if `handing` something on.
    Jobs {
        /// Something is decided, and goes to the syncer as soon as it is idle.
        handing: bool,
    },
    /// So many jobs, although the syncer is idle, but for no longer.
    More { jobs: usize, longest: Duration },
    /// An idle syncer, and nothing else.
    Syncer,
    /// To go on at once: there is work left.
    Nothing,
}

impl Waiting {
    fn idle_now(&self) -> Idle {
        Idle {
            since: Instant::now(),
            waiting: self.jobs.ready(),
        }
    }

    /// Nobody waits longer than the account says, and at the end nobody at all.
    fn end_delays(&mut self, now: Instant) {
        match self.closed || self.gate != Gate::Open {
            true => self.jobs.end_all_delays(),
            false => self.jobs.end_delays(now),
        }
    }

    fn have(&self, wants: Wants, capacity: usize) -> bool {
        let idle = self.idle.is_some();
        // A full inbox is always worth it: it sheds what comes next.
        let enough = if idle { 1 } else { WORTH_WAKING.min(capacity) };
        match self.gate {
            Gate::Open => {}
            Gate::Closing => return self.ended || idle || wants == Wants::Nothing,
            Gate::Voiding => return true,
            Gate::Shut | Gate::Void => return self.ended || self.closed,
        }
        self.ended
            || match wants {
                Wants::Nothing => true,
                Wants::Syncer => idle,
                Wants::More { jobs, .. } => {
                    self.closed || self.jobs.ready() >= jobs.min(WORTH_WAKING).min(capacity)
                }
                Wants::Jobs { handing } => {
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
                idle: Some(Idle {
                    since: Instant::now(),
                    waiting: 0,
                }),
                closed: false,
                ended: false,
                gate,
                is_barred: false,
                term: 0,
                sleeps_for: None,
            }),
            for_decider: Condvar::new(),
            for_syncer: Condvar::new(),
            capacity,
            gate: watch::Sender::new(gate),
        }
    }

    /// Whether decisions are made, and when that changes.
    pub(super) fn gate(&self) -> watch::Receiver<Gate> {
        self.gate.subscribe()
    }

    /// Whether decisions are made.
    pub(super) fn is_open(&self) -> bool {
        *self.gate.borrow() == Gate::Open
    }

    /// How often decisions began to be made.
    pub(super) fn term(&self) -> u64 {
        self.waiting.lock().term
    }

    /// From now on decisions are made. The state is that of the journal. If it is barred, none are.
    pub(super) fn open(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.is_barred {
            return;
        }
        waiting.term += 1;
        self.set_gate(&mut waiting, Gate::Open);
        self.wake_at_once(waiting);
    }

    /// Takes no more decisions until it is opened again; those that were taken are made. The gate is shut when all of
    /// them are durable.
    pub(super) fn begin_to_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Open {
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
    }

    /// Shuts the gate for good, whoever leads: what was not decided yet is dropped.
    pub(super) fn bar(&self) {
        let mut waiting = self.waiting.lock();
        waiting.is_barred = true;
        let dropped = std::mem::take(&mut waiting.jobs);
        if waiting.gate == Gate::Open {
            self.set_gate(&mut waiting, Gate::Closing);
        }
        self.wake_decider(waiting);
        drop(dropped);
    }

    /// Takes decisions again, since the role was not given away after all.
    pub(super) fn stay_open(&self) {
        let mut waiting = self.waiting.lock();
        if !waiting.is_barred && matches!(waiting.gate, Gate::Closing | Gate::Shut) {
            self.set_gate(&mut waiting, Gate::Open);
        }
        self.wake_at_once(waiting);
    }

    /// What a decision is told whose answer was dropped.
    pub(super) fn why_dropped(&self) -> Unavailable {
        let waiting = self.waiting.lock();
        match waiting.closed || waiting.ended {
            true => Unavailable::Stopped,
            false => Unavailable::NotLeader,
        }
    }

    /// Whether the syncer has nothing to do.
    pub(super) fn syncer_rests(&self) -> bool {
        self.waiting.lock().idle.is_some()
    }

    /// The decider has made all decisions that it took, and they are durable. What it has put back is decided first.
    pub(super) fn has_shut(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.gate == Gate::Closing && waiting.jobs.is_empty() {
            self.set_gate(&mut waiting, Gate::Shut);
        }
    }

    /// The decider has dropped what was decided.
    pub(super) fn has_voided(&self) {
        self.set_gate_from(Gate::Voiding, Gate::Void);
    }

    /// The state was rebuilt from the journal.
    pub(super) fn is_rebuilt(&self) {
        self.set_gate_from(Gate::Void, Gate::Shut);
    }

    /// What was decided in this term and is not durable will never be.
    pub(super) fn void(&self, term: u64) {
        let mut waiting = self.waiting.lock();
        if waiting.term != term || !matches!(waiting.gate, Gate::Open | Gate::Closing | Gate::Shut)
        {
            return;
        }
        waiting.idle = Some(waiting.idle_now());
        let dropped = (waiting.batch.take(), std::mem::take(&mut waiting.jobs));
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

    /// What the decider sleeps for may have changed.
    fn wake_at_once(&self, mut waiting: MutexGuard<'_, Waiting>) {
        waiting.sleeps_for = None;
        drop(waiting);
        self.for_decider.notify_one();
    }

    fn set_gate(&self, waiting: &mut Waiting, gate: Gate) {
        waiting.gate = gate;
        self.gate.send_replace(gate);
    }

    /// Takes jobs in that are to be decided one after the other. If there is room for one, all of them are taken.
    pub(super) fn push(
        &self,
        turn: &Turn,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Result<(), Unavailable> {
        ACTIVITY.note(turn.principal(), Instant::now());
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.ended {
            return Err(Unavailable::Stopped);
        }
        if waiting.gate != Gate::Open {
            return Err(Unavailable::NotLeader);
        }
        if !waiting.jobs.have_room(turn, self.capacity) {
            return Err(Unavailable::Overloaded);
        }
        for job in jobs {
            let turn = turn.clone();
            waiting.jobs.push(lanes::Waiting { turn, job });
        }
        self.wake_decider(waiting);
        Ok(())
    }

    /// Puts back jobs that were taken and not decided: what has come meanwhile may have to be decided before them. If the
    /// gate was shut for good meanwhile, they are dropped.
    pub(super) fn put_back(&self, taken: &mut VecDeque<lanes::Waiting>) {
        let mut waiting = self.waiting.lock();
        if waiting.is_barred {
            drop(waiting);
            taken.clear();
            return;
        }
        while let Some(last) = taken.pop_back() {
            waiting.jobs.put_back(last);
        }
    }

    /// Notes what a decision for a principal took.
    pub(super) fn charge(&self, principal: &Name, work: Duration) {
        let mut waiting = self.waiting.lock();
        waiting.jobs.charge(principal, work, Instant::now());
    }

    /// Takes no more jobs; those that wait are still decided.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        self.wake_decider(waiting);
    }

    /// Gives the idle syncer a batch. If all that was decided became void meanwhile, the batch is dropped.
    pub(super) fn hand_on(&self, batch: SealedBatch<Answer>) {
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

    /// Sleeps until there is a batch. Gives it and the term that it was decided in. None: one of the two threads has gone.
    pub(super) fn next_batch(&self) -> Option<(SealedBatch<Answer>, u64)> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.batch.is_some() || waiting.ended {
                let term = waiting.term;
                return waiting.batch.take().map(|batch| (batch, term));
            }
            self.for_syncer.wait(&mut waiting);
        }
    }

    /// The syncer has made its batch durable, and can take the next.
    pub(super) fn syncer_is_idle(&self) {
        let mut waiting = self.waiting.lock();
        waiting.idle = Some(waiting.idle_now());
        self.wake_decider(waiting);
    }

    /// The decider has made its batch durable by itself: from now on the next one can go.
    pub(super) fn idle_now(&self) -> Idle {
        self.waiting.lock().idle_now()
    }

    /// Nothing is decided any more. Jobs that wait are dropped, with their answers.
    pub(super) fn end(&self) {
        let mut waiting = self.waiting.lock();
        waiting.ended = true;
        let dropped = std::mem::take(&mut waiting.jobs);
        self.wake_decider(waiting);
        self.for_syncer.notify_one();
        drop(dropped);
    }

    /// Wakes the decider if there is what it sleeps for.
    fn wake_decider(&self, mut waiting: MutexGuard<'_, Waiting>) {
        let wants = waiting.sleeps_for;
        if wants.is_some_and(|wants| waiting.have(wants, self.capacity)) {
            waiting.sleeps_for = None;
            drop(waiting);
            self.for_decider.notify_one();
        }
    }

    /// Sleeps until there is what is wanted, or for so long, and moves jobs into `taken` as long as that has fewer
    /// than `most`. None: one of the two threads has gone.
    pub(super) fn wait(
        &self,
        wants: Wants,
        longest: Duration,
        most: usize,
        taken: &mut VecDeque<lanes::Waiting>,
    ) -> Option<Woken> {
        let mut waiting = self.waiting.lock();
        waiting.end_delays(Instant::now());
        if !waiting.have(wants, self.capacity) {
            waiting.sleeps_for = Some(wants);
            let next_ready = waiting.jobs.next_ready();
            let longest = next_ready.map_or(longest, |at| {
                longest.min(at.saturating_duration_since(Instant::now()))
            });
            let condition = |waiting: &mut Waiting| waiting.sleeps_for.is_some();
            self.for_decider
                .wait_while_for(&mut waiting, condition, longest);
            waiting.sleeps_for = None;
            waiting.end_delays(Instant::now());
        }
        if waiting.ended {
            return None;
        }
        if wants != Wants::Syncer {
            let room = most.saturating_sub(taken.len());
            let now = Instant::now();
            taken.extend(std::iter::from_fn(|| waiting.jobs.pop(now)).take(room));
        }
        Some(Woken {
            idle: waiting.idle,
            closed: waiting.closed,
            more: waiting.jobs.ready() > 0,
            gate: waiting.gate,
            is_barred: waiting.is_barred,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use quota_ledger::group_commit::GroupCommit;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const JOBS: Wants = Wants::Jobs { handing: false };
    const HANDING: Wants = Wants::Jobs { handing: true };

    fn job() -> Job {
        Box::new(|_| Box::new(|_| {}))
    }

    fn push(inbox: &Inbox) -> Result<(), Unavailable> {
        inbox.push(&Turn::First, [job()])
    }

    fn batch() -> SealedBatch<Answer> {
        let mut group_commit = GroupCommit::new(1);
        group_commit.decided(Box::new(|_: &_| {}) as Answer, true);
        group_commit.seal().unwrap()
    }

    /// What is found, and how many jobs are taken.
    fn wait(inbox: &Inbox, wants: Wants, longest: Duration) -> Option<(Woken, usize)> {
        let mut taken = VecDeque::new();
        let woken = inbox.wait(wants, longest, usize::MAX, &mut taken)?;
        Some((woken, taken.len()))
    }

    #[test]
    fn a_batch_that_is_void_before_it_is_handed_on_leaves_the_syncer_idle() {
        let inbox = Inbox::new(8, Gate::Shut);
        inbox.open();
        inbox.void(inbox.term());
        inbox.hand_on(batch());
        inbox.has_voided();
        inbox.hand_on(batch());
        inbox.is_rebuilt();
        inbox.open();
        assert!(inbox.syncer_rests());
        inbox.begin_to_shut();
        inbox.close();
        let (woken, _) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(woken.idle.is_some() && woken.closed);
    }

    #[test]
    fn what_is_barred_drops_what_waits_and_is_not_opened_again() {
        let inbox = Inbox::new(8, Gate::Open);
        push(&inbox).unwrap();
        inbox.bar();
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert_eq!((woken.gate, taken), (Gate::Closing, 0));
        inbox.stay_open();
        inbox.has_shut();
        inbox.open();
        inbox.stay_open();
        assert_eq!(push(&inbox), Err(Unavailable::NotLeader));
        assert_eq!(*inbox.gate().borrow(), Gate::Shut);
    }

    #[test]
    fn one_job_wakes_while_the_syncer_is_idle() {
        let inbox = Arc::new(Inbox::new(8, Gate::Open));
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || push(&pushing));
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(woken.idle.is_some() && !woken.more);
        assert_eq!(taken, 1);
        pushed.join().unwrap().unwrap();
    }

    #[test]
    fn while_it_is_busy_only_many_jobs_or_its_end_do() {
        let inbox = Arc::new(Inbox::new(2 * WORTH_WAKING, Gate::Open));
        inbox.hand_on(batch());
        assert!(inbox.next_batch().is_some());
        push(&inbox).unwrap();
        let (woken, taken) = wait(&inbox, JOBS, Duration::ZERO).unwrap();
        assert!(woken.idle.is_none());
        assert_eq!(taken, 1);
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || {
            (0..WORTH_WAKING).for_each(|_| push(&pushing).unwrap());
        });
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(woken.idle.is_none());
        assert_eq!(taken, WORTH_WAKING);
        pushed.join().unwrap();

        push(&inbox).unwrap();
        let syncing = inbox.clone();
        let synced = thread::spawn(move || syncing.syncer_is_idle());
        assert!(wait(&inbox, JOBS, LONG).unwrap().0.idle.is_some());
        synced.join().unwrap();
    }

    #[test]
    fn what_is_decided_waits_for_the_syncer_alone() {
        let inbox = Inbox::new(8, Gate::Open);
        inbox.hand_on(batch());
        let (woken, _) = wait(&inbox, HANDING, Duration::ZERO).unwrap();
        assert!(woken.idle.is_none());
        push(&inbox).unwrap();
        let (woken, taken) = wait(&inbox, Wants::Syncer, Duration::ZERO).unwrap();
        assert!(woken.idle.is_none() && woken.more);
        assert_eq!(taken, 0);
        inbox.syncer_is_idle();
        assert!(wait(&inbox, HANDING, LONG).unwrap().0.idle.is_some());
    }

    #[test]
    fn a_batch_that_lingers_waits_for_many_jobs_or_its_time() {
        let inbox = Arc::new(Inbox::new(8, Gate::Open));
        let more = |longest| Wants::More { jobs: 3, longest };
        push(&inbox).unwrap();
        let (_, taken) = wait(&inbox, more(Duration::ZERO), Duration::ZERO).unwrap();
        assert_eq!(taken, 1, "its time is over");
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || (0..3).for_each(|_| push(&pushing).unwrap()));
        let (_, taken) = wait(&inbox, more(LONG), LONG).unwrap();
        assert_eq!(taken, 3);
        pushed.join().unwrap();
        inbox.close();
        let (woken, taken) = wait(&inbox, more(LONG), LONG).unwrap();
        assert!(woken.closed && taken == 0);
    }

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let inbox = Inbox::new(8, Gate::Open);
        (0..5).for_each(|_| push(&inbox).unwrap());
        let mut taken = VecDeque::from([lanes::Waiting {
            turn: Turn::First,
            job: job(),
        }]);
        let woken = inbox.wait(JOBS, LONG, 3, &mut taken).unwrap();
        assert_eq!((taken.len(), woken.more), (3, true));
        let woken = inbox.wait(Wants::Nothing, LONG, 6, &mut taken).unwrap();
        assert_eq!((taken.len(), woken.more), (6, false));
    }

    #[test]
    fn a_full_queue_sheds() {
        let inbox = Inbox::new(1, Gate::Open);
        push(&inbox).unwrap();
        assert_eq!(push(&inbox), Err(Unavailable::Overloaded));
        assert_eq!(wait(&inbox, JOBS, LONG).unwrap().1, 1);
        push(&inbox).unwrap();
    }

    #[test]
    fn a_closed_one_gives_what_waits_and_takes_no_more() {
        let inbox = Inbox::new(8, Gate::Open);
        push(&inbox).unwrap();
        inbox.close();
        assert_eq!(push(&inbox), Err(Unavailable::Stopped));
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(woken.closed);
        assert_eq!(taken, 1);
        // With a batch on its way, the end waits for it.
        inbox.hand_on(batch());
        let (woken, _) = wait(&inbox, HANDING, Duration::ZERO).unwrap();
        assert!(woken.closed && woken.idle.is_none());
    }

    #[test]
    fn the_end_drops_what_waits_and_wakes_both() {
        let inbox = Arc::new(Inbox::new(8, Gate::Open));
        push(&inbox).unwrap();
        let ending = inbox.clone();
        let ended = thread::spawn(move || ending.end());
        assert!(inbox.next_batch().is_none());
        ended.join().unwrap();
        assert!(wait(&inbox, Wants::Syncer, LONG).is_none());
        assert_eq!(push(&inbox), Err(Unavailable::Stopped));
    }
}
