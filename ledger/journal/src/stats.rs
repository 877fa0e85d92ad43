//! How much there is of everything.

use super::{Durable, snapshot::SnapshotInfo};

/// How much there is of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// How far the journal is durable.
    pub durable: Durable,
    /// The first sequence that can be read, from the archive if need be.
    pub first_sequence: u64,
    /// The first sequence in the data directory.
    pub kept_from: u64,
    /// How far entries have been flushed into sled.
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
    /// Bytes that are free where the data directory is.
    pub free_bytes: u64,
}
