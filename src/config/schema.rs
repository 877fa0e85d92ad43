//! Every key of the configuration with its type and default. What each is for stands in the shipped
//! `config.toml`, which a test holds equal to these defaults.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    num::{NonZeroU32, NonZeroU64, NonZeroUsize},
    path::PathBuf,
};

use serde::{Deserialize, Serialize};

use super::{Period, Size, text::blank};

/// The whole configuration. [`Config::default`] is what runs without a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Address of the HTTP API.
    pub listen: SocketAddr,
    /// Directory of the ledger.
    pub data_dir: PathBuf,
    /// Plural (resource) names of kinds that the built-in rules would get wrong: `Kind.group` to plural.
    pub kinds: BTreeMap<String, String>,
    /// Health and metrics.
    pub admin: Admin,
    /// The event stream.
    pub nats: Nats,
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
    /// Room on the disk.
    pub disk: Disk,
    /// Bounds of what callers can ask for.
    pub limits: Limits,
    /// Signed statements of how far the ledger has come.
    pub checkpoint: Checkpoint,
    /// What is kept of denials.
    pub denials: Denials,
    /// Logging.
    pub log: Log,
    /// The admission webhook.
    pub admission: Admission,
    /// Certificates of the webhook's listener, and of the API's.
    pub tls: Tls,
    /// Who may call the HTTP API.
    pub auth: Auth,
    /// How the daemon stops.
    pub shutdown: Shutdown,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8480)),
            data_dir: PathBuf::from("data"),
            kinds: BTreeMap::new(),
            admin: Admin::default(),
            nats: Nats::default(),
            quotas: Quotas::default(),
            reservations: Reservations::default(),
            snapshot: Snapshot::default(),
            retention: Retention::default(),
            journal: Journal::default(),
            disk: Disk::default(),
            limits: Limits::default(),
            checkpoint: Checkpoint::default(),
            denials: Denials::default(),
            log: Log::default(),
            admission: Admission::default(),
            tls: Tls::default(),
            auth: Auth::default(),
            shutdown: Shutdown::default(),
        }
    }
}

/// `admin.*`: health and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// Address of the health and metrics endpoints; plain HTTP.
    pub listen: SocketAddr,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8481)),
        }
    }
}

/// `nats.*`: the event stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// User name, together with `password_file`.
    #[serde(with = "blank")]
    pub user: Option<String>,
    /// File that holds the user's password.
    #[serde(with = "blank")]
    pub password_file: Option<PathBuf>,
    /// File that holds a token.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// File that holds an nkey seed.
    #[serde(with = "blank")]
    pub nkey_seed_file: Option<PathBuf>,
    /// A `.creds` file: JWT and nkey seed.
    #[serde(with = "blank")]
    pub credentials_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust instead of the system's.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// Client certificate (PEM).
    #[serde(with = "blank")]
    pub tls_cert: Option<PathBuf>,
    /// The client certificate's key (PEM).
    #[serde(with = "blank")]
    pub tls_key: Option<PathBuf>,
    /// Messages asked for at once.
    pub fetch_messages: NonZeroUsize,
    /// Largest message that is decoded; a larger one is recorded as rejected.
    pub max_message_bytes: Size,
    /// How long one attempt to connect may take.
    pub connect_timeout: Period,
    /// Longest wait between two attempts to connect.
    pub max_backoff: Period,
    /// How often an idle consumer asks how far the stream has got.
    pub poll_interval: Period,
}

impl Default for Nats {
    fn default() -> Self {
        Self {
            url: None,
            stream: "OBJECTS".to_owned(),
            subject: "quota.objects.>".to_owned(),
            create_stream: true,
            user: None,
            password_file: None,
            token_file: None,
            nkey_seed_file: None,
            credentials_file: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            fetch_messages: NonZeroUsize::new(2048).expect("2048 is not zero"),
            max_message_bytes: Size::from_mib(8),
            connect_timeout: Period::from_secs(5),
            max_backoff: Period::from_secs(10),
            poll_interval: Period::from_secs(1),
        }
    }
}

/// `quotas.*`: where quotas come from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Quotas {
    /// Events of kind `ResourceQuota` set quotas.
    pub adopt: bool,
}

impl Default for Quotas {
    fn default() -> Self {
        Self { adopt: true }
    }
}

/// `reservations.*`: how long and how many may stand.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Reservations {
    /// Time to live when none is asked for.
    pub default_ttl: Period,
    /// Longest time to live that can be asked for.
    pub max_ttl: Period,
    /// Longest that an expired reservation is held while the sources lag.
    pub max_hold: Period,
    /// Pending reservations in all.
    pub max_pending: NonZeroUsize,
    /// Pending reservations of one namespace.
    pub max_pending_per_namespace: NonZeroUsize,
}

impl Default for Reservations {
    fn default() -> Self {
        Self {
            default_ttl: Period::from_secs(30),
            max_ttl: Period::from_secs(600),
            max_hold: Period::from_secs(3600),
            max_pending: NonZeroUsize::new(100_000).expect("100,000 is not zero"),
            max_pending_per_namespace: NonZeroUsize::new(20_000).expect("20,000 is not zero"),
        }
    }
}

/// `snapshot.*`: when the state is stored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Snapshot {
    /// After so many entries.
    pub every_entries: NonZeroU64,
    /// After so much time, if there are new entries.
    pub every: Period,
    /// Snapshots that are kept.
    pub keep: NonZeroU32,
}

impl Default for Snapshot {
    fn default() -> Self {
        Self {
            every_entries: NonZeroU64::new(1_000_000).expect("1,000,000 is not zero"),
            every: Period::from_secs(600),
            keep: NonZeroU32::new(3).expect("3 is not zero"),
        }
    }
}

/// `retention.*`: what compaction keeps.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
#[serde(default, deny_unknown_fields)]
pub struct Journal {
    /// Size of one file of the commit log.
    pub segment_bytes: Size,
    /// Size at which an epoch of the ledger is sealed.
    pub epoch_bytes: Size,
    /// Entries that are made durable together at most.
    pub max_batch_entries: NonZeroUsize,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            segment_bytes: Size::from_mib(16),
            epoch_bytes: Size::from_mib(64),
            max_batch_entries: NonZeroUsize::new(4096).expect("4096 is not zero"),
        }
    }
}

/// `disk.*`: room on the disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Disk {
    /// Below so much free space nothing is granted.
    pub min_free: Size,
}

impl Default for Disk {
    fn default() -> Self {
        Self {
            min_free: Size::from_mib(64),
        }
    }
}

/// `limits.*`: bounds of what callers can ask for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// How long a request may take to be answered.
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
    /// Questions about the past that wait for their turn.
    pub past_questions: NonZeroUsize,
    /// Entries that one question about the past may replay.
    pub replay_entries: NonZeroU64,
    /// Series of one metric that has a label per quota.
    pub metrics_series: NonZeroUsize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            request_body_bytes: Size::from_mib(1),
            events_body_bytes: Size::from_mib(32),
            bodies_bytes: Size::from_mib(256),
            connections: NonZeroUsize::new(10_000).expect("10,000 is not zero"),
            header_timeout: Period::from_secs(5),
            request_timeout: Period::from_secs(10),
            body_timeout: Period::from_secs(5),
            keep_alive: Period::from_secs(60),
            queue: NonZeroUsize::new(4096).expect("4096 is not zero"),
            page: NonZeroUsize::new(500).expect("500 is not zero"),
            watch_streams: NonZeroUsize::new(256).expect("256 is not zero"),
            past_questions: NonZeroUsize::new(64).expect("64 is not zero"),
            replay_entries: NonZeroU64::new(20_000_000).expect("20,000,000 is not zero"),
            metrics_series: NonZeroUsize::new(2000).expect("2000 is not zero"),
        }
    }
}

/// `checkpoint.*`: signed statements of how far the ledger has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
}

impl Default for Checkpoint {
    fn default() -> Self {
        Self {
            key_file: None,
            file: None,
            every_entries: NonZeroU64::new(1000).expect("1,000 is not zero"),
            every: Period::from_secs(60),
            nats_subject: None,
        }
    }
}

/// `denials.*`: what is kept of denials.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Denials {
    /// Denials that are kept at most.
    pub max_records: NonZeroUsize,
    /// How long a denial is kept at most.
    pub max_age: Period,
}

impl Default for Denials {
    fn default() -> Self {
        Self {
            max_records: NonZeroUsize::new(10_000).expect("10,000 is not zero"),
            max_age: Period::from_secs(7 * 24 * 3600),
        }
    }
}

/// `log.*`: logging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Log {
    /// A level, or a filter such as `info,quotad::intake=debug`; `RUST_LOG` goes before it.
    pub level: String,
    /// How a line looks.
    pub format: LogFormat,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            level: "info".to_owned(),
            format: LogFormat::Auto,
        }
    }
}

/// How a log line looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// Pretty on a terminal, JSON elsewhere.
    Auto,
    /// One JSON object per line.
    Json,
    /// For people.
    Pretty,
}

/// `admission.*`: the admission webhook.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admission {
    /// Address of its TLS listener; none: reviews come by the HTTP API only.
    #[serde(with = "blank")]
    pub listen: Option<SocketAddr>,
    /// Share of a limit (0 to 1) from which an admitted request is warned about.
    pub warn_ratio: f64,
    /// Admit while the sources lag so far that usage is not known.
    pub allow_when_behind: bool,
    /// File with limited resources, as Kubernetes' `AdmissionConfiguration` holds them.
    #[serde(with = "blank")]
    pub limited_resources_file: Option<PathBuf>,
    /// Workloads that are charged for their pods, as `deployments.apps`.
    pub charge: Vec<String>,
}

impl Default for Admission {
    fn default() -> Self {
        Self {
            listen: None,
            warn_ratio: 0.9,
            allow_when_behind: false,
            limited_resources_file: None,
            charge: Vec::new(),
        }
    }
}

/// `tls.*`: certificates of the webhook's listener, and of the API's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
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
    /// Names (DNS, URI, e-mail or IP SAN, or the common name), one of which a client's certificate must bear.
    pub allowed_names: Vec<String>,
    /// Serve the HTTP API by TLS as well.
    pub api: bool,
}

/// `auth.*`: who may call the HTTP API.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Auth {
    /// File with the tokens' hashes, roles and namespaces; none: nobody needs a token.
    #[serde(with = "blank")]
    pub tokens_file: Option<PathBuf>,
    /// Serve other addresses than loopback without tokens.
    pub allow_anonymous_non_loopback: bool,
}

/// `shutdown.*`: how the daemon stops.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Shutdown {
    /// How long requests that are being answered may take before they are cut off.
    pub grace: Period,
}

impl Default for Shutdown {
    fn default() -> Self {
        Self {
            grace: Period::from_secs(10),
        }
    }
}
