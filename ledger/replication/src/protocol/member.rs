//! A member of the cluster: follows the log, leads when it may, and never decides on a state that lacks applied
//! messages. A leader appends fences, batches, heartbeats and handovers. Whether an append is stored is certain only once
//! the message at its sequence was read; until then no other message is appended.
//!
//! A state machine: time, replies and messages are its inputs; [`Action`]s are its outputs, to be carried out in order.
//! Times are milliseconds of a monotonic clock.

use std::sync::Arc;

use quota_core::{
    codec,
    event::{Actor, Entry, Event},
};
use quota_journal::{Batch, StoredBatch};
use quota_semantics::Timestamp;

use super::{
    Identity, Millis, NodeName,
    message::{Kind, Message},
    verify::{self, Followed, Position, Stop},
};

/// Timing of leader changes. No setting affects the correctness of grants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// After this time without a message of the leader another member takes over; up to a third more is added at
    /// random.
    pub silence: Millis,
    /// An idle leader appends a heartbeat at this interval.
    pub heartbeat: Millis,
    /// For this time after the sending of its last append a leader is certain to be the only one. Shorter than
    /// `silence`.
    pub lease: Millis,
    /// An append without a reply for this time is ambiguous.
    pub ack_wait: Millis,
    /// The interval at which a follower reads the stream without a hint.
    pub poll: Millis,
}

/// The role of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Applies the messages of others.
    Follower,
    /// Tries to append a fence.
    Candidate,
    /// Decides and appends.
    Leader,
    /// Must not continue in this process: see [`Action::Deposed`] and [`Action::Stop`].
    Over,
}

/// An action to be carried out.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Append these bytes to the stream, if its last sequence is `expected`.
    Publish {
        /// The sequence.
        expected: u64,
        /// The message.
        bytes: Arc<[u8]>,
    },
    /// Read the stream from this sequence on, and pass the result to [`Member::read`].
    Read {
        /// The first sequence.
        from: u64,
    },
    /// Append a batch of another member to the replica, and apply it.
    Apply(StoredBatch),
    /// This member decides from now on: the state is complete up to its own fence.
    Lead {
        /// Its term.
        term: u64,
    },
    /// The proposed batch is in the log: append it to the replica, then send its answers.
    Committed(StoredBatch),
    /// The leadership was handed over; this member follows.
    HandedOver {
        /// The new leader.
        to: NodeName,
    },
    /// Another member has appended at the sequence of this leader's append: the decisions for that append must be
    /// discarded without answers.
    Deposed,
    /// The stream does not continue the replica.
    Stop(Stop),
}

/// A message of the stream that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    /// Its sequence.
    pub sequence: u64,
    /// When the stream stored it; none: unknown.
    pub at: Option<Millis>,
    /// The message.
    pub bytes: Vec<u8>,
}

/// Counters for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Appends whose outcome was ambiguous.
    pub ambiguous: u64,
    /// Of these, the ones that turned out to be stored.
    pub resolved: u64,
    /// Refusals of appends that were stored nevertheless.
    pub false_refusals: u64,
    /// How often the same bytes were sent again.
    pub resent: u64,
    /// Fences that lost against a concurrent one.
    pub lost_fences: u64,
    /// Messages of replaced leaders.
    pub skipped: u64,
    /// Messages that no ledger wrote.
    pub foreign: u64,
}

/// One process of the cluster.
#[derive(Debug)]
pub struct Member {
    identity: Identity,
    settings: Settings,
    position: Position,
    role: Role,
    append: Option<Append>,
    /// The fence that was given up last.
    given_up: Option<Append>,
    /// A batch that waits until a heartbeat is settled.
    proposed: Option<Batch>,
    /// The node to which the leadership is to be handed over.
    transfer: Option<NodeName>,
    /// When the last message was applied, or this process began.
    last_contact: Millis,
    /// When a read last found no more messages.
    looked: Option<Millis>,
    /// See [`Member::current`].
    current: Option<Millis>,
    /// Whether this member is prevented from leading.
    is_barred: bool,
    is_reading: bool,
    next_read: Millis,
    lease_until: Millis,
    wants_lease: bool,
    was_refused: bool,
    counts: Counts,
    actions: Vec<Action>,
}

impl Member {
    /// A follower that has applied the log up to a position.
    pub fn new(identity: Identity, settings: Settings, position: Position, now: Millis) -> Self {
        Self {
            identity,
            settings,
            position,
            role: Role::Follower,
            append: None,
            given_up: None,
            proposed: None,
            transfer: None,
            last_contact: now,
            looked: None,
            current: None,
            is_barred: false,
            is_reading: false,
            next_read: now,
            lease_until: 0,
            wants_lease: false,
            was_refused: false,
            counts: Counts::default(),
            actions: Vec::new(),
        }
    }

    /// Its role.
    pub const fn role(&self) -> Role {
        self.role
    }

    /// The position up to which it has applied the log.
    pub const fn position(&self) -> &Position {
        &self.position
    }

    /// The counters.
    pub const fn counts(&self) -> Counts {
        self.counts
    }

    /// The latest time at which the log is known to have held nothing that this member has not applied: when the last
    /// message was stored, or, for a leader, when its last settled append was sent. A read that finds no more messages
    /// proves nothing: a server that is cut off from the others answers it, too.
    pub const fn current(&self) -> Option<Millis> {
        self.current
    }

    /// Until when no other member can lead: answers without an append may be sent before. 0: never.
    pub fn lease_until(&self) -> Millis {
        match self.role {
            Role::Leader => self.lease_until,
            _ => 0,
        }
    }

    /// When the append in flight was first sent, if there is one.
    pub fn in_flight_since(&self) -> Option<Millis> {
        self.append.as_ref().map(|append| append.first_sent)
    }

    /// The pending actions, oldest first.
    pub fn take_actions(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Sets whether a condition outside the log prevents this member from leading, such as a replica that cannot be
    /// written. A leader goes on leading; a candidate gives up at the next tick.
    pub const fn set_barred(&mut self, is_barred: bool) {
        self.is_barred = is_barred;
    }

    /// Takes a hint that the stream has new messages.
    pub const fn hint(&mut self, now: Millis) {
        self.next_read = now;
    }

    /// Advances the time. `wall` is the time of day, for a fence's entry.
    pub fn tick(&mut self, now: Millis, wall: Timestamp) {
        if self.role == Role::Candidate && self.is_barred {
            self.give_up();
        }
        self.press_on(now);
        match self.role {
            Role::Over => {}
            Role::Leader => self.lead_on(now),
            Role::Candidate => {}
            Role::Follower if self.may_lead(now) => self.run_for_leader(now, wall),
            Role::Follower => self.poll(now),
        }
    }

    /// The latest time of the next call of [`Member::tick`].
    pub fn next_tick(&self) -> Millis {
        match (&self.append, self.role) {
            (Some(append), _) => match append.phase {
                Phase::Sent { until } | Phase::Pausing { until } => until,
                Phase::Reading => Millis::MAX,
            },
            (None, Role::Leader) => self.last_contact + self.settings.heartbeat,
            (None, Role::Follower) => {
                self.next_read.min(self.last_contact + self.election_timeout())
            }
            (None, Role::Candidate | Role::Over) => Millis::MAX,
        }
    }

    /// Takes the result of a read: messages in order, empty if there are none yet; or `None` if no server answered.
    pub fn read(&mut self, now: Millis, messages: Option<&[Stored]>) {
        self.is_reading = false;
        let found = messages.unwrap_or_default();
        for message in found {
            if message.sequence > self.position.stream {
                self.take(now, message.sequence, &message.bytes);
            }
            if self.role == Role::Over {
                return;
            }
            if message.sequence == self.position.stream {
                self.current = self.current.max(message.at);
            }
        }
        if messages.is_some_and(<[_]>::is_empty) {
            self.looked = Some(now);
        }
        self.next_read = match found.is_empty() {
            true => now + self.settings.poll,
            false => now,
        };
        if let Some(append) = &mut self.append
            && append.phase == Phase::Reading
        {
            append.pause(now);
        }
    }

    fn take(&mut self, now: Millis, sequence: u64, bytes: &[u8]) {
        if sequence != self.position.stream.saturating_add(1) {
            return self.stop(Stop::Purged { first: sequence, applied: self.position.stream });
        }
        if let Some(append) = &self.append
            && append.message.expected == self.position.stream
        {
            if *append.bytes == *bytes {
                self.counts.resolved += 1;
                return self.settle(now);
            }
            if self.role == Role::Leader {
                return self.depose();
            }
            self.append = None;
            self.role = Role::Follower;
            self.counts.lost_fences += 1;
        } else if self.role == Role::Leader {
            return self.depose();
        }
        let partition = self.identity.partition;
        match verify::follow(&mut self.position, partition, sequence, bytes) {
            Ok(Followed::Applied(batch)) => {
                self.last_contact = now;
                self.actions.extend(batch.map(Action::Apply));
            }
            Ok(Followed::Old) => self.counts.skipped += 1,
            Ok(Followed::Foreign) => self.counts.foreign += 1,
            Err(stop) => self.stop(stop),
        }
    }

    fn read_from(&mut self, from: u64) {
        self.is_reading = true;
        self.actions.push(Action::Read { from });
    }

    fn poll(&mut self, now: Millis) {
        if !self.is_reading && self.append.is_none() && now >= self.next_read {
            self.read_from(self.position.stream.saturating_add(1));
        }
    }

    /// The time without messages after which this member takes over: different for each, so that not all compete at
    /// once.
    fn election_timeout(&self) -> Millis {
        let mut mixed = self.identity.instance ^ self.position.stream.rotate_left(32);
        mixed = (mixed ^ (mixed >> 31)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let third = self.settings.silence / 3 + 1;
        self.settings.silence + (mixed >> 33) % third
    }

    fn depose(&mut self) {
        self.role = Role::Over;
        self.append = None;
        self.actions.push(Action::Deposed);
    }

    fn stop(&mut self, why: Stop) {
        self.role = Role::Over;
        self.append = None;
        self.actions.push(Action::Stop(why));
    }
}

impl Member {
    /// Proposes a batch. Only a leader may propose, and only one batch at a time.
    pub fn propose(&mut self, now: Millis, batch: Batch) {
        debug_assert!(self.proposed.is_none());
        self.proposed = Some(batch);
        self.lead_on(now);
    }

    /// Requests a lease: a heartbeat is sent unless an append is in flight.
    pub fn renew_lease(&mut self, now: Millis) {
        self.wants_lease = true;
        self.lead_on(now);
    }

    /// Hands the leadership over to a node. No batch may be proposed afterwards. Without effect unless this member
    /// leads, and while it already hands over: a request must not outlive the term for which it was made.
    pub fn hand_over(&mut self, now: Millis, to: NodeName) {
        let is_handed_over = self
            .append
            .as_ref()
            .is_some_and(|append| matches!(append.message.kind, Kind::Handover { .. }));
        if self.role != Role::Leader || is_handed_over {
            return;
        }
        self.transfer = Some(to);
        self.lead_on(now);
    }

    /// Takes a reply to the append that expected this sequence.
    pub fn replied(&mut self, now: Millis, expected: u64, reply: Reply) {
        let Some(append) = &self.append else { return };
        if append.message.expected != expected || self.role == Role::Over {
            return;
        }
        match reply {
            Reply::Stored(sequence) if sequence == expected.saturating_add(1) => self.settle(now),
            Reply::Stored(sequence) => self.stop(Stop::Misplaced { expected, sequence }),
            Reply::Refused(_) => {
                self.was_refused = true;
                self.doubt();
            }
            Reply::Unknown => self.doubt(),
        }
    }

    /// Continues an append in flight.
    fn press_on(&mut self, now: Millis) {
        let Some(append) = &mut self.append else {
            return;
        };
        match append.phase {
            Phase::Sent { until } if until <= now => self.doubt(),
            Phase::Pausing { until } if until <= now => {
                append.sent_again(now, self.settings.ack_wait);
                let (expected, bytes) = (append.message.expected, append.bytes.clone());
                self.counts.resent += 1;
                self.actions.push(Action::Publish { expected, bytes });
            }
            _ => {}
        }
    }

    /// Marks the append as ambiguous: only the message at its sequence is conclusive.
    fn doubt(&mut self) {
        let Some(append) = &mut self.append else {
            return;
        };
        if !matches!(append.phase, Phase::Sent { .. }) {
            return;
        }
        if append.sendings == 1 {
            self.counts.ambiguous += 1;
        }
        append.phase = Phase::Reading;
        let from = self.position.stream.saturating_add(1);
        self.read_from(from);
    }

    /// Settles the append, which is in the log at its sequence.
    fn settle(&mut self, now: Millis) {
        let Some(Append { message, first_sent, .. }) = self.append.take() else {
            return;
        };
        if std::mem::take(&mut self.was_refused) {
            self.counts.false_refusals += 1;
        }
        let sequence = self.position.stream.saturating_add(1);
        verify::advance(&mut self.position, sequence, &message);
        self.last_contact = now;
        self.current = self.current.max(Some(first_sent));
        self.lease_until = first_sent + self.settings.lease;
        self.wants_lease = false;
        match message.kind {
            Kind::Fence(batch) => {
                self.role = Role::Leader;
                self.actions.push(Action::Apply(batch));
                self.actions.push(Action::Lead { term: message.term });
            }
            Kind::Group(batch) => self.actions.push(Action::Committed(batch)),
            Kind::Handover { to } => {
                self.role = Role::Follower;
                self.lease_until = 0;
                self.next_read = now;
                self.actions.push(Action::HandedOver { to });
            }
            Kind::Heartbeat | Kind::Genesis { .. } => {}
        }
        self.lead_on(now);
    }

    /// Appends the next message of a leader.
    fn lead_on(&mut self, now: Millis) {
        if self.role != Role::Leader || self.append.is_some() {
            return;
        }
        if let Some(batch) = self.proposed.take() {
            let batch = StoredBatch::behind(self.position.end.hash, batch);
            self.append(now, Kind::Group(batch));
        } else if let Some(to) = self.transfer.take() {
            // The new leader may lead at once.
            self.lease_until = 0;
            self.append(now, Kind::Handover { to });
        } else if self.wants_lease || now >= self.last_contact + self.settings.heartbeat {
            self.append(now, Kind::Heartbeat);
        }
    }

    fn append(&mut self, now: Millis, kind: Kind) {
        let Some(ledger) = self.position.ledger else {
            return;
        };
        let message = Message {
            ledger,
            partition: self.identity.partition,
            term: (self.position.term()).saturating_add(matches!(kind, Kind::Fence(_)).into()),
            node: self.identity.node.clone(),
            instance: self.identity.instance,
            expected: self.position.stream,
            previous: self.position.end.hash,
            kind,
        };
        self.was_refused = false;
        let append = Append::new(message, now, self.settings.ack_wait);
        let (expected, bytes) = (append.message.expected, append.bytes.clone());
        self.append = Some(append);
        self.actions.push(Action::Publish { expected, bytes });
    }

    fn may_lead(&self, now: Millis) -> bool {
        if self.is_barred || self.append.is_some() || self.position.ledger.is_none() {
            return false;
        }
        let leader = self.position.leader.as_ref();
        let is_named =
            leader.and_then(|leader| leader.handed_to.as_ref()) == Some(&self.identity.node);
        let looked = self.looked.is_some_and(|at| at + 4 * self.settings.poll >= now);
        looked && (is_named || now >= self.last_contact + self.election_timeout())
    }

    /// Gives up the fence in flight of a candidate that must not lead. The fence may be stored all the same; then it is
    /// applied like that of another member.
    fn give_up(&mut self) {
        self.given_up = self.append.take();
        self.role = Role::Follower;
    }

    fn run_for_leader(&mut self, now: Millis, wall: Timestamp) {
        // A late reply cannot tell the fence that was given up from another one at the same sequence.
        if let Some(mut append) = self.given_up.take()
            && append.message.expected == self.position.stream
        {
            append.phase = Phase::Pausing { until: now };
            self.append = Some(append);
            self.role = Role::Candidate;
            return self.press_on(now);
        }
        let term = self.position.term().saturating_add(1);
        let end = self.position.end;
        let entry = Entry {
            sequence: end.sequence.saturating_add(1),
            time: wall.max(end.time),
            actor: Actor::named(&format!("node:{}", self.identity.node)),
            event: Event::LeaderChanged {
                term,
                node: self.identity.node.as_str().into(),
                instance: self.identity.instance,
            },
        };
        let batch = Batch {
            first_sequence: entry.sequence,
            count: 1,
            time: entry.time,
            payload: codec::encode_entries(&[entry]),
        };
        self.role = Role::Candidate;
        self.append(now, Kind::Fence(StoredBatch::behind(end.hash, batch)));
    }
}

// An append in flight: from its first sending until the message at its sequence has been read.

/// The reply to a publish. Only `Stored` is conclusive: a server that no longer leads the stream refuses messages that
/// the true leader stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Stored, at this sequence of the log's stream.
    Stored(u64),
    /// Refused, with the last sequence according to the server, which may be too low or too high.
    Refused(Option<u64>),
    /// No responders, a lost connection, or any other reply.
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Append {
    pub(crate) message: Message,
    pub(crate) bytes: Arc<[u8]>,
    /// When it was sent first. A stored append proves leadership at that time only.
    pub(crate) first_sent: Millis,
    pub(crate) phase: Phase,
    /// How often it was sent.
    pub(crate) sendings: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Sent; a reply is awaited.
    Sent {
        /// When it becomes ambiguous.
        until: Millis,
    },
    /// Ambiguous: the message at its sequence is being read.
    Reading,
    /// No message was there: the same bytes are sent again after a pause.
    Pausing {
        /// When.
        until: Millis,
    },
}

/// First pause before the same bytes are sent again; doubled up to [`LONGEST_PAUSE`].
const FIRST_PAUSE: Millis = 20;
const LONGEST_PAUSE: Millis = 1_000;

impl Append {
    pub(crate) fn new(message: Message, now: Millis, wait: Millis) -> Self {
        let bytes = message.encode().into();
        Self {
            message,
            bytes,
            first_sent: now,
            phase: Phase::Sent { until: now + wait },
            sendings: 1,
        }
    }

    pub(crate) fn pause(&mut self, now: Millis) {
        let pause = FIRST_PAUSE << self.sendings.saturating_sub(1).min(10);
        let until = now + pause.min(LONGEST_PAUSE);
        self.phase = Phase::Pausing { until };
    }

    pub(crate) fn sent_again(&mut self, now: Millis, wait: Millis) {
        self.sendings += 1;
        self.phase = Phase::Sent { until: now + wait };
    }
}
