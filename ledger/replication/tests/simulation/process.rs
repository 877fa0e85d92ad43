//! One process of a node: the member, the state, and decisions by group, as in the daemon.

use std::collections::VecDeque;

use quota_core::{
    codec,
    decide::{self, Policy, Refusal, Requester},
    event::Actor,
    state::State,
    transaction::WriteTransaction,
};
use quota_journal::{Batch, Durable, Error, Journal, StoredBatch};
use quota_ledger::group_commit::{Appended, ClosedBatch, GroupCommit};
use quota_replication::protocol::{Identity, Member, Millis, NodeName, Position, Role, Settings};
use quota_semantics::Timestamp;

use super::clients::{self, Answer, Job, Op, Said};

pub(crate) const SETTINGS: Settings =
    Settings { silence: 1_500, heartbeat: 300, lease: 1_000, ack_wait: 1_000, poll: 150 };

/// Most requests in the queue.
const QUEUE: usize = 16;

/// Takes a batch, and returns the given position as durable.
struct Capture {
    batch: Option<Batch>,
    durable: Durable,
}

impl Journal for Capture {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.batch = Some(batch);
        Ok(())
    }
    fn sync(&mut self) -> Result<Durable, Error> {
        Ok(self.durable)
    }
}

pub(crate) struct Process {
    pub(crate) life: u64,
    pub(crate) member: Member,
    pub(crate) state: State,
    leads: bool,
    hands_over_to: Option<NodeName>,
    group_commit: GroupCommit<Answer>,
    queue: VecDeque<Job>,
    /// The batch in the log, or on its way there.
    held: Option<Appended<Answer>>,
    /// Answers without entries that wait for a lease.
    waiting: Option<ClosedBatch<Answer>>,
    policy: Policy,
}

impl Process {
    pub(crate) fn start(
        identity: Identity,
        position: Position,
        replica: &[StoredBatch],
        now: Millis,
    ) -> Self {
        let mut state = State::default();
        for stored in replica {
            fold(&mut state, stored);
        }
        Self {
            life: identity.instance,
            member: Member::new(identity, SETTINGS, position, now),
            state,
            leads: false,
            hands_over_to: None,
            group_commit: GroupCommit::new(4),
            queue: VecDeque::new(),
            held: None,
            waiting: None,
            policy: Policy::default(),
        }
    }

    pub(crate) fn leads(&self) -> bool {
        self.leads
    }

    pub(crate) fn submit(&mut self, job: Job) -> Result<(), Job> {
        let takes = self.leads && self.hands_over_to.is_none() && self.queue.len() < QUEUE;
        match takes {
            true => self.queue.push_back(job),
            false => return Err(job),
        }
        Ok(())
    }

    /// Applies a batch of another member, or this member's own fence. False: the replica has another batch in its
    /// place, or lacks an earlier one.
    pub(crate) fn apply(&mut self, stored: &StoredBatch, replica: &mut Vec<StoredBatch>) -> bool {
        let head = self.state.head().sequence;
        if stored.batch.last_sequence() <= head {
            return replica.contains(stored);
        }
        if stored.batch.first_sequence != head + 1 {
            return false;
        }
        replica.push(stored.clone());
        fold(&mut self.state, stored);
        true
    }

    pub(crate) fn lead(&mut self) {
        self.leads = true;
    }

    pub(crate) fn handed_over(&mut self) {
        self.leads = false;
    }

    pub(crate) fn hand_over(&mut self, to: NodeName) {
        if self.leads {
            self.hands_over_to = Some(to);
        }
    }

    /// The batch in flight is in the log: its answers may be sent.
    pub(crate) fn committed(
        &mut self,
        stored: StoredBatch,
        replica: &mut Vec<StoredBatch>,
    ) -> Vec<Answer> {
        let durable = stored.end();
        replica.push(stored);
        self.group_commit.synced();
        let Some(held) = self.held.take() else {
            return Vec::new();
        };
        let mut capture = Capture { batch: None, durable };
        held.sync(&mut capture).unwrap().answers
    }

    /// Decides the waiting requests, if a batch may be begun. Returns answers that need only the lease.
    pub(crate) fn decide(&mut self, now: Millis, wall: Timestamp) -> Vec<Answer> {
        if !self.leads || self.member.role() != Role::Leader {
            return Vec::new();
        }
        if let Some(closed) = self.waiting.take() {
            return self.let_go(now, closed);
        }
        if self.held.is_none() {
            let policy = &self.policy;
            self.group_commit.record_due(&mut self.state, wall, Timestamp::MAX.into(), policy);
        }
        while let Some(job) = self.queue.pop_front() {
            let mut transaction = self.group_commit.transaction(&mut self.state, wall);
            let said = carry_out(&mut transaction, &job.op, &self.policy);
            let basis = self.state.head().sequence;
            if !self.group_commit.decided(Answer { job, said, basis }, false) {
                break;
            }
        }
        let Some(closed) = self.group_commit.close() else {
            if self.held.is_none()
                && self.queue.is_empty()
                && let Some(to) = self.hands_over_to.take()
            {
                // An operator may ask twice.
                self.member.hand_over(now, to.clone());
                self.member.hand_over(now, to);
                self.leads = false;
            }
            return Vec::new();
        };
        if closed.is_empty() {
            return self.let_go(now, closed);
        }
        let mut capture = Capture { batch: None, durable: Durable::NOTHING };
        self.held = Some(closed.append(&mut capture).unwrap());
        self.member.propose(now, capture.batch.unwrap());
        Vec::new()
    }

    /// Answers without entries may be sent only while no other member can lead.
    fn let_go(&mut self, now: Millis, closed: ClosedBatch<Answer>) -> Vec<Answer> {
        if now >= self.member.lease_until() {
            self.waiting = Some(closed);
            self.member.renew_lease(now);
            return Vec::new();
        }
        self.group_commit.synced();
        let durable = self.member.position().end;
        let mut capture = Capture { batch: None, durable };
        let appended = closed.append(&mut capture).unwrap();
        appended.sync(&mut capture).unwrap().answers
    }
}

fn fold(state: &mut State, stored: &StoredBatch) {
    let Batch { first_sequence, count, payload, .. } = &stored.batch;
    for entry in codec::decode_entries(*first_sequence, *count, payload).unwrap() {
        state.apply(&entry);
    }
}

fn carry_out(transaction: &mut WriteTransaction<'_>, op: &Op, policy: &Policy) -> Said {
    let (state, now) = (transaction.state(), transaction.now());
    let by = Requester::holder("client");
    let (events, said) = match op {
        Op::Read => return Said::Done,
        Op::SetQuota => (decide::set_quota(state, now, &clients::quota()), Said::Done),
        Op::Release(number) => {
            let released =
                decide::release(state, &by, &clients::namespace(), &clients::uid(*number));
            (released, Said::Done)
        }
        Op::Reserve(number) => {
            let reserved = decide::reserve(state, now, &by, &clients::request(*number), policy);
            (reserved.map(|reserved| reserved.events), Said::Granted)
        }
    };
    match events {
        Ok(events) => {
            transaction.record(&Actor::named("client"), events);
            said
        }
        Err(Refusal::Denied(_)) => Said::Denied,
        Err(_) => Said::Refused,
    }
}
