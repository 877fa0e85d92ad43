//! Every key of the configuration with its type. The shipped `config.toml` holds the defaults and describes the keys.

pub use quota_service::config::{Log, LogFormat, Traces};

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use quota_core::decide::Unlimited;
use quota_replication::protocol::NodeName;
use quota_semantics::{
    group::manifest,
    object::{GroupResource, MEASURED},
};
use quota_service::{
    config::{Period, Size, blank},
    nats::Connection,
};
use serde::{Deserialize, Serialize};

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
    /// How long reservations may be pending, and how many.
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

/// `cluster.*`: several nodes that keep one ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// NATS servers that hold the log, separated by commas; none: this node is alone.
    #[serde(with = "blank")]
    pub servers: Option<String>,
    /// Addresses of the servers' monitoring.
    pub monitoring: Vec<String>,
    /// Name of the replicated ledger: part of the names of its stream and subjects.
    pub ledger: String,
    /// Name of this node: one of `peers`.
    #[serde(with = "blank")]
    pub node: Option<String>,
    /// All nodes, and the address at which the others reach each.
    pub peers: BTreeMap<String, String>,
    /// Address for the other nodes.
    #[serde(with = "blank")]
    pub listen: Option<SocketAddr>,
    /// File with the secret by which nodes authenticate each other.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// Certificate chain (PEM) of `listen`.
    #[serde(with = "blank")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(with = "blank")]
    pub tls_key: Option<PathBuf>,
    /// CA certificates (PEM) that other nodes' certificates are signed by.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// Servers that hold the log.
    pub replicas: usize,
    /// After this time without a message of the leader another node takes over.
    pub silence: Period,
    /// The interval of an idle leader's heartbeats.
    pub heartbeat: Period,
    /// The time for which a leader is sure that no other node leads.
    pub lease: Period,
    /// An append without an answer for this time is ambiguous.
    pub ack_wait: Period,
    /// A node whose clock differs by more from the median of the nodes' clocks does not lead.
    pub max_clock_skew: Period,
    /// A follower that may be further behind answers no reads.
    pub max_read_age: Period,
    /// Digests of the states of nodes are compared once in so much ledger time.
    pub digest_interval: Period,
    /// The stream is not kept for nodes that have not reported for this time.
    pub forget_after: Period,
    /// Bytes, about, that stay in the stream, also of what all nodes have.
    pub stream_bytes: Size,
    /// Start with servers that may lose what they acknowledged.
    #[serde(rename = "unsafe")]
    pub is_unsafe: bool,
}

impl Cluster {
    /// Whether there is more than this node.
    pub const fn is_on(&self) -> bool {
        self.servers.is_some()
    }

    /// The name of this node, if it is one.
    pub fn node(&self) -> Option<NodeName> {
        self.node.as_deref()?.parse().ok()
    }
}

/// `reservations.*`: how long they may be pending, and how many.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reservations {
    /// Time to live when none is requested.
    pub default_ttl: Period,
    /// Longest time to live that can be requested.
    pub max_ttl: Period,
    /// Longest that a reservation is held, however often it is extended.
    pub max_lifetime: Period,
    /// Longest that an expired reservation is held while the sources lag.
    pub max_hold: Period,
    /// Pending reservations in all; long ones count as several.
    pub max_pending: NonZeroUsize,
    /// Pending reservations of one namespace.
    pub max_pending_per_namespace: NonZeroUsize,
    /// Pending reservations that one principal has requested.
    pub max_pending_per_principal: NonZeroUsize,
    /// What to do with a request for a resource that nothing limits.
    pub unlimited: Unlimited,
}

/// `groups.*`: how many groups, and how deep in each other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Groups {
    /// Groups in all.
    pub max: NonZeroUsize,
    /// Groups from the root of a tree to a leaf.
    pub max_depth: NonZeroUsize,
    /// Groups that count objects of one namespace.
    pub max_per_namespace: NonZeroUsize,
    /// The labels of objects that are recorded, so that groups may choose objects by them.
    pub object_labels: Vec<String>,
}

/// `denials.*`: the denials that are kept.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Denials {
    /// Denials that are kept at most.
    pub max_records: NonZeroUsize,
    /// Bytes of them at most.
    pub max_bytes: Size,
    /// How long a denial is kept at most.
    pub max_age: Period,
}

/// In `admission.count`: whatever quotas limit.
pub const ALL_KINDS: &str = "*";

/// `admission.*`: the admission webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admission {
    /// Address of its TLS listener; none: reviews come by the HTTP API only.
    #[serde(with = "blank")]
    pub listen: Option<SocketAddr>,
    /// Share of a limit (0 to 1) from which an admitted request is answered with a warning.
    pub warn_ratio: f64,
    /// Admit while the sources lag so far that usage is uncertain.
    pub allow_when_behind: bool,
    /// File with limited resources, as Kubernetes' `AdmissionConfiguration` holds them.
    #[serde(with = "blank")]
    pub limited_resources_file: Option<PathBuf>,
    /// Workloads that are charged for their pods, as `deployments.apps`.
    pub charge: Vec<String>,
    /// Kinds that the webhook's rules list besides those that count for more than their number; `*`: all that quotas
    /// limit.
    pub count: Vec<String>,
}

/// `snapshot.*`: when the state is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Snapshot {
    /// After this many entries.
    pub every_entries: NonZeroU64,
    /// After this time, if there are new entries.
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
    /// After this many entries.
    pub every_entries: NonZeroU64,
    /// After this time, if there are new entries.
    pub every: Period,
    /// The NATS subject that they are published to; none: they are not.
    #[serde(with = "blank")]
    pub nats_subject: Option<String>,
    /// The directory in which each becomes a file of its own; none: there are no copies.
    #[serde(with = "blank")]
    pub copy_dir: Option<PathBuf>,
}

/// `http.*`: the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Http {
    /// Names and addresses, without port, that requests may be for, besides loopback and the local address of the
    /// connection; `*`: all.
    pub allowed_hosts: Vec<String>,
}

/// `admin.*`: health and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admin {
    /// Address of the health and metrics endpoints; plain HTTP.
    pub listen: SocketAddr,
}

/// The largest value of `limits.reservation_resources`: of a request with more, the rest is not even parsed.
pub const RESERVATION_RESOURCES_MAX: usize = 256;

/// `limits.*`: limits on requests.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Largest request body.
    pub request_body_bytes: Size,
    /// Largest body of `POST /v1/events`, `/v1/drift` and `/v1/corrections`.
    pub events_body_bytes: Size,
    /// Bytes of bodies, of requests and of answers, that a listener holds at once.
    pub bodies_bytes: Size,
    /// Open connections per listener.
    pub connections: NonZeroUsize,
    /// How long a request's head may take to arrive.
    pub header_timeout: Period,
    /// How long a request may take to be answered, and its caller to read the answer.
    pub request_timeout: Period,
    /// How long a request's body may pause while it arrives.
    pub body_timeout: Period,
    /// How long a connection may idle between two requests.
    pub keep_alive: Period,
    /// Commands that wait for the writer.
    pub queue: NonZeroUsize,
    /// Items of a page of a list.
    pub page: NonZeroUsize,
    /// Open watches.
    pub watch_streams: NonZeroUsize,
    /// Open watches of one principal.
    pub watch_streams_per_principal: NonZeroUsize,
    /// Resources of one reservation.
    pub reservation_resources: NonZeroUsize,
    /// Bytes of the names of these resources, of classes, and of the values of labels.
    pub reservation_name_bytes: Size,
    /// Different resources that the objects and reservations of one namespace can name.
    pub resources_per_namespace: NonZeroUsize,
    /// Reservations of one namespace that are committed, and not observed.
    pub committed_per_namespace: NonZeroUsize,
    /// Reservations of one principal that are committed, and not observed.
    pub committed_per_principal: NonZeroUsize,
    /// Bytes of reservations that ended and are remembered for repeated requests.
    pub ended_reservations_bytes: Size,
    /// Limits of one quota.
    pub limits_per_quota: NonZeroUsize,
    /// Quotas of one namespace.
    pub quotas_per_namespace: NonZeroUsize,
    /// Bytes of deleted quotas, which are kept for watches.
    pub quota_changes_bytes: Size,
    /// Queries of past states that are processed or wait for their turn.
    pub past_questions: NonZeroUsize,
    /// Entries that one query of a past state may replay.
    pub replay_entries: NonZeroU64,
    /// Series of quotas in the metrics.
    pub metrics_series: NonZeroUsize,
}

/// `tls.*`: certificates of the webhook's listener, and of the API's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// Certificate chain (PEM).
    #[serde(with = "blank")]
    pub cert: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(with = "blank")]
    pub key: Option<PathBuf>,
    /// CA certificates (PEM) that clients must be signed by; none: clients need no certificate.
    #[serde(with = "blank")]
    pub client_ca: Option<PathBuf>,
    /// Names, one of which a client's certificate must bear as a DNS SAN; what has a colon, as a URI SAN.
    pub allowed_names: Vec<String>,
    /// Serve the HTTP API by TLS as well.
    pub api: bool,
}

/// `auth.*`: who may call the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Auth {
    /// File with the tokens' hashes, roles and namespaces; none: no token is needed.
    #[serde(with = "blank")]
    pub tokens_file: Option<PathBuf>,
    /// Serve other addresses than loopback without tokens.
    pub allow_anonymous_non_loopback: bool,
}

/// `shutdown.*`: how the daemon stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shutdown {
    /// How long requests are still accepted after a stop was requested, while `/readyz` answers 503.
    pub drain: Period,
    /// How long requests in progress may take before they are cut off.
    pub grace: Period,
}

/// `nats.*`: the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Nats {
    /// Servers, separated by commas; none: events come by HTTP only.
    #[serde(with = "blank")]
    pub url: Option<String>,
    /// The JetStream stream to consume.
    pub stream: String,
    /// The subjects to consume from it.
    pub subject: String,
    /// Create the stream if it is missing.
    pub create_stream: bool,
    /// Credentials, certificates, and how often to try again.
    #[serde(flatten)]
    pub connection: Connection,
    /// Messages that one pull requests.
    pub fetch_messages: NonZeroUsize,
    /// Largest message that is decoded; a larger one is recorded as rejected.
    pub max_message_bytes: Size,
    /// How often an idle consumer checks how far the stream has got.
    pub poll_interval: Period,
    /// The cluster whose publisher receives relist requests; none: the clusters that the subjects of the stream's
    /// messages name.
    #[serde(with = "blank")]
    pub cluster: Option<String>,
    /// Prefix of the subject on which publishers receive relist requests.
    pub control_prefix: String,
    /// Shortest wait between two relist requests.
    pub relist_interval: Period,
    /// Source of the watermark: the time up to which all events have been seen.
    pub watermark: WatermarkSource,
    /// The kinds whose watermarks are required; none: the kinds for which the webhook is always called.
    pub watermark_resources: Vec<String>,
    /// A watermark that is older than this lags.
    pub max_watermark_age: Period,
}

/// Source of the watermark: the time up to which all events have been seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WatermarkSource {
    /// The stream alone: its content at a poll counts as everything that has happened by then.
    Poll,
    /// The publisher, by its bookmarks.
    Bridge,
}

impl Config {
    /// The kinds whose watermarks are required: the configured ones, or those for which the webhook is always called,
    /// and quotas and groups if they come from the stream.
    pub fn watermark_resources(&self) -> Vec<String> {
        if !self.nats.watermark_resources.is_empty() {
            return self.nats.watermark_resources.clone();
        }
        let measured = MEASURED.map(|(group, resource)| GroupResource::new(group, resource));
        let mut kinds: Vec<_> = measured.map(|kind| kind.name().to_string()).to_vec();
        if self.quotas.adopt {
            kinds.extend(["resourcequotas", manifest::RESOURCE].map(str::to_owned));
        }
        kinds.extend(self.admission.charge.iter().cloned());
        kinds.sort_unstable();
        kinds.dedup();
        kinds
    }
}

/// `quotas.*`: where quotas come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotas {
    /// Events of kind `ResourceQuota` set quotas.
    pub adopt: bool,
    /// The API servers run without their plugin `ResourceQuota`, so that adopted quotas are enforced here alone.
    pub plugin_is_off: bool,
}
