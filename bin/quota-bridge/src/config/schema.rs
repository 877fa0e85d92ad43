//! Every key of the configuration with its type and default. The shipped `bridge.toml`, which a test holds equal to these
//! defaults, says what each is for.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
};

use quota_service::{
    config::{Log, Period, Size, blank},
    nats::Connection,
};
use serde::{Deserialize, Serialize};

/// The whole configuration. [`Config::default`] is what runs without a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// URL of an API server that needs no credentials.
    #[serde(with = "blank")]
    pub api: Option<String>,
    /// A kubeconfig.
    #[serde(with = "blank")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[serde(with = "blank")]
    pub context: Option<String>,
    /// The cluster's name, the last part of the subject.
    pub cluster: String,
    /// Publish also if the subject holds the objects of another cluster.
    pub adopt_cluster: bool,
    /// The only namespaces that are looked at.
    pub namespaces: Vec<String>,
    /// Where the objects are published.
    pub nats: Nats,
    /// Which kinds are watched.
    pub resources: Resources,
    /// How lists are read.
    pub list: List,
    /// How watches are read.
    pub watch: Watch,
    /// The watermarks of kinds.
    pub watermark: Watermark,
    /// Room between readers and publisher.
    pub queue: Queue,
    /// Which of several bridges publishes.
    pub lease: Lease,
    /// The webhook's certificate.
    pub certificates: Certificates,
    /// The webhook's rules.
    pub webhook: Webhook,
    /// The status of ClusterResourceQuotas.
    pub status: Status,
    /// Health and metrics.
    pub admin: Admin,
    /// Logging.
    pub log: Log,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            api: None,
            kubeconfig: None,
            context: None,
            cluster: "default".to_owned(),
            adopt_cluster: false,
            namespaces: Vec::new(),
            nats: Nats::default(),
            resources: Resources::default(),
            list: List::default(),
            watch: Watch::default(),
            watermark: Watermark::default(),
            queue: Queue::default(),
            lease: Lease::default(),
            certificates: Certificates::default(),
            webhook: Webhook::default(),
            status: Status::default(),
            admin: Admin::default(),
            log: Log::default(),
        }
    }
}

/// `nats.*`: where the objects are published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Nats {
    /// Servers, separated by commas.
    pub url: String,
    /// The JetStream stream.
    pub stream: String,
    /// What the subject begins with, before the cluster's name.
    pub subject_prefix: String,
    /// What the subject of requests begins with, before the cluster's name.
    pub control_prefix: String,
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
    /// How long one attempt to connect may take.
    pub connect_timeout: Period,
    /// Longest wait between two attempts to connect.
    pub max_backoff: Period,
}

impl Default for Nats {
    fn default() -> Self {
        Self {
            url: "nats://127.0.0.1:4222".to_owned(),
            stream: "OBJECTS".to_owned(),
            subject_prefix: "quota.objects".to_owned(),
            control_prefix: "quota.control".to_owned(),
            user: None,
            password_file: None,
            token_file: None,
            nkey_seed_file: None,
            credentials_file: None,
            tls_ca: None,
            tls_cert: None,
            tls_key: None,
            connect_timeout: Period::from_secs(5),
            max_backoff: Period::from_secs(2),
        }
    }
}

impl Nats {
    /// How to connect.
    #[must_use]
    pub fn connection(&self) -> Connection<'_> {
        Connection {
            url: &self.url,
            user: self.user.as_deref(),
            password_file: self.password_file.as_deref(),
            token_file: self.token_file.as_deref(),
            nkey_seed_file: self.nkey_seed_file.as_deref(),
            credentials_file: self.credentials_file.as_deref(),
            tls_ca: self.tls_ca.as_deref(),
            tls_cert: self.tls_cert.as_deref(),
            tls_key: self.tls_key.as_deref(),
            connect_timeout: self.connect_timeout.get(),
            max_backoff: self.max_backoff.get(),
        }
    }
}

/// `resources.*`: which kinds are watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Resources {
    /// Watched although no quota in the cluster limits them.
    pub include: Vec<String>,
    /// Never watched.
    pub exclude: Vec<String>,
    /// Workloads that the ledger charges for their pods.
    pub charge: Vec<String>,
    /// Labels of objects that groups of the ledger choose by: its `groups.object_labels`.
    pub object_labels: Vec<String>,
}

/// `list.*`: how lists are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct List {
    /// In pages, or at the begin of a watch.
    pub mode: ListMode,
    /// Objects of one page.
    pub page: NonZeroU32,
    /// Kinds that are listed at the same time.
    pub concurrency: NonZeroUsize,
    /// How often each kind is listed although nothing asks for it.
    pub every: Period,
    /// How long a list at the begin of a watch may be silent before its end.
    pub idle: Period,
}

impl Default for List {
    fn default() -> Self {
        Self {
            mode: ListMode::Auto,
            page: NonZeroU32::new(500).expect("500 is not zero"),
            concurrency: NonZeroUsize::new(4).expect("4 is not zero"),
            every: Period::from_secs(6 * 3600),
            idle: Period::from_secs(30),
        }
    }
}

/// How a kind is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ListMode {
    /// As `watch` from Kubernetes 1.34 on, else as `pages`.
    Auto,
    /// In pages.
    Pages,
    /// At the begin of a watch.
    Watch,
}

/// `watch.*`: how watches are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watch {
    /// The timeout that a watch is opened with.
    pub timeout: Period,
    /// How long it may be silent.
    pub idle: Period,
    /// How often kinds are looked for.
    pub discovery: Period,
}

impl Default for Watch {
    fn default() -> Self {
        Self {
            timeout: Period::from_secs(290),
            idle: Period::from_secs(100),
            discovery: Period::from_secs(30),
        }
    }
}

/// `watermark.*`: the watermarks of kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Watermark {
    /// How often it is found out.
    pub every: Period,
}

impl Default for Watermark {
    fn default() -> Self {
        Self {
            every: Period::from_secs(5),
        }
    }
}

/// `queue.*`: room between readers and publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Queue {
    /// Lines.
    pub lines: NonZeroUsize,
    /// Their bytes.
    pub bytes: Size,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            lines: NonZeroUsize::new(4096).expect("4096 is not zero"),
            bytes: Size::from_mib(16),
        }
    }
}

/// `lease.*`: which of several bridges publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Lease {
    /// The Lease's name.
    pub name: String,
    /// Its namespace; none: that of the pod. Outside of a pod there is no Lease then.
    #[serde(with = "blank")]
    pub namespace: Option<String>,
    /// How long others wait after the last renewal that they saw.
    pub duration: Period,
    /// How long the holder tries to renew before it releases it.
    pub renew: Period,
    /// How often it is renewed, or tried for.
    pub retry: Period,
}

impl Default for Lease {
    fn default() -> Self {
        Self {
            name: "quota-bridge".to_owned(),
            namespace: None,
            duration: Period::from_secs(15),
            renew: Period::from_secs(10),
            retry: Period::from_secs(2),
        }
    }
}

/// `certificates.*`: the webhook's certificate, kept by the bridge that leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Certificates {
    /// The Secret that quotad serves from, in the Lease's namespace.
    #[serde(with = "blank")]
    pub secret: Option<String>,
    /// The ValidatingWebhookConfiguration whose `caBundle` is kept.
    #[serde(with = "blank")]
    pub webhook: Option<String>,
    /// The names that the API server calls quotad by.
    pub names: Vec<String>,
    /// How often it is looked whether everything is as it should be.
    pub every: Period,
}

impl Default for Certificates {
    fn default() -> Self {
        Self {
            secret: None,
            webhook: None,
            names: Vec::new(),
            every: Period::from_secs(60),
        }
    }
}

/// `webhook.*`: what the API server asks quotad about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Webhook {
    /// The ValidatingWebhookConfiguration whose rules are kept equal to what quotas limit.
    #[serde(with = "blank")]
    pub rules: Option<String>,
}

/// `status.*`: the status of ClusterResourceQuotas, kept by the bridge that leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Status {
    /// URL of quotad's HTTP API; none: nothing is written.
    #[serde(with = "blank")]
    pub quotad: Option<String>,
    /// File that holds a token for it.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust instead of the system's.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// How often it is asked for changes.
    pub every: Period,
    /// How often every status is compared with the cluster's, changed or not.
    pub compare_every: Period,
    /// Most groups that are looked at or written in the cluster, per second.
    pub max_per_second: NonZeroU32,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            quotad: None,
            token_file: None,
            tls_ca: None,
            every: Period::from_secs(5),
            compare_every: Period::from_secs(1800),
            max_per_second: NonZeroU32::new(20).expect("20 is not zero"),
        }
    }
}

/// `admin.*`: health and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Admin {
    /// The address.
    pub listen: SocketAddr,
}

impl Default for Admin {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8482)),
        }
    }
}
