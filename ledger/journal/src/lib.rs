//! The journal: durable, hash-chained, append-only.
//!
//! It stores *batches*: opaque payloads with the sequence numbers and the ledger time of the entries
//! in them. Writers use [`Journal`], readers use [`Reader`]; neither depends on where the
//! bytes are. The format of every file is described in `docs/storage-format.md`.

mod anchor;
mod archive;
mod backup;
mod base;
mod batch;
mod beginnings;
pub mod checkpoint;
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
mod journal;
mod maintenance;
mod offline;
mod parallel;
mod reader;
mod recovery;
mod repair;
#[cfg(any(test, feature = "test-util"))]
pub mod simulation;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod verify;
mod wal;

pub use archive::{Archive, ArchiveFile};
pub use backup::{BackedUp, read_backup, refer_to_archive, write_backup};
pub use batch::{Batch, MAX_PAYLOAD_BYTES, StoredBatch};
pub use compact::{Compaction, Retention};
pub use epoch::Seal;
pub use error::{Damage, Error, Operation};
pub use file::{FileJournal, FileReader};
pub use hash::{Hash, ParseHashError};
pub use journal::{Durable, Journal, Options, Stats, Throttle};
pub use offline::{Offline, OfflineData};
pub use reader::{BatchReader, BatchRef, Batches, Reader};
pub use recovery::{LOCK, Recovery};
pub use repair::{Remade, Repair, repair};
pub use snapshot::{SnapshotInfo, SnapshotReader, SnapshotWriter, Snapshots};
pub use verify::{Observer, Verified, verify};

/// The directories of a ledger in its data directory.
pub const DIRECTORIES: [&str; 3] = [wal::DIRECTORY, epoch::DIRECTORY, snapshot::DIRECTORY];

/// The file with the last durable position, in the data directory.
pub const ANCHOR: &str = anchor::FILE;

/// The file that makes a directory a data directory.
pub const BASE: &str = base::FILE;
