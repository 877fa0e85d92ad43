//! What waits for the decider, and what it sleeps on.
//!
//! A wake-up costs more than a decision. So while a batch is being synced, the decider is not woken for each job
//! but for many: nobody gets an answer before the sync is over anyway.

use std::{collections::VecDeque, time::Duration};

use parking_lot::{Condvar, Mutex};

use super::{Job, Unavailable};

/// Jobs that are worth a wake-up while the syncer is busy.
const WORTH_WAKING: usize = 64;

pub(super) struct Inbox {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    capacity: usize,
}

struct Waiting {
    jobs: VecDeque<Job>,
    syncer_is_idle: bool,
    /// There will be no more jobs.
    closed: bool,
    /// One of the two threads has gone: nothing is decided any more.
    ended: bool,
    /// How many jobs the decider sleeps for; none while it is awake.
    sleeps_for: Option<usize>,
}

/// What the decider finds when it wakes up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Woken {
    pub(super) syncer_is_idle: bool,
    pub(super) closed: bool,
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

impl Inbox {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            waiting: Mutex::new(Waiting {
                jobs: VecDeque::new(),
                syncer_is_idle: true,
                closed: false,
                ended: false,
                sleeps_for: None,
            }),
            changed: Condvar::new(),
            capacity,
        }
    }

    pub(super) fn push(&self, job: Job) -> Result<(), Unavailable> {
        let mut waiting = self.waiting.lock();
        if waiting.closed || waiting.ended {
            return Err(Unavailable::Stopped);
        }
        if waiting.jobs.len() >= self.capacity {
            return Err(Unavailable::Overloaded);
        }
        waiting.jobs.push_back(job);
        let wakes = waiting
            .sleeps_for
            .is_some_and(|jobs| waiting.jobs.len() >= jobs);
        if wakes {
            waiting.sleeps_for = None;
        }
        drop(waiting);
        if wakes {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// Takes no more jobs; those that wait are still decided.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.changed.notify_one();
    }

    /// The syncer has made a batch durable, and can take the next.
    pub(super) fn syncer_is_idle(&self) {
        self.waiting.lock().syncer_is_idle = true;
        self.changed.notify_one();
    }

    /// The decider has given the syncer a batch.
    pub(super) fn syncer_is_busy(&self) {
        self.waiting.lock().syncer_is_idle = false;
    }

    /// Nothing is decided any more. Jobs that wait are dropped, with their answers.
    pub(super) fn end(&self) {
        let mut waiting = self.waiting.lock();
        waiting.ended = true;
        let dropped = std::mem::take(&mut waiting.jobs);
        drop(waiting);
        self.changed.notify_one();
        drop(dropped);
    }

    /// Whether no job waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().jobs.is_empty()
    }

    /// Moves up to `most` jobs into `taken`.
    pub(super) fn take(&self, most: usize, taken: &mut VecDeque<Job>) {
        let mut waiting = self.waiting.lock();
        let count = most.min(waiting.jobs.len());
        taken.extend(waiting.jobs.drain(..count));
    }

    /// Sleeps until there is what is wanted, or for so long. None: one of the two threads has gone.
    pub(super) fn wait(&self, wants: Wants, longest: Duration) -> Option<Woken> {
        let mut waiting = self.waiting.lock();
        let deadline = std::time::Instant::now() + longest;
        loop {
            if waiting.ended {
                return None;
            }
            let idle = waiting.syncer_is_idle;
            // A full inbox is always worth it: it sheds what comes next.
            let many = WORTH_WAKING.min(self.capacity);
            let enough = if idle { 1 } else { many };
            let ready = match wants {
                Wants::Nothing => true,
                Wants::Syncer => idle,
                Wants::Jobs { handing } => {
                    let done = waiting.closed && !handing;
                    waiting.jobs.len() >= enough || (handing && idle) || done
                }
            };
            waiting.sleeps_for = (!ready && wants != Wants::Syncer).then_some(enough);
            if ready || self.changed.wait_until(&mut waiting, deadline).timed_out() {
                waiting.sleeps_for = None;
                return Some(Woken {
                    syncer_is_idle: waiting.syncer_is_idle,
                    closed: waiting.closed,
                });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, thread};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const JOBS: Wants = Wants::Jobs { handing: false };
    const HANDING: Wants = Wants::Jobs { handing: true };

    fn job() -> Job {
        Box::new(|_| Box::new(|_| {}))
    }

    fn taken(inbox: &Inbox) -> usize {
        let mut taken = VecDeque::new();
        inbox.take(usize::MAX, &mut taken);
        taken.len()
    }

    #[test]
    fn one_job_wakes_while_the_syncer_is_idle() {
        let inbox = Arc::new(Inbox::new(8));
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || pushing.push(job()));
        assert!(inbox.wait(JOBS, LONG).unwrap().syncer_is_idle);
        assert_eq!(taken(&inbox), 1);
        pushed.join().unwrap().unwrap();
    }

    #[test]
    fn while_it_is_busy_only_many_jobs_or_its_end_do() {
        let inbox = Arc::new(Inbox::new(WORTH_WAKING));
        inbox.syncer_is_busy();
        inbox.push(job()).unwrap();
        assert!(!inbox.wait(JOBS, Duration::ZERO).unwrap().syncer_is_idle);
        let pushing = inbox.clone();
        let pushed = thread::spawn(move || {
            (1..WORTH_WAKING).for_each(|_| pushing.push(job()).unwrap());
        });
        assert!(!inbox.wait(JOBS, LONG).unwrap().syncer_is_idle);
        pushed.join().unwrap();
        assert_eq!(taken(&inbox), WORTH_WAKING);

        inbox.push(job()).unwrap();
        let syncing = inbox.clone();
        let synced = thread::spawn(move || syncing.syncer_is_idle());
        assert!(inbox.wait(JOBS, LONG).unwrap().syncer_is_idle);
        synced.join().unwrap();
    }

    #[test]
    fn what_is_decided_waits_for_the_syncer_alone() {
        let inbox = Inbox::new(8);
        inbox.syncer_is_busy();
        assert!(!inbox.wait(HANDING, Duration::ZERO).unwrap().syncer_is_idle);
        inbox.push(job()).unwrap();
        let woken = inbox.wait(Wants::Syncer, Duration::ZERO).unwrap();
        assert!(!woken.syncer_is_idle);
        inbox.syncer_is_idle();
        assert!(inbox.wait(HANDING, LONG).unwrap().syncer_is_idle);
    }

    #[test]
    fn a_full_queue_sheds() {
        let inbox = Inbox::new(1);
        inbox.push(job()).unwrap();
        assert_eq!(inbox.push(job()), Err(Unavailable::Overloaded));
        assert_eq!(taken(&inbox), 1);
        inbox.push(job()).unwrap();
    }

    #[test]
    fn a_closed_one_gives_what_waits_and_takes_no_more() {
        let inbox = Inbox::new(8);
        inbox.push(job()).unwrap();
        inbox.close();
        assert_eq!(inbox.push(job()), Err(Unavailable::Stopped));
        assert!(inbox.wait(JOBS, LONG).unwrap().closed);
        assert_eq!(taken(&inbox), 1);
        // With a batch on its way, the end waits for it.
        inbox.syncer_is_busy();
        let woken = inbox.wait(HANDING, Duration::ZERO).unwrap();
        assert!(woken.closed && !woken.syncer_is_idle);
    }

    #[test]
    fn the_end_drops_what_waits_and_wakes() {
        let inbox = Arc::new(Inbox::new(8));
        inbox.push(job()).unwrap();
        inbox.syncer_is_busy();
        let ending = inbox.clone();
        let ended = thread::spawn(move || ending.end());
        assert!(inbox.wait(Wants::Syncer, LONG).is_none());
        ended.join().unwrap();
        assert_eq!(taken(&inbox), 0);
        assert_eq!(inbox.push(job()), Err(Unavailable::Stopped));
    }
}
