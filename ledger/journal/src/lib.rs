//! The journal: durable, hash-chained, append-only.
//!
//! It stores *batches*: opaque payloads with the sequence numbers and the ledger time of the entries
//! in them. Writers use [`Journal`], readers use [`Reader`]; neither depends on where the
//! bytes are. The format of every file is described in `docs/storage-format.md`.

mod archive;
mod backup;
mod base;
mod beginnings;
mod codec;
mod compact;
pub mod disk;
mod epoch;
mod error;
mod file;
mod frame;
#[cfg(test)]
mod golden;
mod hash;
mod maintenance;
mod offline;
mod options;
mod reader;
mod recovery;
mod repair;
#[cfg(any(test, feature = "test-util"))]
pub mod sim;
mod snapshot;
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod throttle;
mod verify;
mod wal;
mod watermark;

pub use archive::{Archive, ArchiveFile};
pub use backup::{BackedUp, read_backup, write_backup};
pub use compact::{Compaction, Retention};
pub use epoch::Seal;
pub use error::{Damage, Error, Operation};
pub use file::{FileJournal, FileReader};
pub use hash::{Hash, ParseHashError};
pub use offline::{Offline, OfflineData};
pub use options::Options;
pub use reader::{BatchReader, BatchRef};
pub use recovery::{LOCK, Recovery};
pub use repair::{Remade, Repair, repair};
pub use snapshot::{SnapshotInfo, SnapshotReader, SnapshotWriter, Snapshots};
pub use stats::Stats;
pub use throttle::Throttle;
pub use verify::{Observer, Verified, verify, verify_with};

use quota_semantics::Timestamp;

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
    #[must_use]
    pub const fn last_sequence(&self) -> u64 {
        self.first_sequence
            .saturating_add(self.count as u64)
            .saturating_sub(1)
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
    #[must_use]
    pub fn behind(previous: Hash, batch: Batch) -> Self {
        let hash = frame::encode(&batch, &previous, false, &mut Vec::new());
        Self {
            batch,
            hash,
            previous,
        }
    }

    /// Its frame: its bytes in the write-ahead log.
    #[must_use]
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
    #[must_use]
    pub const fn end(&self) -> Durable {
        Durable {
            sequence: self.batch.last_sequence(),
            hash: self.hash,
            time: self.batch.time,
        }
    }

    /// The chain hash that the batch must have behind `previous`.
    #[must_use]
    pub fn computed_hash(&self) -> Hash {
        frame::encode(&self.batch, &self.previous, false, &mut Vec::new())
    }
}

/// A durable position of the hash chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Durable {
    /// Sequence of the last durable entry; 0 if there is none.
    pub sequence: u64,
    /// Chain hash of the last durable batch.
    pub hash: Hash,
    /// Ledger time of the last durable entry; the epoch if there is none.
    pub time: Timestamp,
}

impl Durable {
    /// The position of an empty ledger.
    pub const NOTHING: Self = Self {
        sequence: 0,
        hash: Hash::GENESIS,
        time: Timestamp::EPOCH,
    };
}

/// The writer's side: append batches, then make them durable together.
pub trait Journal: Send {
    /// Adds a batch to the group that the next [`Journal::sync`] makes durable. Nothing is written yet.
    ///
    /// # Errors
    /// [`Error::TooLarge`] and [`Error::OutOfOrder`] leave the journal unchanged; every other error is final.
    fn append(&mut self, batch: Batch) -> Result<(), Error>;

    /// Makes all appended batches durable: one write, one fdatasync. If there is nothing to write, returns the durable
    /// position.
    ///
    /// # Errors
    /// Every error is final: the journal is poisoned, this and every later call fails, and batches appended since the
    /// last success may or may not be durable. The process has to stop and to recover.
    fn sync(&mut self) -> Result<Durable, Error>;

    /// Writes all appended batches, so that readers can read them and a killed process loses none of them. A power loss
    /// can lose them until they are synced, soon, in the background: for replicas, whose entries are in the cluster's
    /// log. By default they are synced at once.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    fn write(&mut self) -> Result<Durable, Error> {
        self.sync()
    }
}

/// Batches in order of their sequence, up to the durable position at the time when the iterator reaches it.
pub type Batches = Box<dyn Iterator<Item = Result<StoredBatch, Error>> + Send>;

/// The readers' side: durable batches only, from any thread, while the writer appends.
pub trait Reader: Send + Sync {
    /// Reads from the batch that holds the entry `from` (0 and 1: from the beginning). Every batch is checked against
    /// its checksum and against the chain; after an error the iterator ends.
    ///
    /// The first item is [`Error::Compacted`] if that entry is no longer kept. Behind the durable end there are no
    /// items.
    fn read(&self, from: u64) -> Batches;

    /// Sequence of the first entry that can be read: 1 until compaction removes entries; later as well, if the archive
    /// holds all of them.
    fn first_sequence(&self) -> u64;

    /// The position up to which the journal is durable, or at least [written](Journal::write), and so can be read.
    fn durable(&self) -> Durable;
}
