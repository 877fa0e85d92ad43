//! A member of the cluster: follows the log, leads when it may, and never decides on a state that lacks applied
//! messages.
//!
//! A state machine: time, replies and messages are its inputs; [`Action`]s are its outputs, to be carried out in order.
//! Times are milliseconds of a monotonic clock.

mod lead;

use std::sync::Arc;

use quota_journal::{Batch, StoredBatch};
use quota_semantics::Timestamp;

use crate::protocol::{
    Identity, Millis, NodeName,
    append::{Append, Phase},
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
