//! The daemon without its threads: the parts of the core, combined as in `src/writer`, `src/recovery.rs` and
//! `src/maintenance.rs`, and driven call by call.

use std::{collections::VecDeque, path::Path, sync::Arc};

use quota_core::{
    decide::{self, Policy, QuotaChange, Refusal, Request, Requester, Review},
    event::{Actor, Cursor, Event},
    source::{self, Consumed, Observation},
    state::{Image, State},
    transaction::WriteTransaction,
};
use quota_journal::{Error, FileJournal, FileReader, Recovery, simulation::SimDisk};
use quota_ledger::{
    group_commit::{ClosedBatch, CommittedBatch, GroupCommit},
    replay,
};
use quota_semantics::{Name, Span, Timestamp};

use super::{
    session::SOURCE,
    settings::{DIRECTORY, Settings},
    things::{namespace, uid},
};

/// A client's request.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Reserve(Request),
    ReserveAll(Vec<Request>),
    Admit(Request),
    Check(Request),
    Release(u8, u8),
    Extend(u8, u8, i64),
    Commit(u8, u8),
    SetQuota(QuotaChange),
    DeleteQuota(Name, Name),
}

/// A job in the daemon's queue.
#[allow(clippy::large_enum_variant, reason = "one waits, or a few")]
#[derive(Debug)]
pub(crate) enum Job {
    Client {
        client: usize,
        number: u64,
        op: Op,
    },
    /// A job of the consumer's session, with the number of the session.
    Session(u64, Errand),
    Image,
}

/// A job of a consumer's session.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Read the cursor of the source.
    Cursor,
    Reset(Name),
    Gap(u64, u64),
    Record {
        items: Vec<Observation>,
        consumed: Consumed,
    },
}

/// The answer to a decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// Granted, by these entries.
    Granted(Vec<u64>),
    /// No reservation was necessary.
    Unlimited,
    Done,
    Denied,
    UidReused,
    NotFound,
    /// Granted before, and ended since.
    Ended,
    Refused,
}

/// The recipient of an answer.
#[derive(Debug)]
pub(crate) enum Recipient {
    Client { client: usize, number: u64, said: Said },
    Session(u64, Told),
    Image(Box<Image>),
}

/// An answer to a consumer's session.
#[derive(Debug)]
pub(crate) enum Told {
    Cursor(Option<Cursor>),
    Noted,
    Recorded(u64),
}

/// An answer, and the last entry that it depends on.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) recipient: Recipient,
    pub(crate) head: u64,
}

/// One life of the daemon.
pub(crate) struct Daemon {
    pub(crate) state: State,
    pub(crate) reader: FileReader,
    pub(crate) journal: FileJournal,
    pub(crate) watermark: Timestamp,
    pub(crate) durable: u64,
    group_commit: GroupCommit<Answer>,
    /// Entries of the open batch that were checked.
    followed: usize,
    handed: Option<ClosedBatch<Answer>>,
    /// The syncing thread is idle; the deciding thread has not been notified yet.
    is_idle_again: bool,
    queue: VecDeque<Job>,
    room: usize,
    policy: Policy,
}

impl Daemon {
    pub(crate) fn start(
        disk: &SimDisk,
        settings: &Settings,
    ) -> Result<(Self, Recovery), replay::Error> {
        let disk = Arc::new(disk.clone());
        let options = settings.options.clone();
        let recovered = replay::recover(disk, Path::new(DIRECTORY), options, |_, _| {})?;
        let daemon = Self {
            durable: recovered.recovery.durable.sequence,
            state: recovered.state,
            reader: recovered.reader,
            journal: recovered.journal,
            watermark: Timestamp::from_nanoseconds(i64::MIN),
            group_commit: GroupCommit::new(settings.max_entries),
            followed: 0,
            handed: None,
            is_idle_again: false,
            queue: VecDeque::new(),
            room: settings.queue,
            policy: settings.policy.clone(),
        };
        Ok((daemon, recovered.recovery))
    }

    /// Adds a job to the queue, or returns it if the queue is full.
    pub(crate) fn submit(&mut self, job: Job) -> Result<(), Job> {
        if self.queue.len() >= self.room {
            return Err(job);
        }
        self.queue.push_back(job);
        Ok(())
    }

    /// Whether no job and no batch waits.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.group_commit.is_empty() && self.handed.is_none()
    }

    /// The deciding thread: due events, then at most this many jobs. `see` is called with each new entry.
    pub(crate) fn decide(
        &mut self,
        now: Timestamp,
        jobs: usize,
        see: &mut impl FnMut(&quota_core::event::Entry, &State) -> Result<(), String>,
        decided: &mut impl FnMut(&Job, &Said) -> Result<(), String>,
    ) -> Result<(), String> {
        if self.group_commit.is_full() {
            self.hear();
            return Ok(());
        }
        self.group_commit.record_due(&mut self.state, now, self.watermark.into(), &self.policy);
        self.follow(see)?;
        for _ in 0..jobs {
            let Some(job) = self.queue.pop_front() else {
                break;
            };
            let closes = matches!(job, Job::Image);
            let mut transaction = self.group_commit.transaction(&mut self.state, now);
            let (recipient, said) = carry_out(&mut transaction, &job, &self.policy);
            if let Some(said) = &said {
                decided(&job, said)?;
            }
            let head = self.state.head().sequence;
            let takes_more = self.group_commit.decided(Answer { recipient, head }, closes);
            self.follow(see)?;
            if !takes_more {
                break;
            }
        }
        self.hand_on();
        Ok(())
    }

    /// Notifies the deciding thread that the syncing one is idle.
    pub(crate) fn hear(&mut self) {
        if std::mem::take(&mut self.is_idle_again) {
            self.group_commit.synced();
            self.hand_on();
        }
    }

    fn follow(
        &mut self,
        see: &mut impl FnMut(&quota_core::event::Entry, &State) -> Result<(), String>,
    ) -> Result<(), String> {
        for entry in &self.group_commit.waiting()[self.followed..] {
            see(entry, &self.state)?;
        }
        self.followed = self.group_commit.waiting().len();
        Ok(())
    }

    fn hand_on(&mut self) {
        if let Some(closed) = self.group_commit.close() {
            self.handed = Some(closed);
            self.followed = 0;
        }
    }

    /// The syncing thread: makes the sealed batch durable.
    pub(crate) fn sync(&mut self) -> Result<Option<CommittedBatch<Answer>>, Error> {
        let Some(closed) = self.handed.take() else {
            return Ok(None);
        };
        let committed = closed.append(&mut self.journal)?.sync(&mut self.journal)?;
        self.durable = committed.durable.sequence;
        self.is_idle_again = true;
        Ok(Some(committed))
    }
}

fn carry_out(
    transaction: &mut WriteTransaction<'_>,
    job: &Job,
    policy: &Policy,
) -> (Recipient, Option<Said>) {
    match job {
        Job::Client { client, number, op } => {
            let said = answer(transaction, op, policy);
            let recipient =
                Recipient::Client { client: *client, number: *number, said: said.clone() };
            (recipient, Some(said))
        }
        Job::Session(life, errand) => {
            (Recipient::Session(*life, run_errand(transaction, errand)), None)
        }
        Job::Image => (Recipient::Image(Box::new(transaction.state().image())), None),
    }
}

fn run_errand(transaction: &mut WriteTransaction<'_>, errand: &Errand) -> Told {
    let source = Name::from(SOURCE);
    let actor = Actor::named("nats:OBJECTS");
    match errand {
        Errand::Cursor => return Told::Cursor(transaction.state().sources().get(&source).cloned()),
        Errand::Reset(incarnation) => {
            let events = decide::reset(transaction.state(), &source, incarnation);
            transaction.record(&actor, events)
        }
        Errand::Gap(first, last) => {
            transaction.record(&actor, [decide::gap(&source, *first, *last)])
        }
        Errand::Record { items, consumed } => {
            source::record(transaction, &actor, items.clone(), 0, Some(consumed));
            return Told::Recorded(consumed.cursor.position);
        }
    };
    Told::Noted
}

fn answer(transaction: &mut WriteTransaction<'_>, op: &Op, policy: &Policy) -> Said {
    // A review names the user on whose behalf it is sent.
    let actor = Arc::new(Actor {
        principal: "client".into(),
        user: matches!(op, Op::Admit(_)).then(|| "somebody".into()),
        ..Actor::default()
    });
    let by = Requester::holder(actor.principal.clone());
    let events = match events(transaction.state(), transaction.now(), &by, op, policy) {
        Ok(events) => events,
        Err(refusal) => return said(&refusal),
    };
    transaction.record(&actor, events);
    let granted = |request: &Request| {
        transaction.state().reservation(&request.namespace, &request.uid).map(|view| view.entry)
    };
    match op {
        Op::Reserve(request) => Said::Granted(granted(request).into_iter().collect()),
        Op::ReserveAll(requests) => Said::Granted(requests.iter().filter_map(granted).collect()),
        Op::Admit(request) => match granted(request) {
            Some(entry) => Said::Granted(vec![entry]),
            None => Said::Unlimited,
        },
        _ => Said::Done,
    }
}

fn events(
    state: &State,
    now: Timestamp,
    by: &Requester,
    op: &Op,
    policy: &Policy,
) -> Result<Vec<Event>, Refusal> {
    match op {
        Op::Reserve(request) => {
            decide::reserve(state, now, by, request, policy).map(|reserved| reserved.events)
        }
        Op::ReserveAll(requests) => match decide::reserve_all(state, now, by, requests, policy) {
            Ok(all) => Ok(all.into_iter().flat_map(|reserved| reserved.events).collect()),
            Err((_, refusal)) => Err(refusal),
        },
        Op::Admit(request) => {
            let review =
                Review { request: request.clone(), measure: decide::Measure::Given, holds: true };
            decide::admit(state, now, by, &review, policy).map(|admitted| admitted.events)
        }
        Op::Check(request) => decide::check(state, now, by, request, policy).map(|_| Vec::new()),
        Op::Release(space, number) => decide::release(state, by, &namespace(*space), &uid(*number)),
        Op::Extend(space, number, ttl) => {
            let ttl = Span::from_seconds(*ttl);
            decide::extend(state, now, by, &namespace(*space), &uid(*number), ttl, policy)
        }
        Op::Commit(space, number) => {
            decide::commit(state, by, &namespace(*space), &uid(*number), None, &policy.bounds)
        }
        Op::SetQuota(change) => decide::set_quota(state, now, change),
        Op::DeleteQuota(space, name) => decide::delete_quota(state, space, name, None),
    }
}

fn said(refusal: &Refusal) -> Said {
    match refusal {
        Refusal::Denied(_) => Said::Denied,
        Refusal::UidReused(_) => Said::UidReused,
        Refusal::NotFound(_) => Said::NotFound,
        Refusal::Ended(_) => Said::Ended,
        _ => Said::Refused,
    }
}
