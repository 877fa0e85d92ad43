//! The interface of a writer: batches, the trait, and its errors.

use std::{fmt, io, path::PathBuf, sync::Arc};

use quota_semantics::Timestamp;

use crate::{Hash, frame, snapshot::SnapshotInfo};

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
    /// Ledger time of the last durable entry; `Timestamp::EPOCH` if there is none.
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

/// Why an operation of the journal failed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Stored bytes are wrong or missing. Nothing behind that place can be trusted, so the journal refuses to continue.
    #[error("ledger damaged: {0}")]
    Damaged(Damage),
    /// Another process has the data directory open.
    #[error("data directory {} is in use by {}", .directory.display(), process(*.holder))]
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// The process id of the holder in the lock file, if it can be read.
        holder: Option<u32>,
    },
    /// The operating system refused an operation. For a write or a sync this is final.
    #[error("cannot {operation} {}: {source}", .path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// The operation.
        operation: Operation,
        /// The error of the operating system.
        source: Arc<io::Error>,
    },
    /// An earlier error ended this journal: it accepts no more writes.
    #[error("the journal has stopped: {cause}")]
    Poisoned {
        /// The first error.
        #[source]
        cause: Arc<Error>,
    },
    /// The journal was closed: another process may have the data directory open.
    #[error("the journal was closed")]
    Closed,
    /// In a cluster: another node leads, so appends here that were not acknowledged are void.
    #[error("another node leads this ledger")]
    Deposed,
    /// The requested entry was compacted and is not in the archive.
    #[error("compacted away; the first entry still held is {first}")]
    Compacted {
        /// The first sequence that can be read.
        first: u64,
    },
    /// A payload above [`MAX_PAYLOAD_BYTES`](super::MAX_PAYLOAD_BYTES), or a group that has grown too large for one
    /// write.
    #[error("{bytes} bytes are more than the limit of {limit} bytes")]
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The allowed size in bytes.
        limit: usize,
    },
    /// A batch that does not follow the one before, by sequence or by time, or that has no entries.
    #[error("batch out of order: {why}")]
    OutOfOrder {
        /// The reason.
        why: String,
    },
}

/// Damage in a place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, or the database directory.
    pub file: PathBuf,
    /// Offset in the file, if determined.
    pub offset: Option<u64>,
    /// Sequence of the first affected entry, if determined.
    pub sequence: Option<u64>,
    /// Sequence of the last affected entry, if determined: the entries behind it can be read.
    pub through: Option<u64>,
    /// The finding.
    pub why: String,
}

/// An operation on the disk or the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read a file or a database.
    Read,
    /// List a directory.
    List,
    /// Read the metadata of a file.
    Stat,
    /// Make a private copy of a database.
    Copy,
    /// Query the free bytes.
    FreeSpace,
    /// Look for a ledger in a directory.
    FindLedger,
    /// Start a thread.
    StartThread,
    /// Open a file or a database.
    Open,
    /// Create a file.
    Create,
    /// Create a directory.
    CreateDirectory,
    /// Begin a ledger in a directory.
    BeginLedger,
    /// Write a file or a database.
    Write,
    /// Have a database write its buffers.
    Flush,
    /// Make the content of a file durable.
    SyncFile,
    /// Make the names in a directory durable, or a file with its metadata.
    SyncAll,
    /// Rename a file.
    Rename,
    /// Remove a file or a directory.
    Remove,
    /// Close a database.
    Close,
    /// Lock a file.
    Lock,
    /// Unlock a file.
    Unlock,
    /// Copy an epoch into the archive.
    Archive,
    /// Copy a snapshot out of a backup.
    CopySnapshot,
}

impl Operation {
    /// Whether the operation leaves the disk unchanged, so that its failure leaves a known state.
    const fn only_reads(self) -> bool {
        matches!(
            self,
            Self::Read
                | Self::List
                | Self::Stat
                | Self::Copy
                | Self::FreeSpace
                | Self::FindLedger
                | Self::StartThread
        )
    }
}

impl Error {
    /// An I/O error with its place.
    pub fn io(path: impl Into<PathBuf>, operation: Operation, source: io::Error) -> Self {
        Self::Io { path: path.into(), operation, source: Arc::new(source) }
    }

    /// Whether stored data is damaged (and the daemon should exit with code 4): by this error, or by the cause that
    /// ended the journal.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Damaged(_) => true,
            Self::Poisoned { cause } => cause.is_damage(),
            _ => false,
        }
    }

    /// Whether a write or a sync failed, so that the content of the disk is unknown until recovery (and the daemon
    /// should exit with code 5). Missing permissions and missing files are not included.
    pub fn is_failed_write(&self) -> bool {
        use io::ErrorKind::{
            AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied,
            ReadOnlyFilesystem,
        };
        match self {
            Self::Poisoned { cause } => !cause.is_damage(),
            Self::Io { operation, source, .. } => {
                let permitted = !matches!(
                    source.kind(),
                    PermissionDenied
                        | ReadOnlyFilesystem
                        | NotFound
                        | NotADirectory
                        | IsADirectory
                        | AlreadyExists
                );
                permitted && !operation.only_reads()
            }
            _ => false,
        }
    }

    /// Whether the disk is full.
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
            }
            _ => false,
        }
    }
}

impl Damage {
    /// Damage whose place is determined no further than the file.
    pub fn new(file: impl Into<PathBuf>, why: impl Into<String>) -> Self {
        Self { file: file.into(), offset: None, sequence: None, through: None, why: why.into() }
    }

    /// The same damage, at this offset in the file.
    pub fn at_offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.offset = offset.into();
        self
    }

    /// The same damage, at the entry with this sequence.
    pub fn at_sequence(mut self, sequence: impl Into<Option<u64>>) -> Self {
        self.sequence = sequence.into();
        self
    }

    /// The same damage, which ends with the entry with this sequence.
    pub fn through(mut self, last: impl Into<Option<u64>>) -> Self {
        self.through = last.into();
        self
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::List => "list",
            Self::Stat => "stat",
            Self::Copy => "copy",
            Self::FreeSpace => "ask for the free space of",
            Self::FindLedger => "find a ledger in",
            Self::StartThread => "start a thread for",
            Self::Open => "open",
            Self::Create => "create",
            Self::CreateDirectory => "create directory",
            Self::BeginLedger => "begin a ledger in",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::SyncFile => "fdatasync",
            Self::SyncAll => "fsync",
            Self::Rename => "rename",
            Self::Remove => "remove",
            Self::Close => "close",
            Self::Lock => "lock",
            Self::Unlock => "unlock",
            Self::Archive => "archive from",
            Self::CopySnapshot => "copy a snapshot from",
        })
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(offset) = self.offset {
            write!(f, " at byte {offset}")?;
        }
        match (self.sequence, self.through) {
            (Some(first), Some(last)) if first < last => {
                write!(f, " (sequences {first} to {last})")?;
            }
            (Some(sequence), _) => write!(f, " (sequence {sequence})")?,
            (None, _) => {}
        }
        write!(f, ": {}", self.why)
    }
}

/// The holder of a lock.
fn process(holder: Option<u32>) -> String {
    match holder {
        Some(id) => format!("process {id}"),
        None => "another process".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn poisoned(cause: Error) -> Error {
        Error::Poisoned { cause: Arc::new(cause) }
    }

    #[test]
    fn a_stopped_journal_is_damaged_or_failed_as_its_cause_was() {
        let damage = Error::Damaged(Damage {
            file: "wal".into(),
            offset: None,
            sequence: Some(7),
            through: None,
            why: "a wrong checksum".to_owned(),
        });
        let failed = Error::io("wal", Operation::SyncFile, io::Error::other("EIO"));
        let unread = Error::io("wal", Operation::Read, io::Error::other("EIO"));
        let kinds = |error: &Error| (error.is_damage(), error.is_failed_write());
        assert_eq!(kinds(&damage), (true, false));
        assert_eq!(kinds(&failed), (false, true));
        assert_eq!(kinds(&unread), (false, false));
        assert_eq!(kinds(&poisoned(damage)), (true, false));
        assert_eq!(kinds(&poisoned(failed)), (false, true));
        assert_eq!(kinds(&poisoned(unread)), (false, true), "its last writes may not be on disk");
    }
}
