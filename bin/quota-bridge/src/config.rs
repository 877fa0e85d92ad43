//! The configuration of `quota-bridge`: [`schema`] defines the keys, the shipped `bridge.toml` documents them.

use std::{
    net::SocketAddr,
    num::{NonZeroU32, NonZeroUsize},
    path::PathBuf,
};

use quota_client::server::may_send_token;
use quota_semantics::{admission::Charging, object::GroupResource};
use quota_service::{
    config::{Finding, Log, Period, Schema, Size, blank},
    nats::Connection,
    rules,
};
use serde::{Deserialize, Serialize};
use tracing_subscriber::EnvFilter;

use crate::kinds::is_possible;

impl Schema for Config {
    const PROGRAM: &'static str = "quota-bridge";
    const VERSION: &'static str = env!("BUILD_VERSION");
    const ABOUT: &'static str =
        "Publishes the objects of a Kubernetes API to NATS, for the quota ledger";
    const EXIT_CODES: &'static str = "Exit codes: 0 stopped cleanly, 1 runtime failure (also: another publisher has \
         taken over), 2 usage, 3 configuration";
    const PREFIX: &'static str = "QUOTA_BRIDGE_";
    const DEFAULT_FILE: &'static str = "bridge.toml";
    const SHIPPED: &'static str = include_str!("../bridge.toml");

    fn validate(&self) -> Vec<Finding> {
        validate(self)
    }
}

// The keys of the configuration with their types. The shipped `bridge.toml` has their defaults and documents them.

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

// Checks beyond the types of values: ranges, and keys that require or exclude each other.

/// All errors in a configuration whose values are well-formed.
fn validate(config: &Config) -> Vec<Finding> {
    let mut findings = config.nats.connection.validate();
    api(config, &mut findings);
    nats(config, &mut findings);
    resources(config, &mut findings);
    lease(config, &mut findings);
    certificates(config, &mut findings);
    status(config, &mut findings);
    let room = config.queue.bytes.bytes();
    rules! { findings;
        "queue.bytes": (1 << 20..=1 << 30).contains(&room) => "is not between 1MiB and 1GiB";
        "log.level": EnvFilter::try_new(&config.log.level).is_ok() => "is no level or filter";
    }
    findings
}

fn api(config: &Config, findings: &mut Vec<Finding>) {
    rules! { findings;
        "kubeconfig": config.api.is_none() || config.kubeconfig.is_none() => "cannot be used together with api";
        "context": config.context.is_none() || config.kubeconfig.is_some() => "goes together with kubeconfig";
    }
}

fn nats(config: &Config, findings: &mut Vec<Finding>) {
    let is_token = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        !text.is_empty() && text.chars().all(fits)
    };
    rules! { findings;
        "cluster": is_token(&config.cluster) => "is a part of a subject: letters, digits, - and _";
        "nats.url": !config.nats.url.is_empty() => "names no server";
    }
    for (key, prefix) in [
        ("nats.subject_prefix", &config.nats.subject_prefix),
        ("nats.control_prefix", &config.nats.control_prefix),
    ] {
        rules! { findings; key: prefix.split('.').all(is_token) => "is no subject"; }
    }
}

fn resources(config: &Config, findings: &mut Vec<Finding>) {
    for (key, kinds) in [
        ("resources.include", &config.resources.include),
        ("resources.exclude", &config.resources.exclude),
    ] {
        let are_kinds = kinds.iter().all(|kind| is_kind(kind));
        rules! { findings; key: are_kinds => "is no list of kinds such as deployments.apps"; }
    }
    let charged = Charging::new(config.resources.charge.iter().map(String::as_str));
    if let Err(error) = charged {
        findings.push(("resources.charge", error.to_string()));
    }
    rules! { findings; "watch.timeout": config.watch.timeout.get().as_secs() >= 1 => "is shorter than 1s"; }
}

fn lease(config: &Config, findings: &mut Vec<Finding>) {
    let lease = &config.lease;
    rules! { findings;
        "lease.renew": lease.renew < lease.duration => "is not shorter than lease.duration";
        "lease.retry": lease.retry < lease.renew => "is not shorter than lease.renew";
        "lease.duration": lease.duration.get().as_secs() >= 1 => "is shorter than 1s";
    }
}

fn certificates(config: &Config, findings: &mut Vec<Finding>) {
    let certificates = &config.certificates;
    let is_kept = certificates.secret.is_some();
    let are_names = (certificates.names.iter())
        .all(|name| rustls::pki_types::ServerName::try_from(name.as_str()).is_ok());
    rules! { findings;
        "certificates.webhook": certificates.webhook.is_some() == is_kept => "goes together with certificates.secret";
        "certificates.names": are_names && certificates.names.is_empty() != is_kept =>
            "are DNS names, and go together with certificates.secret";
    }
}

fn status(config: &Config, findings: &mut Vec<Finding>) {
    let status = &config.status;
    let is_alone = status.token_file.is_none() && status.tls_ca.is_none();
    let shows_token =
        status.token_file.is_some() && status.quotad.as_deref().is_some_and(shows_token);
    rules! { findings;
        "status.quotad": status.quotad.is_some() || is_alone =>
            "goes together with status.token_file and status.tls_ca";
        "status.quotad": !shows_token => "would send the token in plain text to another machine: use https";
    }
}

/// Whether a token that is sent to this URL could be read on the way.
fn shows_token(url: &str) -> bool {
    let uri = url.parse::<http::Uri>();
    uri.is_ok_and(|uri| {
        let scheme = uri.scheme_str().unwrap_or_default();
        !may_send_token(scheme, uri.host().unwrap_or_default())
    })
}

fn is_kind(text: &str) -> bool {
    let kind = text.parse::<GroupResource>();
    kind.is_ok_and(|kind| is_possible(&kind))
}

#[cfg(test)]
mod tests {
    use quota_service::config::{Sources, entries, leaves_of_defaults, load};

    use super::*;

    #[test]
    fn the_shipped_file_holds_every_key_with_its_default_and_a_comment() {
        let described = entries::<Config>();
        let mut keys: Vec<_> = described.iter().map(|entry| entry.key.clone()).collect();
        keys.sort();
        let expected: Vec<_> = leaves_of_defaults::<Config>().into_keys().collect();
        assert_eq!(keys, expected);
        for entry in described {
            assert!(!entry.comment.is_empty(), "{} has no comment", entry.key);
        }
    }

    #[test]
    fn what_cannot_work_is_named() {
        let flags = [
            ("api", "http://127.0.0.1:8001"),
            ("kubeconfig", "kubeconfig.yaml"),
            ("cluster", "a.b"),
            ("resources.include", "Pods"),
            ("resources.charge", "pods"),
            ("lease.renew", "20s"),
            ("list.page", "0"),
            ("status.quotad", "http://10.0.0.1:8480"),
            ("status.token_file", "token"),
            ("nats.url", "nats://a"),
        ];
        let sources = Sources {
            file: Some("/dev/null".into()),
            environment: Vec::new(),
            flags: flags.map(|(key, text)| (key.into(), text.into())).into(),
        };
        let problems = load::<Config>(&sources).unwrap_err();
        let keys: Vec<_> = problems.0.iter().filter_map(|it| it.key.clone()).collect();
        let expected = [
            "list.page",
            "kubeconfig",
            "cluster",
            "resources.include",
            "resources.charge",
            "lease.renew",
            "status.quotad",
        ];
        assert_eq!(keys, expected);
    }
}
