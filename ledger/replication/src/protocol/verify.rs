//! The checks of a reader before it applies a message.

use quota_journal::{Durable, StoredBatch};
use serde::{Deserialize, Serialize};

use super::{
    LedgerId, NodeName,
    message::{DecodeError, Kind, Message},
};

/// The position of a member in the log, with the leader there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The ledger, once its first message was read.
    pub ledger: Option<LedgerId>,
    /// Sequence of the last message of the stream that was applied.
    pub stream: u64,
    /// The position of the ledger's chain there.
    pub end: Durable,
    /// The leader there; none before the first.
    pub leader: Option<Leader>,
}

/// A leader: the member that may append.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Leader {
    /// Its term.
    pub term: u64,
    /// Its node.
    pub node: NodeName,
    /// Its process.
    pub instance: u64,
    /// The node that it has handed over to: it appends nothing more.
    pub handed_to: Option<NodeName>,
}

/// Why a member must not continue: the stream does not continue its replica, or cannot be understood. A restart does
/// not help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stop {
    /// Messages between the replica and the first message of the stream were removed.
    #[error("the stream begins at {first}, and this replica has applied up to {applied} only")]
    Purged {
        /// The first message of the stream.
        first: u64,
        /// The last message applied.
        applied: u64,
    },
    /// A message cannot be read.
    #[error("message {sequence}: {why}")]
    Undecodable {
        /// Its sequence.
        sequence: u64,
        /// The error.
        why: DecodeError,
    },
    /// A message does not follow from the messages before it.
    #[error("message {sequence} does not continue this replica: {why}")]
    Broken {
        /// Its sequence.
        sequence: u64,
        /// The error.
        why: String,
    },
    /// An append was acknowledged at another sequence than its own.
    #[error("an append behind {expected} was acknowledged at {sequence}")]
    Misplaced {
        /// The sequence that was expected to be the last.
        expected: u64,
        /// The acknowledged sequence.
        sequence: u64,
    },
}

impl Position {
    /// The position before the first message.
    pub const NOTHING: Self = Self { ledger: None, stream: 0, end: Durable::NOTHING, leader: None };

    /// The current term; 0 before the first leader.
    pub fn term(&self) -> u64 {
        self.leader.as_ref().map_or(0, |leader| leader.term)
    }

    /// Whether the position is directly behind this message, which a stream holds at the sequence [`Position::stream`].
    /// Then that stream continues it, even if it is a restored copy of the one that was followed: the chain hash covers
    /// all entries before.
    pub fn is_behind(&self, message: &[u8]) -> bool {
        let Ok(message) = Message::decode(message) else {
            return false;
        };
        let sender = Some((message.term, &message.node, message.instance));
        let leader = self.leader.as_ref();
        let hash = match message.kind.batch() {
            Some(batch) => batch.hash,
            None => message.previous,
        };
        is_next(self.stream, message.expected)
            && self.ledger == Some(message.ledger)
            && self.end.hash == hash
            && leader.map(|leader| (leader.term, &leader.node, leader.instance)) == sender
    }
}

/// The result of a message that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Followed {
    /// It was applied, with the batch that it carries.
    Applied(Option<StoredBatch>),
    /// Not written by a ledger: ignored.
    Foreign,
    /// From a replaced leader: ignored.
    Old,
}

/// Moves the position behind the next message of the stream, or returns why that is impossible.
pub(crate) fn follow(
    position: &mut Position,
    partition: u32,
    sequence: u64,
    bytes: &[u8],
) -> Result<Followed, Stop> {
    let broken = |why: String| Stop::Broken { sequence, why };
    let message = match Message::decode(bytes) {
        Ok(message) => message,
        Err(DecodeError::Foreign) if position.stream > 0 => {
            position.stream = sequence;
            return Ok(Followed::Foreign);
        }
        Err(why) => return Err(Stop::Undecodable { sequence, why }),
    };
    if !is_next(sequence, message.expected) {
        return Err(broken(format!("it expects to follow {}", message.expected)));
    }
    if message.partition != partition {
        return Err(broken(format!("it is of partition {}", message.partition)));
    }
    if position.ledger.is_some_and(|ledger| ledger != message.ledger) {
        return Err(broken(format!("it is of the ledger {}", message.ledger)));
    }
    if message.term < position.term() {
        position.stream = sequence;
        return Ok(Followed::Old);
    }
    if let Kind::Genesis { sequence: base, time } = message.kind {
        if position.stream > 0 {
            return Err(broken("a ledger begins here a second time".to_owned()));
        }
        position.end = Durable { sequence: base, hash: message.previous, time };
    } else if position.stream == 0 {
        return Err(broken("it should say which ledger begins".to_owned()));
    }
    continues(position, &message).map_err(broken)?;
    advance(position, sequence, &message);
    Ok(Followed::Applied(message.kind.into_batch()))
}

/// Whether a number is the next one. The numbers of a message may be any.
fn is_next(number: u64, before: u64) -> bool {
    before.checked_add(1) == Some(number)
}

fn continues(position: &Position, message: &Message) -> Result<(), String> {
    if message.previous != position.end.hash {
        return Err(format!(
            "it follows the chain hash {} and not {}",
            message.previous, position.end.hash
        ));
    }
    if let Some(stored) = message.kind.batch() {
        let (first, time) = (stored.batch.first_sequence, stored.batch.time);
        if !is_next(first, position.end.sequence) {
            return Err(format!("entry {first} behind {}", position.end.sequence));
        }
        if time < position.end.time {
            return Err(format!("ledger time goes back to {time}"));
        }
    }
    let term = position.term();
    match &message.kind {
        Kind::Genesis { .. } => Ok(()),
        Kind::Fence(_) if is_next(message.term, term) => Ok(()),
        Kind::Fence(_) => Err(format!("term {} behind {term}", message.term)),
        _ => match &position.leader {
            Some(leader)
                if leader.term == message.term
                    && leader.node == message.node
                    && leader.instance == message.instance
                    && leader.handed_to.is_none() =>
            {
                Ok(())
            }
            _ => Err(format!("{} does not lead in term {}", message.node, message.term)),
        },
    }
}

/// Moves the position behind a message that continues it.
pub(crate) fn advance(position: &mut Position, sequence: u64, message: &Message) {
    position.stream = sequence;
    position.ledger = Some(message.ledger);
    position.end = message.end(position.end);
    match &message.kind {
        Kind::Fence(_) => {
            position.leader = Some(Leader {
                term: message.term,
                node: message.node.clone(),
                instance: message.instance,
                handed_to: None,
            });
        }
        Kind::Handover { to } => {
            if let Some(leader) = &mut position.leader {
                leader.handed_to = Some(to.clone());
            }
        }
        Kind::Genesis { .. } | Kind::Group(_) | Kind::Heartbeat => {}
    }
}

/// A position to be stored. It is stored only after the replica is synced up to it: a member that starts from a stored
/// position has everything before it.
#[derive(Debug, Default)]
pub struct PendingPosition {
    waiting: Option<Position>,
}

impl PendingPosition {
    /// Sets the position to be stored, instead of one that still waits.
    pub fn set(&mut self, position: &Position) {
        self.waiting = Some(position.clone());
    }

    /// The position to be stored now, if the replica is synced up to `synced`.
    pub fn due(&mut self, synced: &Durable) -> Option<Position> {
        let is_due = |position: &mut Position| position.end.sequence <= synced.sequence;
        self.waiting.take_if(is_due)
    }
}

/// Milliseconds of a monotonic clock. Clocks of different members need not agree.
pub type Millis = u64;

#[cfg(test)]
mod tests {
    use quota_journal::Hash;
    use quota_semantics::Timestamp;

    use super::*;

    #[test]
    fn a_message_that_expects_the_last_sequence_of_all_is_refused() {
        let message = Message {
            ledger: LedgerId::from_bytes([1; 16]),
            partition: 0,
            term: 0,
            node: "n1".parse().unwrap(),
            instance: 0,
            expected: u64::MAX,
            previous: Hash::GENESIS,
            kind: Kind::Genesis { sequence: 0, time: Timestamp::EPOCH },
        };
        let mut position = Position::NOTHING;
        let followed = follow(&mut position, 0, 1, &message.encode());
        assert!(matches!(followed, Err(Stop::Broken { sequence: 1, .. })), "{followed:?}");
        assert_eq!(position, Position::NOTHING);
    }

    #[test]
    fn a_position_is_found_again_in_a_copy_of_its_stream() {
        let heartbeat = Message {
            ledger: LedgerId::from_bytes([1; 16]),
            partition: 0,
            term: 3,
            node: "n1".parse().unwrap(),
            instance: 7,
            expected: 41,
            previous: Hash::from_bytes([2; 32]),
            kind: Kind::Heartbeat,
        };
        let position = Position {
            ledger: Some(heartbeat.ledger),
            stream: 42,
            end: Durable { sequence: 9, hash: heartbeat.previous, time: Timestamp::EPOCH },
            leader: Some(Leader {
                term: 3,
                node: "n1".parse().unwrap(),
                instance: 7,
                handed_to: None,
            }),
        };
        assert!(position.is_behind(&heartbeat.encode()));
        let changes: [fn(&mut Message); 5] = [
            |other| other.ledger = LedgerId::from_bytes([9; 16]),
            |other| other.previous = Hash::GENESIS,
            |other| other.expected = 42,
            |other| other.term = 4,
            |other| other.instance = 8,
        ];
        for change in changes {
            let mut other = heartbeat.clone();
            change(&mut other);
            assert!(!position.is_behind(&other.encode()), "{other:?}");
        }
        assert!(!position.is_behind(b"something else"));
    }
}
