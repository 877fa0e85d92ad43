//! What can go wrong with the journal.

use std::{fmt, io, path::PathBuf};

/// Why the journal could not do what it was asked.
#[derive(Debug)]
pub enum Error {
    /// Stored bytes are not what was written, or are missing. Nothing behind that place can be
    /// trusted, so the journal refuses to go on.
    Damaged(Damage),
    /// Another process has the data directory open.
    Locked {
        /// The data directory.
        directory: PathBuf,
        /// Process id that the holder left in the lock file, if it can be read.
        holder: Option<u32>,
    },
    /// The operating system refused an operation. From a write or a sync this is final.
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried, as a verb: "write", "fdatasync", "rename".
        operation: &'static str,
        /// What the operating system said.
        source: io::Error,
    },
    /// An earlier failure (told here) ended this journal.
    Poisoned {
        /// The text of the first error.
        why: String,
    },
    /// The entry asked for was compacted away and is not in the archive.
    Compacted {
        /// The first sequence that can be read.
        first: u64,
    },
    /// A payload above [`MAX_PAYLOAD_BYTES`](super::MAX_PAYLOAD_BYTES), or a group that has grown too large to be written at
    /// once.
    TooLarge {
        /// Its size in bytes.
        bytes: usize,
        /// The most that is allowed, in bytes.
        limit: usize,
    },
    /// A batch that does not follow the one before, by sequence or by time, or that has no entries.
    OutOfOrder {
        /// What is wrong with it.
        why: String,
    },
}

/// A damaged place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The file, or the database directory.
    pub file: PathBuf,
    /// Offset in the file, where that is known.
    pub offset: Option<u64>,
    /// Sequence of the first entry that is affected, where that is known.
    pub sequence: Option<u64>,
    /// Sequence of the last entry that is affected, where that is known: what follows can be read.
    pub through: Option<u64>,
    /// What was found.
    pub why: String,
}

impl Error {
    /// An I/O error with its place.
    pub fn io(path: impl Into<PathBuf>, operation: &'static str, source: io::Error) -> Self {
        Self::Io {
            path: path.into(),
            operation,
            source,
        }
    }

    /// Whether it says that stored data is damaged (and the daemon should exit with code 4).
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        matches!(self, Self::Damaged(_))
    }

    /// Whether a write or a sync failed, so that what is on the disk is not known before it is recovered (and the
    /// daemon should exit with code 5). That something may not be written, or is not there, is none of these.
    #[must_use]
    pub fn is_failed_write(&self) -> bool {
        use io::ErrorKind::{
            AlreadyExists, IsADirectory, NotADirectory, NotFound, PermissionDenied,
            ReadOnlyFilesystem,
        };
        match self {
            Self::Poisoned { .. } => true,
            Self::Io {
                operation, source, ..
            } => {
                let writes = !["read", "list", "stat", "copy"].contains(operation);
                let permitted = !matches!(
                    source.kind(),
                    PermissionDenied
                        | ReadOnlyFilesystem
                        | NotFound
                        | NotADirectory
                        | IsADirectory
                        | AlreadyExists
                );
                writes && permitted
            }
            _ => false,
        }
    }

    /// Whether the disk is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        match self {
            Self::Io { source, .. } => matches!(
                source.kind(),
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded
            ),
            _ => false,
        }
    }
}

impl From<Damage> for Error {
    fn from(damage: Damage) -> Self {
        Self::Damaged(damage)
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

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged(damage) => write!(f, "ledger damaged: {damage}"),
            Self::Locked { directory, holder } => {
                write!(f, "data directory {} is in use", directory.display())?;
                match holder {
                    Some(pid) => write!(f, " by process {pid}"),
                    None => write!(f, " by another process"),
                }
            }
            Self::Io {
                path,
                operation,
                source,
            } => write!(f, "cannot {operation} {}: {source}", path.display()),
            Self::Poisoned { why } => write!(f, "the journal has stopped: {why}"),
            Self::Compacted { first } => {
                write!(f, "compacted away; the first entry still held is {first}")
            }
            Self::TooLarge { bytes, limit } => {
                write!(f, "{bytes} bytes are more than the limit of {limit} bytes")
            }
            Self::OutOfOrder { why } => write!(f, "batch out of order: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}
