//! Every key of the configuration with its type. The shipped `config.toml` holds the defaults and describes the keys.

mod cluster;
mod deciding;
mod keeping;
mod serving;
mod sources;

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use serde::{Deserialize, Serialize};

pub use cluster::Cluster;
pub use deciding::{ALL_KINDS, Admission, Denials, Groups, Reservations};
pub use keeping::{Checkpoint, Disk, Journal, Ledger, Retention, Snapshot};
pub use quota_service::config::{Log, LogFormat, Traces};
pub use serving::{Admin, Auth, Http, Limits, RESERVATION_RESOURCES_MAX, Shutdown, Tls};
pub use sources::{Nats, Quotas, WatermarkSource};

/// The whole configuration. [`Config::default`] is the shipped file: what runs without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Address of the HTTP API.
    pub listen: SocketAddr,
    /// Directory of the ledger.
    pub data_dir: PathBuf,
    /// Plural (resource) names of kinds that the built-in rules would get wrong: `Kind.group` to plural.
    pub kinds: BTreeMap<String, String>,
    /// The HTTP API.
    pub http: Http,
    /// Health and metrics.
    pub admin: Admin,
    /// The event stream.
    pub nats: Nats,
    /// How many groups there may be.
    pub groups: Groups,
    /// Where quotas come from.
    pub quotas: Quotas,
    /// How long and how many reservations may stand.
    pub reservations: Reservations,
    /// When the state is stored.
    pub snapshot: Snapshot,
    /// What compaction keeps.
    pub retention: Retention,
    /// Shape of the ledger on disk.
    pub journal: Journal,
    /// The handling of a damaged ledger.
    pub ledger: Ledger,
    /// Room on the disk.
    pub disk: Disk,
    /// Limits on requests.
    pub limits: Limits,
    /// Signed statements of the ledger's position.
    pub checkpoint: Checkpoint,
    /// The denials that are kept.
    pub denials: Denials,
    /// Logging.
    pub log: Log,
    /// Where spans are sent.
    pub traces: Traces,
    /// The admission webhook.
    pub admission: Admission,
    /// Certificates of the webhook's listener, and of the API's.
    pub tls: Tls,
    /// Who may call the HTTP API.
    pub auth: Auth,
    /// How the daemon stops.
    pub shutdown: Shutdown,
    /// Several nodes that keep one ledger.
    pub cluster: Cluster,
}

impl Default for Config {
    fn default() -> Self {
        quota_service::config::shipped()
    }
}
