//! Options of a journal.

use std::path::PathBuf;

use super::throttle::Throttle;

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
