//! Sizes and counts of the parts of a journal.

use super::{Durable, snapshot::SnapshotInfo};

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
