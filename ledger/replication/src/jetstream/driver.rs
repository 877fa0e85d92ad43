//! The task that drives one member of the cluster: it carries out the actions of the state machine.

use std::{mem, sync::Arc, time::Duration};

use async_nats::Client;
use quota_journal::{Batch, Durable, StoredBatch};
use quota_semantics::Timestamp;
use tokio::sync::{mpsc, oneshot, watch};

use super::{
    Clock, Log, Names, Offset, PositionFile, WallClock,
    log::{LogMessage, ServerMessage, ServerMessages},
    stored_position::StoredPosition,
};
use crate::protocol::{
    Action, Counts, Identity, Leader, LedgerId, Member, Millis, NodeName, Position, Role, Settings,
    Stop, Stored,
};

/// Without progress for this time another server is tried. A lost leader is replaced earlier: a candidate must not
/// leave its server while its fence is in flight.
const STUCK: Millis = 3_000;
/// The shortest interval of reads for hints: one read covers several hints, and reduces the load of the servers.
const READ_EVERY: Millis = 20;

/// The owner of the replica, which decides while this member leads.
pub trait Host: Send {
    /// The end of the replica.
    fn end(&self) -> Durable;

    /// The position up to which the replica is synced: entries behind it may be lost in a power loss, and are then read
    /// from the log again.
    fn synced(&self) -> Durable;

    /// Whether a batch of the replica ends at this position. May block.
    ///
    /// # Errors
    /// The replica cannot be read there; [`quota_journal::Error::Compacted`]: it no longer has that part.
    fn has(&self, position: &Durable) -> Result<bool, quota_journal::Error>;

    /// Appends batches to the replica, writes and applies them; they are synced later, in the background. May block.
    ///
    /// # Errors
    /// [`ApplyError`]: the process has to end.
    fn apply(&mut self, batches: Vec<StoredBatch>) -> Result<(), ApplyError>;

    /// This member decides from now on. Everything before is applied.
    fn lead(&mut self);
}

/// Why batches cannot be applied to the replica.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The replica cannot be written.
    #[error(transparent)]
    Replica(#[from] quota_journal::Error),
    /// An entry is unknown to this version. None of the batches was appended to the replica.
    #[error(
        "entry {first} and later ones were written by a newer version: upgrade this node ({why})"
    )]
    NotUnderstood {
        /// The first entry of its batch.
        first: u64,
        /// The error.
        why: String,
    },
    /// The state does not end where the batch begins, although the replica does.
    #[error(
        "the state ends at entry {head}, and the next batch begins with {first}; the next start rebuilds the state"
    )]
    OutOfStep {
        /// The state's last entry.
        head: u64,
        /// The first entry of the batch.
        first: u64,
    },
}

/// The reason why the task ended.
#[derive(Debug, thiserror::Error)]
pub enum Ended {
    /// Another member leads: decisions that were not acknowledged must be discarded. The process is to be restarted.
    #[error("another node has taken the lead; what was decided here and not acknowledged is void")]
    Deposed,
    /// The stream does not continue the replica.
    #[error("{0}")]
    Stop(Stop),
    /// The replica has another batch than the stream, or the stream lacks entries of the replica.
    #[error("the replica does not match the stream: {0}")]
    Diverged(String),
    /// The replica lacks entries that are not in the stream, or no longer.
    #[error("{0}: this replica has to join again from another node")]
    Behind(String),
    /// Batches of other members cannot be applied.
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// The stream was recreated, so all its positions have changed, or there is none any more.
    #[error("the stream was recreated or removed")]
    Rebuilt,
    /// The other parts of the process have ended.
    #[error("the daemon stops")]
    Closed,
}

/// The status of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its role.
    pub role: Role,
    /// The ledger, once its first message was read.
    pub ledger: Option<LedgerId>,
    /// The leader, as far as this member has read.
    pub leader: Option<Leader>,
    /// The last sequence of the stream that it has applied.
    pub stream: u64,
    /// The position of the ledger there.
    pub end: Durable,
    /// The latest time at which the log is known to have held nothing that the member has not applied, on its clock.
    pub current: Option<Millis>,
    /// Until when no other member can lead, on its clock; 0 for a follower.
    pub lease_until: Millis,
    /// The stored position in the stream: the next start needs no earlier message.
    pub noted: u64,
    /// Since when the replica has entries that were not found in the stream, on its clock. It is set while a replica
    /// that is ahead of its stored position is being compared; if the stream ends before the replica, the stream has
    /// lost them.
    pub ahead_since: Option<Millis>,
    /// Since when an append is in flight.
    pub in_flight_since: Option<Millis>,
    /// The counters.
    pub counts: Counts,
}

pub(crate) enum Request {
    Propose(Batch, oneshot::Sender<StoredBatch>),
    /// A request for an answer as soon as no other member can lead.
    Confirm(oneshot::Sender<()>),
    HandOver(NodeName),
    Bar(bool),
    ServersClock(Offset),
}

/// The interface of the task for the rest of the process.
#[derive(Clone)]
pub struct Handle {
    pub(crate) requests: mpsc::UnboundedSender<Request>,
    /// The status of the member.
    pub status: watch::Receiver<Status>,
    /// The clock of `status`.
    pub clock: Clock,
}

impl Handle {
    /// Hands the leadership over to a node, if this member leads. Nothing may be proposed afterwards.
    pub fn hand_over(&self, to: NodeName) {
        let _ = self.requests.send(Request::HandOver(to));
    }

    /// Waits until it is certain that no other member led at the time of the call.
    ///
    /// # Errors
    /// This member has stopped.
    pub async fn confirm(&self) -> Result<(), Ended> {
        let called = self.clock.now();
        if called < self.status.borrow().lease_until {
            return Ok(());
        }
        let (confirmed, wait) = oneshot::channel();
        let _ = self.requests.send(Request::Confirm(confirmed));
        wait.await.map_err(|_| Ended::Deposed)
    }

    /// Sets whether this member must not lead, for a reason outside the log.
    pub fn set_barred(&self, is_barred: bool) {
        let _ = self.requests.send(Request::Bar(is_barred));
    }

    /// Sets the clock of the servers, by which messages are dated.
    pub fn set_servers_clock(&self, clock: Offset) {
        let _ = self.requests.send(Request::ServersClock(clock));
    }
}

/// The task.
pub struct Driver<H> {
    member: Member,
    log: Log,
    messages: ServerMessages,
    requests: mpsc::UnboundedReceiver<Request>,
    status: watch::Sender<Status>,
    clock: Clock,
    host: H,
    proposer: Option<oneshot::Sender<StoredBatch>>,
    confirmations: Confirmations,
    progress: (u64, Millis),
    /// When the last read began.
    read_at: Millis,
    /// When the next read is due, since there are new messages.
    read_due: Option<Millis>,
    stored_position: StoredPosition,
    ahead_since: Option<Millis>,
    /// Whether the replica does not end where the log was read up to.
    is_out_of_step: bool,
    /// Whether the rest of the process has barred this member from leading.
    is_barred: bool,
    /// The clock of the servers; none before it was compared.
    servers_clock: Option<Offset>,
    /// The time of day, for fences.
    wall: Arc<WallClock>,
}

impl<H: Host> Driver<H> {
    /// Begins at the end of the replica.
    ///
    /// # Errors
    /// The client is closed.
    pub async fn new(
        client: Client,
        names: Names,
        (identity, settings, wall): (Identity, Settings, Arc<WallClock>),
        (file, position): (PositionFile, Option<Position>),
        host: H,
    ) -> Result<(Self, Handle), async_nats::SubscribeError> {
        let (log, messages) = Log::open(client, names, file.created()).await?;
        let clock = Clock::start();
        let position = position.unwrap_or(Position::NOTHING);
        let noted = position.stream;
        let member = Member::new(identity, settings, position, clock.now());
        let (requests_in, requests) = mpsc::unbounded_channel();
        let (status, watched) = watch::channel(status(&member, noted, None));
        let handle = Handle { requests: requests_in, status: watched, clock };
        let driver = Self {
            member,
            log,
            messages,
            requests,
            status,
            clock,
            host,
            proposer: None,
            confirmations: Confirmations::default(),
            progress: (0, 0),
            read_at: 0,
            read_due: None,
            stored_position: StoredPosition::new(file, noted),
            ahead_since: None,
            is_out_of_step: false,
            is_barred: true,
            servers_clock: None,
            wall,
        };
        Ok((driver, handle))
    }

    /// Runs until this process has to end.
    pub async fn run(mut self) -> Ended {
        loop {
            let next = self.member.next_tick();
            let next = self.read_due.map_or(next, |due| due.min(next));
            let wait = next.saturating_sub(self.clock.now());
            tokio::select! {
                message = self.messages.next() => match message {
                    Some(message) => self.on_message(message),
                    None => return Ended::Closed,
                },
                request = self.requests.recv() => match request {
                    Some(request) => self.take(request),
                    None => return Ended::Closed,
                },
                () = tokio::time::sleep(Duration::from_millis(wait.clamp(1, 100))) => {}
            }
            let now = self.clock.now();
            if self.read_due.is_some_and(|due| due <= now) {
                self.read_due = None;
                self.member.hint(now);
            }
            let wall = self.wall.now();
            let is_barred = self.is_barred || self.is_out_of_step || wall.is_none();
            self.member.set_barred(is_barred);
            self.member.tick(now, wall.unwrap_or(Timestamp::EPOCH));
            if let Err(ended) = self.carry_out() {
                return ended;
            }
            if let Err(ended) = self.look_around().await {
                return ended;
            }
        }
    }

    fn on_message(&mut self, message: ServerMessage) {
        let now = self.clock.now();
        match message {
            ServerMessage::Reply(expected, reply) => self.member.replied(now, expected, reply),
            ServerMessage::Read(None) => self.member.read(now, None),
            ServerMessage::Read(Some(found)) => {
                let (is_all, messages) = (found.is_all, self.stored(found.messages));
                self.member.read(now, Some(&messages));
                if is_all && !messages.is_empty() {
                    // The result that another read would have.
                    self.member.read(now, Some(&[]));
                }
            }
            ServerMessage::Hint => self.read_due = Some(now.max(self.read_at + READ_EVERY)),
        }
    }

    fn take(&mut self, request: Request) {
        let now = self.clock.now();
        match request {
            Request::Propose(batch, proposer) => {
                self.proposer = Some(proposer);
                self.member.propose(now, batch);
            }
            Request::Confirm(caller) => {
                self.confirmations.add(caller);
                if now >= self.member.lease_until() {
                    self.member.renew_lease(now);
                }
            }
            Request::HandOver(to) => self.member.hand_over(now, to),
            Request::Bar(is_barred) => self.is_barred = is_barred,
            Request::ServersClock(clock) => self.servers_clock = Some(clock),
        }
    }

    /// Messages with the times of their storing on the member's clock. Messages from before its start have none: what the
    /// log held then says nothing of what it holds now.
    fn stored(&self, messages: Vec<LogMessage>) -> Vec<Stored> {
        let at = |time: Timestamp| self.clock.at(time, self.servers_clock?);
        let stored = messages.into_iter().map(|message| Stored {
            sequence: message.sequence,
            at: message.time.and_then(at),
            bytes: message.bytes,
        });
        stored.collect()
    }

    fn carry_out(&mut self) -> Result<(), Ended> {
        let mut batches = Vec::new();
        loop {
            let actions = self.member.take_actions();
            if actions.is_empty() {
                return self.apply(batches);
            }
            for action in actions {
                if let Action::Apply(batch) = action {
                    batches.push(batch);
                    continue;
                }
                self.apply(mem::take(&mut batches))?;
                match action {
                    Action::Publish { expected, bytes } => self.log.publish(expected, &bytes),
                    Action::Read { from } => {
                        self.read_at = self.clock.now();
                        self.log.read(from);
                    }
                    Action::Lead { term } => {
                        tracing::info!(term, "this node leads");
                        self.host.lead();
                        self.log.hint();
                    }
                    Action::Committed(batch) => {
                        if let Some(proposer) = self.proposer.take() {
                            let _ = proposer.send(batch);
                        }
                        self.log.hint();
                    }
                    Action::HandedOver { to } => {
                        tracing::info!(%to, "the lead was handed over");
                        self.log.hint();
                    }
                    Action::Deposed => return Err(Ended::Deposed),
                    Action::Stop(why @ Stop::Purged { .. }) => {
                        return Err(Ended::Behind(why.to_string()));
                    }
                    Action::Stop(why) => return Err(Ended::Stop(why)),
                    Action::Apply(_) => {}
                }
            }
        }
    }

    /// Applies batches of other members, or the member's own fence. Batches that the replica already has must be the
    /// same.
    fn apply(&mut self, batches: Vec<StoredBatch>) -> Result<(), Ended> {
        let end = self.host.end();
        let mut new = Vec::with_capacity(batches.len());
        let mut skipped = None;
        for batch in batches {
            let behind = batch.end();
            let diverged = |what: &str| {
                let (first, last) = (batch.batch.first_sequence, behind.sequence);
                Err(Ended::Diverged(format!("entries {first} to {last}: {what}")))
            };
            if behind.sequence > end.sequence {
                let from = batch.batch.first_sequence;
                let next = end.sequence.saturating_add(1);
                if new.is_empty() && from > next {
                    let why = format!("the replica ends at {}, before entry {from}", end.sequence);
                    return Err(Ended::Behind(why));
                }
                if new.is_empty() && (from != next || batch.previous != end.hash) {
                    return diverged("they do not follow the replica's last batch");
                }
                new.push(batch);
            } else {
                skipped = Some(behind);
            }
        }
        if new.is_empty() {
            return self.compare(skipped);
        }
        // A batch that was proposed too late, when this member no longer led, will never be in the log. Its proposer holds
        // the lock of the replica until it learns that.
        if self.proposer.is_some() {
            return Err(Ended::Deposed);
        }
        let host = &mut self.host;
        Ok(tokio::task::block_in_place(|| host.apply(new))?)
    }

    /// Compares the last of the batches that the replica already has: its hash covers all before it.
    fn compare(&self, skipped: Option<Durable>) -> Result<(), Ended> {
        let Some(last) = skipped else { return Ok(()) };
        match tokio::task::block_in_place(|| self.host.has(&last)) {
            Ok(true) | Err(quota_journal::Error::Compacted { .. }) => Ok(()),
            Ok(false) => Err(Ended::Diverged(format!(
                "up to entry {}, the replica has other batches",
                last.sequence
            ))),
            Err(error) => Err(ApplyError::from(error).into()),
        }
    }

    async fn look_around(&mut self) -> Result<(), Ended> {
        let now = self.clock.now();
        if self.member.role() != Role::Leader {
            self.confirmations.give_up();
        }
        if now < self.member.lease_until() {
            self.confirmations.confirm();
        } else if !self.confirmations.is_empty() {
            self.member.renew_lease(now);
            self.carry_out()?;
        }
        let position = self.member.position();
        let (read, kept) = (position.end.sequence, self.host.end().sequence);
        // A leader's replica is never ahead of its appends.
        self.ahead_since = match kept > read {
            true => self.ahead_since.or(Some(now)),
            false => None,
        };
        // A leader has the whole log, and its replica has nothing that the log lacks.
        self.is_out_of_step = kept != read;
        if position.stream != self.progress.0 {
            self.progress = (position.stream, now);
        } else if now > self.progress.1 + STUCK {
            self.progress.1 = now;
            self.log.reconnect().await;
        }
        self.stored_position.set(now, position);
        self.stored_position.store(&self.host.synced());
        let noted = self.stored_position.stored();
        self.status.send_if_modified(|before| {
            let status = status(&self.member, noted, self.ahead_since);
            let changed = *before != status;
            *before = status;
            changed
        });
        Ok(())
    }
}

fn status(member: &Member, noted: u64, ahead_since: Option<Millis>) -> Status {
    let position = member.position();
    Status {
        role: member.role(),
        ledger: position.ledger,
        leader: position.leader.clone(),
        stream: position.stream,
        end: position.end,
        current: member.current(),
        lease_until: member.lease_until(),
        noted,
        ahead_since,
        in_flight_since: member.in_flight_since(),
        counts: member.counts(),
    }
}

// The callers that wait until no other member can lead.

/// With fewer callers, those that have given up stay until the others are answered.
const FEW: usize = 64;

/// The callers that wait for a lease. While none can be had, callers come and give up, for any time: those that have given
/// up are removed whenever the number of callers has doubled since.
#[derive(Debug, Default)]
pub(crate) struct Confirmations {
    callers: Vec<oneshot::Sender<()>>,
    /// How many callers remained when those that had given up were last removed.
    remained: usize,
}

impl Confirmations {
    pub(crate) fn add(&mut self, caller: oneshot::Sender<()>) {
        if self.callers.len() >= 2 * self.remained.max(FEW) {
            self.callers.retain(|caller| !caller.is_closed());
            self.remained = self.callers.len();
        }
        self.callers.push(caller);
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.callers.is_empty()
    }

    /// Answers all callers.
    pub(crate) fn confirm(&mut self) {
        for caller in mem::take(self).callers {
            let _ = caller.send(());
        }
    }

    /// Drops all callers, which they notice: there will be no lease.
    pub(crate) fn give_up(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_given_up_is_not_kept() {
        let mut confirmations = Confirmations::default();
        let mut waiting = Vec::new();
        for number in 0..100 * FEW {
            let (caller, answer) = oneshot::channel();
            confirmations.add(caller);
            if number % 100 == 0 {
                waiting.push(answer);
            }
            let kept = confirmations.callers.len();
            assert!(kept <= 2 * waiting.len().max(FEW), "{kept}");
        }
        confirmations.confirm();
        assert!(confirmations.is_empty());
        assert!(waiting.iter_mut().all(|answer| answer.try_recv().is_ok()));
    }
}
