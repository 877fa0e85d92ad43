//! What waits for the two threads, and what they sleep on.
//!
//! A wake-up costs more than a decision. So while a batch is being synced, the decider is not woken for each job
//! but for many: nobody gets an answer before the sync is over anyway.

use std::{collections::VecDeque, time::Duration};

use parking_lot::{Condvar, Mutex, MutexGuard};
use quota_ledger::group_commit::SealedBatch;

use super::{
    Answer, Job, Unavailable,
    lanes::{self, Lanes, Turn},
};

/// Jobs that are worth a wake-up while the syncer is busy.
const WORTH_WAKING: usize = 64;

pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    /// There is something for the decider.
    for_decider: Condvar,
    /// There is something for the syncer.
    for_syncer: Condvar,
    capacity: usize,
}

struct Waiting {
    jobs: Lanes,
    /// What the syncer is to make durable next.
    batch: Option<SealedBatch<Answer>>,
    /// Whether it can take a batch.
    syncer_is_idle: bool,
    /// There will be no more jobs.
    closed: bool,
    /// One of the two threads has gone: nothing is decided any more.
    ended: bool,
    /// What the decider sleeps for; none while it is awake.
    sleeps_for: Option<Wants>,
}

/// What the decider finds when it wakes up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    pub(super) syncer_is_idle: bool,
    pub(super) closed: bool,
    /// Whether jobs wait that were not taken.
    pub(super) more: bool,
}

/// What the decider waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wants {
    /// Jobs, or an idle syncer if `handing` something on.
    Jobs {
        /// Something is decided, and goes to the syncer as soon as it is idle.
        handing: bool,
    },
    /// An idle syncer, and nothing else.
    Syncer,
    /// To go on at once: there is work left.
    Nothing,
}

impl Waiting {
    fn have(&self, wants: Wants, capacity: usize) -> bool {
        let idle = self.syncer_is_idle;
        // A full inbox is always worth it: it sheds what comes next.
        let enough = if idle { 1 } else { WORTH_WAKING.min(capacity) };
        self.ended
            || match wants {
                Wants::Nothing => true,
                Wants::Syncer => idle,
                Wants::Jobs { handing } => {
                    let done = self.closed && !handing;
                    self.jobs.len() >= enough || (handing && idle) || done
                }
            }
    }
}

impl Inbox {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                jobs: Lanes::default(),
                batch: None,
                syncer_is_idle: true,
                closed: false,
                ended: false,
                sleeps_for: None,
            }),
            for_decider: Condvar::new(),
            for_syncer: Condvar::new(),
            capacity,
        }
    }

    /// Takes jobs in that are to be decided one after the other. If there is room for one, all of them are taken.
    pub(super) fn push(
        &self,
        turn: &Turn,
        jobs: impl IntoIterator<Item = Job>,
    ) -> Result<(), Unavailable> {
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.ended {
            return Err(Unavailable::Stopped);
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

    /// Puts back jobs that were taken and not decided: what has come meanwhile may have to be decided before them.
    pub(super) fn put_back(&self, taken: &mut VecDeque<lanes::Waiting>) {
        let mut waiting = self.waiting.lock();
        while let Some(last) = taken.pop_back() {
            waiting.jobs.put_back(last);
        }
    }

    /// Takes no more jobs; those that wait are still decided.
    pub(super) fn close(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        self.wake_decider(waiting);
    }

    /// Gives the idle syncer a batch.
    pub(super) fn hand_on(&self, batch: SealedBatch<Answer>) {
        let mut waiting = self.waiting.lock();
        waiting.syncer_is_idle = false;
        waiting.batch = Some(batch);
        drop(waiting);
        self.for_syncer.notify_one();
    }

    /// Sleeps until there is a batch. None: one of the two threads has gone.
    pub(super) fn next_batch(&self) -> Option<SealedBatch<Answer>> {
        let mut waiting = self.waiting.lock();
        loop {
            if waiting.batch.is_some() || waiting.ended {
                return waiting.batch.take();
            }
            self.for_syncer.wait(&mut waiting);
        }
    }

    /// The syncer has made its batch durable, and can take the next.
    pub(super) fn syncer_is_idle(&self) {
        let mut waiting = self.waiting.lock();
        waiting.syncer_is_idle = true;
        self.wake_decider(waiting);
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
        if !waiting.have(wants, self.capacity) {
            waiting.sleeps_for = Some(wants);
            let condition = |waiting: &mut Waiting| waiting.sleeps_for.is_some();
            self.for_decider
                .wait_while_for(&mut waiting, condition, longest);
            waiting.sleeps_for = None;
        }
        if waiting.ended {
            return None;
        }
        if wants != Wants::Syncer {
            let room = most.saturating_sub(taken.len());
            taken.extend(std::iter::from_fn(|| waiting.jobs.pop()).take(room));
        }
        Some(Woken {
            syncer_is_idle: waiting.syncer_is_idle,
            closed: waiting.closed,
            more: !waiting.jobs.is_empty(),
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
    fn one_job_wakes_while_the_syncer_is_idle() {
        let inbox = Arc::new(Inbox::new(8));
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || push(&pushing));
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(woken.syncer_is_idle && !woken.more);
        assert_eq!(taken, 1);
        pushed.join().unwrap().unwrap();
    }

    #[test]
    fn while_it_is_busy_only_many_jobs_or_its_end_do() {
        let inbox = Arc::new(Inbox::new(2 * WORTH_WAKING));
        inbox.hand_on(batch());
        assert!(inbox.next_batch().is_some());
        push(&inbox).unwrap();
        let (woken, taken) = wait(&inbox, JOBS, Duration::ZERO).unwrap();
        assert!(!woken.syncer_is_idle);
        assert_eq!(taken, 1);
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || {
            (0..WORTH_WAKING).for_each(|_| push(&pushing).unwrap());
        });
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(!woken.syncer_is_idle);
        assert_eq!(taken, WORTH_WAKING);
        pushed.join().unwrap();

        push(&inbox).unwrap();
        let syncing = inbox.clone();
        let synced = thread::spawn(move || syncing.syncer_is_idle());
        assert!(wait(&inbox, JOBS, LONG).unwrap().0.syncer_is_idle);
        synced.join().unwrap();
    }

    #[test]
    fn what_is_decided_waits_for_the_syncer_alone() {
        let inbox = Inbox::new(8);
        inbox.hand_on(batch());
        let (woken, _) = wait(&inbox, HANDING, Duration::ZERO).unwrap();
        assert!(!woken.syncer_is_idle);
        push(&inbox).unwrap();
        let (woken, taken) = wait(&inbox, Wants::Syncer, Duration::ZERO).unwrap();
        assert!(!woken.syncer_is_idle && woken.more);
        assert_eq!(taken, 0);
        inbox.syncer_is_idle();
        assert!(wait(&inbox, HANDING, LONG).unwrap().0.syncer_is_idle);
    }

    #[test]
    fn no_more_are_taken_than_there_is_room_for() {
        let inbox = Inbox::new(8);
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
        let inbox = Inbox::new(1);
        push(&inbox).unwrap();
        assert_eq!(push(&inbox), Err(Unavailable::Overloaded));
        assert_eq!(wait(&inbox, JOBS, LONG).unwrap().1, 1);
        push(&inbox).unwrap();
    }

    #[test]
    fn a_closed_one_gives_what_waits_and_takes_no_more() {
        let inbox = Inbox::new(8);
        push(&inbox).unwrap();
        inbox.close();
        assert_eq!(push(&inbox), Err(Unavailable::Stopped));
        let (woken, taken) = wait(&inbox, JOBS, LONG).unwrap();
        assert!(woken.closed);
        assert_eq!(taken, 1);
        // With a batch on its way, the end waits for it.
        inbox.hand_on(batch());
        let (woken, _) = wait(&inbox, HANDING, Duration::ZERO).unwrap();
        assert!(woken.closed && !woken.syncer_is_idle);
    }

    #[test]
    fn the_end_drops_what_waits_and_wakes_both() {
        let inbox = Arc::new(Inbox::new(8));
        push(&inbox).unwrap();
        let ending = inbox.clone();
        let ended = thread::spawn(move || ending.end());
        assert!(inbox.next_batch().is_none());
        ended.join().unwrap();
        assert!(wait(&inbox, Wants::Syncer, LONG).is_none());
        assert_eq!(push(&inbox), Err(Unavailable::Stopped));
    }
}
