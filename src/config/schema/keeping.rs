//! The ledger on disk.

use std::{
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use quota_service::config::{Period, Size, blank};

/// `snapshot.*`: when the state is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// After so many entries.
    pub every_entries: NonZeroU64,
    /// After so much time, if there are new entries.
    pub every: Period,
    /// Snapshots that are kept.
    pub keep: NonZeroU32,
}

/// `retention.*`: what compaction keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Retention {
    /// Entries younger than this stay; none: age removes nothing.
    #[serde(with = "blank")]
    pub max_age: Option<Period>,
    /// Older entries go when the ledger is larger than this; none: size removes nothing.
    #[serde(with = "blank")]
    pub max_bytes: Option<Size>,
    /// Where compacted entries are put before they are removed; none: they are removed.
    #[serde(with = "blank")]
    pub archive_dir: Option<PathBuf>,
}

/// `journal.*`: shape of the ledger on disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Journal {
    /// Size of one file of the write-ahead log.
    pub segment_bytes: Size,
    /// Size at which an epoch of the ledger is sealed.
    pub epoch_bytes: Size,
    /// Entries that are made durable together at most.
    pub max_batch_entries: NonZeroUsize,
}

/// `ledger.*`: the handling of a damaged ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ledger {
    /// Whether a ledger with damaged epochs is served: everything that does not need them.
    pub start_with_damage: bool,
}

/// `disk.*`: room on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    /// Below so much free space nothing is granted.
    pub min_free: Size,
}

/// `checkpoint.*`: signed statements of the ledger's position.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    /// The private key; none: nothing is signed.
    #[serde(with = "blank")]
    pub key_file: Option<PathBuf>,
    /// The file that checkpoints are appended to.
    #[serde(with = "blank")]
    pub file: Option<PathBuf>,
    /// After so many entries.
    pub every_entries: NonZeroU64,
    /// After so much time, if there are new entries.
    pub every: Period,
    /// The NATS subject that they are published to; none: they are not.
    #[serde(with = "blank")]
    pub nats_subject: Option<String>,
    /// The directory in which each becomes a file of its own; none: there are no copies.
    #[serde(with = "blank")]
    pub copy_dir: Option<PathBuf>,
}
