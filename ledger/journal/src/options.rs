//! How a journal is kept.

use std::path::PathBuf;

use super::throttle::Throttle;

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a write-ahead log segment, in bytes.
    pub segment_bytes: u64,
    /// An epoch is sealed at the end of the segment with which its frames have so many bytes.
    pub epoch_bytes: u64,
    /// The writer waits while the write-ahead log holds more bytes of frames than this that have not been
    /// flushed into sled yet.
    pub wal_limit_bytes: u64,
    /// Sealed epochs are read and checked when the journal is opened, newest first, until so many bytes
    /// of frames have been read. The others are checked when they are read.
    pub check_bytes: u64,
    /// Whether damage to sealed epochs is no reason not to open: what of them cannot be read is not served.
    pub start_with_damage: bool,
    /// Directory that receives epochs before compaction removes them; none: they are gone.
    pub archive: Option<PathBuf>,
    /// Whether threads prepare segments and fill epochs. Without them [`FileJournal::work`](crate::FileJournal::work) has to be
    /// called, as tests do that want each step in its place.
    pub background: bool,
    /// Between the steps of what goes on behind the ack path: in the threads, in compaction, in snapshots.
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
