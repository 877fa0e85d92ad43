//! The keys of the configuration with their types. The shipped `bridge.toml` has their defaults and documents them.

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

/// The whole configuration. [`Config::default`] is the shipped file, which applies without a configuration file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    /// The URL of an API server that needs no credentials; none: see `kubeconfig`.
    #[serde(with = "blank")]
    pub api: Option<String>,
    /// The kubeconfig file; none, and no `api`: the service account of the pod.
    #[serde(with = "blank")]
    pub kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig; none: its current context.
    #[serde(with = "blank")]
    pub context: Option<String>,
    /// The cluster's name, the last part of the subject.
    pub cluster: String,
    /// Whether to publish also if the subject holds the objects of another cluster.
    pub adopt_cluster: bool,
    /// The watched namespaces; empty: all.
    pub namespaces: Vec<String>,
    /// The stream to which the objects are published.
    pub nats: Nats,
    /// The watched kinds.
    pub resources: Resources,
    /// Lists.
    pub list: List,
    /// Watches.
    pub watch: Watch,
    /// The watermarks of kinds.
    pub watermark: Watermark,
    /// The queue between readers and publisher.
    pub queue: Queue,
    /// The Lease, which selects the bridge that publishes.
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

/// `nats.*`: the stream to which the objects are published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Nats {
    /// The URLs of the servers, separated by commas.
    pub url: String,
    /// The name of the JetStream stream.
    pub stream: String,
    /// The prefix of the subject of objects, before the cluster's name.
    pub subject_prefix: String,
    /// The prefix of the subjects of quotad's requests, before the cluster's name.
    pub control_prefix: String,
    /// Credentials, certificates and timeouts of the connection.
    #[serde(flatten)]
    pub connection: Connection,
}

/// `resources.*`: the watched kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Resources {
    /// Kinds that are watched although no quota in the cluster limits them.
    pub include: Vec<String>,
    /// Kinds that are never watched.
    pub exclude: Vec<String>,
    /// Workloads that the ledger charges for their pods.
    pub charge: Vec<String>,
    /// Labels of objects by which groups select: the ledger's `groups.object_labels`.
    pub object_labels: Vec<String>,
}

/// `list.*`: lists.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct List {
    /// The way in which kinds are listed.
    pub mode: ListMode,
    /// The maximum number of objects of one page.
    pub page: NonZeroU32,
    /// The maximum number of kinds that are listed at the same time.
    pub concurrency: NonZeroUsize,
    /// The interval of periodic lists of each kind.
    pub every: Period,
    /// The idle timeout of a list that is sent at the begin of a watch.
    pub idle: Period,
}

/// The way in which kinds are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ListMode {
    /// `watch` from Kubernetes 1.34 on, otherwise `pages`.
    Auto,
    /// As pages.
    Pages,
    /// As the initial events of a watch.
    Watch,
}

/// `watch.*`: watches, and discovery.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watch {
    /// The timeout with which a watch is opened.
    pub timeout: Period,
    /// The idle timeout of a watch.
    pub idle: Period,
    /// The interval of discovery.
    pub discovery: Period,
}

/// `watermark.*`: the watermarks of kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Watermark {
    /// The interval at which watermarks are determined.
    pub every: Period,
}

/// `queue.*`: the queue between readers and publisher.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queue {
    /// The maximum number of queued lines.
    pub lines: NonZeroUsize,
    /// The maximum size of the queued lines.
    pub bytes: Size,
}

/// `lease.*`: the Lease, which selects the bridge that publishes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Lease {
    /// The name of the Lease.
    pub name: String,
    /// The namespace of the Lease; none: that of the pod, or no Lease outside of a pod.
    #[serde(with = "blank")]
    pub namespace: Option<String>,
    /// The lease duration: others wait for this long after the last renewal that they observed.
    pub duration: Period,
    /// The renew deadline: the holder gives up the Lease if it cannot renew for this long.
    pub renew: Period,
    /// The retry period: the interval of renewals and of attempts to acquire.
    pub retry: Period,
}

/// `certificates.*`: the webhook's certificate, maintained by the leading bridge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Certificates {
    /// The Secret with the certificate that quotad serves, in the Lease's namespace; none: no certificate is
    /// maintained.
    #[serde(with = "blank")]
    pub secret: Option<String>,
    /// The ValidatingWebhookConfiguration whose `caBundle` is maintained.
    #[serde(with = "blank")]
    pub webhook: Option<String>,
    /// The names by which the API server reaches quotad.
    pub names: Vec<String>,
    /// The interval of checks.
    pub every: Period,
}

/// `webhook.*`: the rules of the webhook.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Webhook {
    /// The ValidatingWebhookConfiguration whose rules list the kinds that quotas limit; none: no rules are maintained.
    #[serde(with = "blank")]
    pub rules: Option<String>,
}

/// `status.*`: the status of ClusterResourceQuotas, maintained by the leading bridge.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    /// The URL of quotad's HTTP API; none: no status is written.
    #[serde(with = "blank")]
    pub quotad: Option<String>,
    /// The file with a token for that API.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// The file with the CA certificates (PEM) for that API; none: those of the system.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// The interval at which the groups are read from quotad.
    pub every: Period,
    /// The interval at which every status is compared with that in the cluster, changed or not.
    pub compare_every: Period,
    /// The maximum number of groups that are read or written in the cluster, per second.
    pub max_per_second: NonZeroU32,
}

/// `admin.*`: health and metrics.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Admin {
    /// The address of the listener.
    pub listen: SocketAddr,
}
