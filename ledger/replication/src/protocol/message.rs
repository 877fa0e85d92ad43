//! The messages of the log, and their bytes. The format is described in `docs/storage-format.md`.
//!
//! ```text
//!  0  magic "QLM", version 1
//!  4  crc32 of everything behind it
//!  8  kind           u8: 1 genesis, 2 fence, 3 handover, 4 group, 5 heartbeat
//!  9  ledger id      16 bytes
//! 25  partition      u32
//! 29  term          u64
//! 37  instance       u64
//! 45  expected       u64: the sequence of the stream that the sender had applied
//! 53  previous       32 bytes: the chain hash of the last batch before
//! 85  node           u8 length, then the name
//!     genesis:       ledger sequence u64 and time i64 behind which the ledger begins
//!     fence, group:  the batch's frame, as in the write-ahead log
//!     handover:      u8 length and name of the node that is to lead
//! ```
//! Numbers are little-endian.

use std::{fmt, str::FromStr, sync::Arc};

use quota_journal::{Durable, Hash, StoredBatch};
use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};

const MAGIC: [u8; 3] = *b"QLM";
const VERSION: u8 = 1;
const CHECKED_FROM: usize = 8;

/// One message of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Its ledger.
    pub ledger: LedgerId,
    /// The partition of that ledger.
    pub partition: u32,
    /// The term of its sender: each fence begins the next term.
    pub term: u64,
    /// The sender's node.
    pub node: NodeName,
    /// The sender's process.
    pub instance: u64,
    /// The sequence of the stream that the sender had applied: the message is directly behind it.
    pub expected: u64,
    /// The chain hash of the last batch before it.
    pub previous: Hash,
    /// Its content.
    pub kind: Kind,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The first message of the stream: the identity of the ledger, and the entry behind which it begins. An existing
    /// ledger that was moved into the stream continues behind its last entry; the hash is the message's `previous`.
    Genesis {
        /// The last entry before the stream; 0 for a new ledger.
        sequence: u64,
        /// The ledger time of that entry.
        time: Timestamp,
    },
    /// A new leader: messages of earlier leaders can no longer be stored. Its batch has the one entry `LeaderChanged`.
    Fence(StoredBatch),
    /// The leader hands over to a node, and decides nothing more.
    Handover {
        /// The new leader.
        to: NodeName,
    },
    /// A batch of decisions.
    Group(StoredBatch),
    /// The leader is alive, and has nothing to append.
    Heartbeat,
}

/// Why bytes are not a message of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It was not written by a ledger.
    #[error("not a message of a ledger")]
    Foreign,
    /// A newer version wrote it.
    #[error("a newer version wrote it, in the unknown format {0}: upgrade this node")]
    Version(u8),
    /// A newer version wrote it.
    #[error("a newer version wrote it, a message of the unknown kind {0}: upgrade this node")]
    Kind(u8),
    /// The bytes are damaged.
    #[error("a damaged message: {0}")]
    Damaged(String),
}

impl Kind {
    /// The batch that it carries.
    pub const fn batch(&self) -> Option<&StoredBatch> {
        match self {
            Self::Fence(batch) | Self::Group(batch) => Some(batch),
            Self::Genesis { .. } | Self::Handover { .. } | Self::Heartbeat => None,
        }
    }

    /// The batch that it carries, by value.
    pub fn into_batch(self) -> Option<StoredBatch> {
        match self {
            Self::Fence(batch) | Self::Group(batch) => Some(batch),
            Self::Genesis { .. } | Self::Handover { .. } | Self::Heartbeat => None,
        }
    }

    const fn tag(&self) -> u8 {
        match self {
            Self::Genesis { .. } => 1,
            Self::Fence(_) => 2,
            Self::Handover { .. } => 3,
            Self::Group(_) => 4,
            Self::Heartbeat => 5,
        }
    }
}

impl Message {
    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(256);
        bytes.extend_from_slice(&MAGIC);
        bytes.push(VERSION);
        bytes.extend_from_slice(&[0; 4]);
        bytes.push(self.kind.tag());
        bytes.extend_from_slice(self.ledger.as_bytes());
        bytes.extend_from_slice(&self.partition.to_le_bytes());
        bytes.extend_from_slice(&self.term.to_le_bytes());
        bytes.extend_from_slice(&self.instance.to_le_bytes());
        bytes.extend_from_slice(&self.expected.to_le_bytes());
        bytes.extend_from_slice(self.previous.as_bytes());
        put_name(&mut bytes, &self.node);
        match &self.kind {
            Kind::Genesis { sequence, time } => {
                bytes.extend_from_slice(&sequence.to_le_bytes());
                bytes.extend_from_slice(&time.nanoseconds().to_le_bytes());
            }
            Kind::Fence(batch) | Kind::Group(batch) => bytes.extend_from_slice(&batch.to_frame()),
            Kind::Handover { to } => put_name(&mut bytes, to),
            Kind::Heartbeat => {}
        }
        let crc = crc32fast::hash(&bytes[CHECKED_FROM..]);
        bytes[4..CHECKED_FROM].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Decodes a message. Checks that a batch follows from `previous`, but not that `previous` is the reader's
    /// position.
    ///
    /// # Errors
    /// [`DecodeError`].
    pub fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let Some((MAGIC, rest)) = bytes.split_first_chunk::<3>().map(|(m, rest)| (*m, rest)) else {
            return Err(DecodeError::Foreign);
        };
        let mut fields = Fields(rest);
        match fields.array()? {
            [VERSION] => {}
            [version] => return Err(DecodeError::Version(version)),
        }
        let crc = u32::from_le_bytes(fields.array()?);
        if crc32fast::hash(fields.0) != crc {
            return Err(damaged("checksum mismatch"));
        }
        let [tag] = fields.array()?;
        let ledger = LedgerId::from_bytes(fields.array()?);
        let partition = u32::from_le_bytes(fields.array()?);
        let term = u64::from_le_bytes(fields.array()?);
        let instance = u64::from_le_bytes(fields.array()?);
        let expected = u64::from_le_bytes(fields.array()?);
        let previous = Hash::from_bytes(fields.array()?);
        let node = fields.name()?;
        let kind = match tag {
            1 => Kind::Genesis {
                sequence: u64::from_le_bytes(fields.array()?),
                time: Timestamp::from_nanoseconds(i64::from_le_bytes(fields.array()?)),
            },
            2 => Kind::Fence(fields.batch(previous)?),
            3 => Kind::Handover { to: fields.name()? },
            4 => Kind::Group(fields.batch(previous)?),
            5 => Kind::Heartbeat,
            _ => return Err(DecodeError::Kind(tag)),
        };
        if !fields.0.is_empty() {
            return Err(damaged("bytes behind its end"));
        }
        Ok(Self { ledger, partition, term, node, instance, expected, previous, kind })
    }

    /// The chain position behind it, if the position before is `before`.
    pub const fn end(&self, before: Durable) -> Durable {
        match self.kind.batch() {
            Some(stored) => stored.end(),
            None => before,
        }
    }
}

fn damaged(why: impl Into<String>) -> DecodeError {
    DecodeError::Damaged(why.into())
}

fn put_name(bytes: &mut Vec<u8>, name: &NodeName) {
    let name = name.as_str().as_bytes();
    bytes.push(u8::try_from(name.len()).unwrap_or(u8::MAX));
    bytes.extend_from_slice(name);
}

/// The bytes that are still to be decoded.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (array, rest) = self.0.split_first_chunk().ok_or_else(|| damaged("too short"))?;
        self.0 = rest;
        Ok(*array)
    }

    fn name(&mut self) -> Result<NodeName, DecodeError> {
        let [length] = self.array()?;
        let (name, rest) =
            self.0.split_at_checked(length.into()).ok_or_else(|| damaged("too short"))?;
        self.0 = rest;
        let name = std::str::from_utf8(name).map_err(|_| damaged("a name that is no text"))?;
        name.parse().map_err(|_| damaged("no node's name"))
    }

    fn batch(&mut self, previous: Hash) -> Result<StoredBatch, DecodeError> {
        let frame = std::mem::take(&mut self.0);
        StoredBatch::from_frame(frame, previous).map_err(damaged)
    }
}

// Identities of members and ledgers.

/// Most bytes of a node's name.
const NAME_MAX: usize = 63;

/// A text that is not a valid name or id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(&'static str);

/// The name of a node, unique in its cluster: 1 to 63 of `a-z`, `A-Z`, `0-9`, `-` and `_`, so that it can be part of a
/// subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NodeName(Arc<str>);

impl NodeName {
    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for NodeName {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if text.is_empty() || text.len() > NAME_MAX || !text.bytes().all(is_allowed) {
            return Err(ParseError(
                "a node's name has 1 to 63 characters, each a letter, a digit, `-` or `_`",
            ));
        }
        Ok(Self(text.into()))
    }
}

impl TryFrom<String> for NodeName {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<NodeName> for String {
    fn from(name: NodeName) -> Self {
        name.0.as_ref().to_owned()
    }
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Identifies a replicated ledger, and distinguishes it from an earlier one of the same name. Drawn at random when the
/// cluster is initialised; printed as 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LedgerId([u8; 16]);

impl LedgerId {
    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl FromStr for LedgerId {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = (text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit()))
            .then(|| u128::from_str_radix(text, 16).ok())
            .flatten();
        number
            .map(|number| Self(number.to_be_bytes()))
            .ok_or(ParseError("a ledger's id has 32 hexadecimal digits"))
    }
}

impl TryFrom<String> for LedgerId {
    type Error = ParseError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<LedgerId> for String {
    fn from(id: LedgerId) -> Self {
        id.to_string()
    }
}

impl fmt::Display for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for LedgerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The identity of a member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Its node.
    pub node: NodeName,
    /// Drawn at random at each start, so that messages of an earlier process are never taken for those of this one.
    pub instance: u64,
    /// The partition of the ledger. There is only one so far: 0.
    pub partition: u32,
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use quota_journal::Batch;

    use super::*;

    fn message(kind: Kind) -> Message {
        Message {
            ledger: LedgerId::from_bytes(*b"0123456789abcdef"),
            partition: 0,
            term: 3,
            node: "node-1".parse().unwrap(),
            instance: 0x0102_0304_0506_0708,
            expected: 41,
            previous: Hash::from_bytes([7; 32]),
            kind,
        }
    }

    fn kinds() -> [Kind; 5] {
        let batch = Batch {
            first_sequence: 5,
            count: 2,
            time: Timestamp::from_nanoseconds(1_700_000_000_000_000_000),
            payload: b"entries".to_vec(),
        };
        let stored = StoredBatch::behind(Hash::from_bytes([7; 32]), batch);
        [
            Kind::Genesis {
                sequence: 4,
                time: Timestamp::from_nanoseconds(1_600_000_000_000_000_000),
            },
            Kind::Fence(stored.clone()),
            Kind::Handover { to: "node-2".parse().unwrap() },
            Kind::Group(stored),
            Kind::Heartbeat,
        ]
    }

    #[test]
    fn version_1_has_these_bytes() {
        let hex: String = kinds()
            .into_iter()
            .map(|kind| {
                let bytes = message(kind).encode();
                bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() + "\n"
            })
            .collect();
        assert_eq!(hex, include_str!("golden/messages-v1.hex"));
    }

    #[test]
    fn a_message_decodes_to_itself_and_any_changed_bit_is_seen() {
        for kind in kinds() {
            let message = message(kind);
            let bytes = message.encode();
            assert_eq!(Message::decode(&bytes).as_ref(), Ok(&message));
            for at in 0..bytes.len() {
                let mut changed = bytes.clone();
                changed[at] ^= 0x10;
                assert!(Message::decode(&changed).is_err(), "byte {at}");
            }
            for length in 0..bytes.len() {
                assert!(Message::decode(&bytes[..length]).is_err(), "{length} bytes");
            }
        }
        assert_eq!(Message::decode(b"{}"), Err(DecodeError::Foreign));
        assert_eq!(Message::decode(b"QLM\x02"), Err(DecodeError::Version(2)));
    }

    proptest! {
        #[test]
        fn whatever_comes_is_decoded_or_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = Message::decode(&bytes);
            let mut ours = b"QLM\x01".to_vec();
            ours.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
            ours.extend_from_slice(&bytes);
            let _ = Message::decode(&ours);
        }
    }

    #[test]
    fn ids_and_names_print_and_parse() {
        let id = LedgerId::from_bytes([0xA0; 16]);
        assert_eq!(id.to_string(), "a0".repeat(16));
        assert_eq!(id.to_string().parse(), Ok(id));
        assert!("a0".parse::<LedgerId>().is_err());
        assert!(format!("+{}", "a".repeat(31)).parse::<LedgerId>().is_err());
        assert_eq!("node-1_a".parse::<NodeName>().unwrap().as_str(), "node-1_a");
        for wrong in ["", "a.b", "a b", "ä", &"a".repeat(64)] {
            assert!(wrong.parse::<NodeName>().is_err(), "{wrong}");
        }
    }
}
