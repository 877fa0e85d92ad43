//! Every key of the configuration with its type. Its default, and what it is for, stand in the shipped `bridge.toml`.

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

/// The whole configuration. [`Config::default`] is the shipped file: what runs without one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
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
        quota_service::config::shipped()
    }
}

/// `nats.*`: where the objects are published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nats {
    /// Servers, separated by commas.
    pub url: String,
    /// The JetStream stream.
    pub stream: String,
    /// What the subject begins with, before the cluster's name.
    pub subject_prefix: String,
    /// What the subject of requests begins with, before the cluster's name.
    pub control_prefix: String,
    /// Credentials, certificates, and how often to try again.
    #[serde(flatten)]
    pub connection: Connection,
}

/// `resources.*`: which kinds are watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resources {
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
#[serde(deny_unknown_fields)]
pub(crate) struct List {
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

/// How a kind is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListMode {
    /// As `watch` from Kubernetes 1.34 on, else as `pages`.
    Auto,
    /// In pages.
    Pages,
    /// At the begin of a watch.
    Watch,
}

/// `watch.*`: how watches are read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    /// The timeout that a watch is opened with.
    pub timeout: Period,
    /// How long it may be silent.
    pub idle: Period,
    /// How often kinds are looked for.
    pub discovery: Period,
}

/// `watermark.*`: the watermarks of kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watermark {
    /// How often it is found out.
    pub every: Period,
}

/// `queue.*`: room between readers and publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queue {
    /// Lines.
    pub lines: NonZeroUsize,
    /// Their bytes.
    pub bytes: Size,
}

/// `lease.*`: which of several bridges publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lease {
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

/// `certificates.*`: the webhook's certificate, kept by the bridge that leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificates {
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

/// `webhook.*`: what the API server asks quotad about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// The ValidatingWebhookConfiguration whose rules are kept equal to what quotas limit.
    #[serde(with = "blank")]
    pub rules: Option<String>,
}

/// `status.*`: the status of ClusterResourceQuotas, kept by the bridge that leads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    /// URL of quotad's HTTP API; none: nothing is written.
    #[serde(with = "blank")]
    pub quotad: Option<String>,
    /// File that holds a token for it.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// CA certificates (PEM) to trust instead of the system's.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// How often changes are requested from quotad.
    pub every: Period,
    /// How often every status is compared with the cluster's, changed or not.
    pub compare_every: Period,
    /// Most groups that are looked at or written in the cluster, per second.
    pub max_per_second: NonZeroU32,
}

/// `admin.*`: health and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admin {
    /// The address.
    pub listen: SocketAddr,
}
