//! How a member becomes leader, and the messages that it appends: fences, batches, heartbeats, and handovers.
//!
//! Whether an append is stored is certain only once the message at its sequence was read; until then no other message
//! is appended.

use quota_core::{
    codec,
    event::{Actor, Entry, Event},
};
use quota_journal::{Batch, StoredBatch};
use quota_semantics::Timestamp;

use super::{Action, Member, Role};
use crate::protocol::{
    Millis, NodeName, Reply,
    append::{Append, Phase},
    message::{Kind, Message},
    verify::{self, Stop},
};

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
    pub(super) fn press_on(&mut self, now: Millis) {
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
    pub(super) fn settle(&mut self, now: Millis) {
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
    pub(super) fn lead_on(&mut self, now: Millis) {
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

    pub(super) fn may_lead(&self, now: Millis) -> bool {
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
    pub(super) fn give_up(&mut self) {
        self.given_up = self.append.take();
        self.role = Role::Follower;
    }

    pub(super) fn run_for_leader(&mut self, now: Millis, wall: Timestamp) {
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
