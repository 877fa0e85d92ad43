//! The command line of `generate`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use quota_semantics::object::GroupResource;

/// What can be made for an installation.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Print a ValidatingWebhookConfiguration that has a kube-apiserver ask the daemon.
    Webhook(Webhook),
    /// Print a policy and a kubeconfig that have a kube-apiserver report failed creations to the daemon.
    Audit(Audit),
    /// Print what quota-bridge may do in the cluster: a service account and its roles.
    Bridge(Bridge),
    /// Make a CA, and certificates of it for the webhook and for the API server that calls it, for a first try.
    Certs(Certs),
    /// Print the alerts, as a file of rules for Prometheus.
    Alerts(Alerts),
    /// Print a dashboard that Grafana can import.
    Dashboard,
    /// Write a manual page for each command.
    Man {
        /// The directory of the pages; it is made if it is not there.
        directory: PathBuf,
    },
    /// Print a ServiceMonitor for the daemon and a PodMonitor for the bridge.
    Servicemonitor(ServiceMonitor),
}

/// The form of the alerts.
#[derive(Args, Debug)]
pub(crate) struct Alerts {
    /// As a PrometheusRule of the Prometheus operator.
    #[arg(long)]
    pub(crate) operator: bool,
    /// The namespace of the PrometheusRule.
    #[arg(long, value_name = "NAMESPACE", default_value = "monitoring")]
    pub(crate) monitoring_namespace: String,
    /// Labels of the PrometheusRule, by which the operator selects it: NAME=VALUE.
    #[arg(long = "label", value_name = "LABEL", value_parser = label, value_delimiter = ',')]
    pub(crate) labels: Vec<(String, String)>,
}

/// Where the daemon is scraped.
#[derive(Args, Debug)]
pub(crate) struct ServiceMonitor {
    /// The namespace that the daemon and the bridge run in.
    #[arg(long, value_name = "NAMESPACE", default_value = "quota-system")]
    pub(crate) target_namespace: String,
    /// The namespace of the monitors.
    #[arg(long, value_name = "NAMESPACE", default_value = "monitoring")]
    pub(crate) monitoring_namespace: String,
    /// Labels of the monitors, by which the operator selects them: NAME=VALUE.
    #[arg(long = "label", value_name = "LABEL", value_parser = label, value_delimiter = ',')]
    pub(crate) labels: Vec<(String, String)>,
}

fn label(text: &str) -> Result<(String, String), String> {
    let valid = |part: &str, more: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || more.contains(c);
        part.len() <= 253 && part.chars().all(allowed)
    };
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && valid(name, "-_./") && valid(value, "-_.") => {
            Ok((name.to_owned(), value.to_owned()))
        }
        _ => Err("a label is NAME=VALUE".to_owned()),
    }
}

/// How the API server finds the webhook, and what it asks.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("place").required(true))]
pub(crate) struct Webhook {
    /// Where admission.listen can be reached, as https://HOST:PORT.
    #[arg(long, value_name = "URL", group = "place")]
    pub(crate) url: Option<String>,
    /// The Service in front of it, as NAMESPACE/NAME or NAMESPACE/NAME:PORT. Its namespace is exempt.
    #[arg(long, value_name = "SERVICE", group = "place")]
    pub(crate) service: Option<String>,
    /// The CA of the webhook's certificate, as PEM; without it, the API server's own trust holds.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,
    /// Name of the configuration.
    #[arg(long, value_name = "NAME", default_value = "quota-ledger")]
    pub(crate) name: String,
    /// Namespaces that are not asked about, besides those of the cluster itself: where the daemon and its NATS run.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) exempt: Vec<String>,
    /// Other kinds whose number quotas limit (count/…), as configmaps or deployments.apps.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) count: Vec<GroupResource>,
    /// Workloads that are charged for their pods, as in admission.charge.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) charge: Vec<GroupResource>,
    /// What the API server does when the daemon does not answer.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) failure_policy: FailurePolicy,
    /// How long the API server waits for an answer.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub(crate) timeout_seconds: u8,
}

/// How the API server finds the daemon, and what it reports.
#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// Where admission.listen can be reached from the API server's host, which knows no names of Services, as
    /// https://HOST:PORT.
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// The name that the daemon's certificate bears, if it is not the host of the URL.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// The CA of the daemon's certificate, as PEM; without it, the API server's own trust holds.
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,
    /// Where the certificate that the API server shows is on its host.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,
    /// Where its key is on that host.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
    /// Other kinds whose number quotas limit (count/…), as configmaps or deployments.apps.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) count: Vec<GroupResource>,
    /// Workloads that are charged for their pods, as in admission.charge.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) charge: Vec<GroupResource>,
    /// Print one of the two.
    #[arg(long, value_enum)]
    pub(crate) only: Option<AuditPart>,
}

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditPart {
    /// Which requests are reported.
    Policy,
    /// Where they are sent to.
    Kubeconfig,
}

/// What an API server does when a webhook does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum FailurePolicy {
    /// Let the request through: limits may be passed while the daemon is down.
    #[default]
    Ignore,
    /// Refuse the request: nothing is created while the daemon is down.
    Fail,
}

/// Where quota-bridge runs, and what it watches.
#[derive(Args, Debug)]
pub(crate) struct Bridge {
    /// The namespace that it runs in, which its Lease is in as well.
    #[arg(
        long = "bridge-namespace",
        value_name = "NAMESPACE",
        default_value = "quota-system"
    )]
    pub(crate) namespace: String,
    /// Name of the service account and its roles.
    #[arg(long, value_name = "NAME", default_value = "quota-bridge")]
    pub(crate) name: String,
    /// The only namespaces that it watches, as in its key namespaces: Roles in them instead of rights on all of them.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) namespaces: Vec<String>,
    /// Other kinds whose number quotas limit (count/…), as configmaps or deployments.apps.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) count: Vec<GroupResource>,
    /// Workloads that are charged for their pods, as in admission.charge.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) charge: Vec<GroupResource>,
    /// The ValidatingWebhookConfiguration whose rules it keeps, as in its key webhook.rules.
    #[arg(long, value_name = "NAME")]
    pub(crate) webhook: Option<String>,

    /// It writes the status of ClusterResourceQuotas, as with its key status.quotad.
    #[arg(long, conflicts_with = "namespaces")]
    pub(crate) status: bool,
}

/// Certificates to be made.
#[derive(Args, Debug)]
pub(crate) struct Certs {
    /// The directory to make them in.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) dir: PathBuf,
    /// Names and addresses that the webhook is called by, as quotad.quota-system.svc.
    #[arg(long, value_name = "HOST", required = true, value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// The name in the certificate that the API server shows.
    #[arg(long, value_name = "NAME", default_value = "kube-apiserver")]
    pub(crate) client_name: String,
    /// How long they are good for.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub(crate) days: u16,
    /// Replace what is there.
    #[arg(long)]
    pub(crate) force: bool,
}
