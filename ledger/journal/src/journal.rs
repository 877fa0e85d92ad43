//! The interface of a writer.

use std::{fmt, path::PathBuf, sync::Arc};

use quota_semantics::Timestamp;

use crate::{Batch, Error, Hash, snapshot::SnapshotInfo};

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

/// Options of a journal.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a write-ahead log segment, in bytes.
    pub segment_bytes: u64,
    /// An epoch is sealed at the end of the segment with which its frames reach this many bytes.
    pub epoch_bytes: u64,
    /// The writer waits while the write-ahead log holds more bytes of frames than this that are not flushed into sled
    /// yet.
    pub wal_limit_bytes: u64,
    /// Sealed epochs are read and checked when the journal is opened, newest first, until this many bytes of frames
    /// have been read. The others are checked when they are read.
    pub check_bytes: u64,
    /// Whether the journal is opened despite damaged sealed epochs. Unreadable parts of them are not served.
    pub start_with_damage: bool,
    /// Directory to which epochs are copied before compaction removes them; none: they are lost.
    pub archive: Option<PathBuf>,
    /// Whether threads prepare segments and fill epochs. Without threads
    /// [`FileJournal::work`](crate::FileJournal::work) has to be called, as in tests that control each step.
    pub background: bool,
    /// Called between the steps of background work: in the threads, in compaction, in snapshots.
    pub throttle: Throttle,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 16 * 1024 * 1024,
            epoch_bytes: 64 * 1024 * 1024,
            wal_limit_bytes: 1024 * 1024 * 1024,
            check_bytes: 1024 * 1024 * 1024,
            start_with_damage: false,
            archive: None,
            background: true,
            throttle: Throttle::default(),
        }
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
    pub const NOTHING: Self = Self { sequence: 0, hash: Hash::GENESIS, time: Timestamp::EPOCH };
}

/// Sizes and counts of the parts of a journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// The durable position.
    pub durable: Durable,
    /// The first sequence that can be read, including the archive.
    pub first_sequence: u64,
    /// The first sequence in the data directory.
    pub kept_from: u64,
    /// The sequence up to which entries have been flushed into sled.
    pub flushed: u64,
    /// Bytes of the write-ahead log's files.
    pub wal_bytes: u64,
    /// Segments of the write-ahead log.
    pub wal_segments: usize,
    /// Bytes of the epochs' files.
    pub epochs_bytes: u64,
    /// Epochs that are sealed.
    pub sealed_epochs: usize,
    /// Bytes of the snapshots.
    pub snapshot_bytes: u64,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Bytes of the archive's files.
    pub archive_bytes: u64,
    /// Free bytes of the data directory's file system.
    pub free_bytes: u64,
}

/// A function that is called between the steps of background work: moving frames, sealing, compaction, snapshots. A
/// step takes little more than a millisecond. The function may wait, so that other work gets the processors; by default
/// nothing is called.
#[derive(Clone, Default)]
pub struct Throttle(Option<Arc<dyn Fn() + Send + Sync>>);

impl Throttle {
    /// Calls `pause` between two steps, on the thread that does them.
    pub fn new(pause: impl Fn() + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(pause)))
    }

    pub(super) fn pause(&self) {
        if let Some(pause) = &self.0 {
            pause();
        }
    }
}

impl fmt::Debug for Throttle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Throttle")
    }
}
