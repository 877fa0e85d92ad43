//! The journal: durable, hash-chained, append-only.
//!
//! It stores *batches*: opaque payloads with the sequence numbers and the ledger time of the entries
//! in them. Writers use [`Journal`], readers use [`Reader`]; neither depends on where the
//! bytes are. The format of every file is described in `docs/storage-format.md`.

mod archive;
mod backup;
pub mod checkpoint;
mod codec;
mod compaction;
pub mod disk;
mod epoch;
mod file;
mod frame;
mod journal;
mod maintenance;
mod positions;
mod reader;
mod recovery;
mod repair;
mod snapshot;
mod store;
mod verify;
mod wal;

#[cfg(test)]
mod golden;
#[cfg(any(test, feature = "test-util"))]
pub mod simulation;
#[cfg(test)]
mod tests;

pub use archive::{Archive, ArchiveFile};
pub use backup::{BackedUp, read_backup, refer_to_archive, write_backup};
pub use compaction::{Compaction, Retention};
pub use epoch::Seal;
pub use file::{FileJournal, FileReader};
pub use frame::{Hash, ParseHashError};
pub use journal::{
    Batch, Damage, Durable, Error, Journal, MAX_PAYLOAD_BYTES, Operation, Options, Stats,
    StoredBatch, Throttle,
};
pub use reader::{BatchReader, BatchRef, Batches, Offline, OfflineData, Reader};
pub use recovery::{LOCK, Recovery};
pub use repair::{Remade, Repair, repair};
pub use snapshot::{SnapshotInfo, SnapshotReader, SnapshotWriter, Snapshots};
pub use verify::{Observer, Verified, verify};

/// The directories of a ledger in its data directory.
pub const DIRECTORIES: [&str; 3] = [wal::DIRECTORY, epoch::DIRECTORY, snapshot::DIRECTORY];

/// The file with the last durable position, in the data directory.
pub const ANCHOR: &str = positions::ANCHOR_FILE;

/// The file that makes a directory a data directory.
pub const BASE: &str = positions::BASE_FILE;
