//! Errors of the journal.

use std::{fmt, io, path::PathBuf, sync::Arc};

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
    #[must_use]
    pub fn at_offset(mut self, offset: impl Into<Option<u64>>) -> Self {
        self.offset = offset.into();
        self
    }

    /// The same damage, at the entry with this sequence.
    #[must_use]
    pub fn at_sequence(mut self, sequence: impl Into<Option<u64>>) -> Self {
        self.sequence = sequence.into();
        self
    }

    /// The same damage, which ends with the entry with this sequence.
    #[must_use]
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
