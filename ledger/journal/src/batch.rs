//! Batches: the entries that become durable together.

use quota_semantics::Timestamp;

use crate::{Durable, Hash, frame};

/// Most bytes that the payload of one batch may have.
pub const MAX_PAYLOAD_BYTES: usize = 16 * 1024 * 1024;

/// Entries that become durable together: the unit of the hash chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Sequence of its first entry: one more than that of the last entry of the batch before; the first is 1.
    pub first_sequence: u64,
    /// The number of entries; at least one.
    pub count: u32,
    /// Ledger time of its last entry. Never earlier than that of the batch before.
    pub time: Timestamp,
    /// The encoded entries, which the journal does not interpret. At most [`MAX_PAYLOAD_BYTES`].
    pub payload: Vec<u8>,
}

impl Batch {
    /// Sequence of its last entry.
    pub const fn last_sequence(&self) -> u64 {
        self.first_sequence.saturating_add(self.count as u64).saturating_sub(1)
    }
}

/// A durable batch, with its place in the hash chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredBatch {
    /// The batch.
    pub batch: Batch,
    /// Chain hash of this batch: it covers the batch and, through `previous`, all before it.
    pub hash: Hash,
    /// Chain hash of the batch before; [`Hash::GENESIS`] for the first.
    pub previous: Hash,
}

impl StoredBatch {
    /// A batch with its place in the chain: behind the batch with this chain hash.
    pub fn behind(previous: Hash, batch: Batch) -> Self {
        let hash = frame::encode(&batch, &previous, false, &mut Vec::new());
        Self { batch, hash, previous }
    }

    /// Its frame: its bytes in the write-ahead log.
    pub fn to_frame(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame::encode(&self.batch, &self.previous, false, &mut bytes);
        bytes
    }

    /// Decodes the batch of exactly one frame, behind the batch with this chain hash.
    ///
    /// # Errors
    /// Why the bytes are not such a frame.
    pub fn from_frame(bytes: &[u8], previous: Hash) -> Result<Self, String> {
        let frame = match frame::parse(bytes) {
            frame::Parsed::Complete(frame) if frame.bytes.len() == bytes.len() => frame,
            frame::Parsed::Complete(_) => return Err("bytes after the frame".to_owned()),
            frame::Parsed::End | frame::Parsed::NeedMore(_) => {
                return Err("a frame that is cut off".to_owned());
            }
            frame::Parsed::Corrupt(why) => return Err(why.to_owned()),
        };
        let stored = Self {
            batch: Batch {
                first_sequence: frame.first_sequence,
                count: frame.count,
                time: frame.time,
                payload: frame.payload.to_vec(),
            },
            hash: frame.hash,
            previous,
        };
        match stored.computed_hash() == stored.hash {
            true => Ok(stored),
            false => Err("the batch does not continue the hash chain".to_owned()),
        }
    }

    /// The chain position behind it.
    pub const fn end(&self) -> Durable {
        Durable { sequence: self.batch.last_sequence(), hash: self.hash, time: self.batch.time }
    }

    /// The chain hash that the batch must have behind `previous`.
    pub fn computed_hash(&self) -> Hash {
        frame::encode(&self.batch, &self.previous, false, &mut Vec::new())
    }
}
