//! The command line of `ledger` and of `generate`.

use std::path::PathBuf;

use clap::{
    ArgGroup, Args, Subcommand, ValueEnum,
    builder::{PossibleValuesParser, TypedValueParser},
    value_parser,
};
use quota_client::tokens::Role;
use quota_ledger::replay::Until;
use quota_semantics::{Period, object::GroupResource};

use super::ReportArgs;

/// Commands for a ledger on disk, without a daemon.
#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Check everything: checksums, hash chain, offsets, snapshots. Ends with 4 if something is damaged.
    Verify {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        signed: Signed,
        #[command(flatten)]
        jobs: Jobs,
    },
    /// Check a backup, and create a data directory from it.
    Restore {
        /// The backup's directory.
        backup: PathBuf,
        /// The data directory to create; it must not exist, or be empty.
        #[arg(long, value_name = "DIRECTORY")]
        data_dir: PathBuf,
        #[command(flatten)]
        signed: Signed,
        #[command(flatten)]
        jobs: Jobs,
    },
    /// Rebuild damaged epochs from an archive, a backup or a copy; damaged files are set aside.
    Repair {
        /// The data directory, which no daemon may have open.
        #[arg(long, value_name = "DIRECTORY", env = "QUOTAD_DATA_DIR", default_value = "data")]
        data_dir: PathBuf,
        /// An archive directory, a backup, or another copy of the data directory; without it, only what damaged epochs
        /// still hold themselves.
        #[arg(long, value_name = "DIRECTORY")]
        from: Option<PathBuf>,
    },
    /// Create the key pair that signs and verifies checkpoints.
    Keygen {
        /// The file of the private key; the public one goes to FILE.pub. Neither may exist.
        file: PathBuf,
        /// The ledger's name in checkpoints, such as `ledger.example.com/production`.
        #[arg(long, value_name = "NAME")]
        origin: String,
    },
    /// Fold the entries from the beginning, and print the state.
    Replay {
        #[command(flatten)]
        place: LedgerPath,
        /// The last entry to fold, by sequence or by time.
        #[arg(long, value_name = "SEQUENCE|TIME", value_parser = until)]
        until: Option<Until>,
    },
    /// Report what was consumed in a period, from the entries alone; of all namespaces unless one is given.
    Report {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Show what other limits would have refused in the past.
    Simulate {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        limits: super::Simulate,
    },
    /// Suggest limits that fit what was taken in a period; `-o yaml` prints manifests.
    Suggest {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        wish: super::Suggest,
    },
    /// Print entries, one JSON object per line; of all namespaces unless one is given.
    Dump {
        #[command(flatten)]
        place: LedgerPath,
        /// The first entry, by sequence.
        #[arg(long, value_name = "SEQUENCE", default_value_t = 1)]
        from: u64,
        /// The last entry, by sequence.
        #[arg(long, value_name = "SEQUENCE", default_value_t = u64::MAX, hide_default_value = true)]
        to: u64,
    },
    /// Print statistics of the ledger.
    Stat {
        #[command(flatten)]
        place: LedgerPath,
    },
    /// Write the ledger as text that others can check: batches with their hashes, and their entries.
    Export {
        /// The file to write; `-` is standard output.
        file: PathBuf,
        #[command(flatten)]
        place: LedgerPath,
    },
    /// Create a data directory from an exported ledger, checking every hash.
    Import {
        /// The file to read; `-` is standard input.
        file: PathBuf,
        /// The data directory to create; it must not exist, or be empty.
        #[arg(long, value_name = "DIRECTORY")]
        data_dir: PathBuf,
    },
}

/// Earlier statements about the ledger.
#[derive(Args, Debug)]
pub(crate) struct Signed {
    /// Signed checkpoints that the ledger has to extend.
    #[arg(long, value_name = "FILE", requires = "public_key")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// The public key of their signatures.
    #[arg(long, value_name = "FILE", requires = "checkpoint")]
    pub(crate) public_key: Option<PathBuf>,
}

/// Parallelism.
#[derive(Args, Debug)]
pub(crate) struct Jobs {
    /// Threads that check bytes [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

impl Jobs {
    /// The number of threads.
    pub(crate) fn get(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }
}

/// The place of a ledger.
#[derive(Args, Debug)]
pub(crate) struct LedgerPath {
    /// A data directory, or an archive directory alone.
    #[arg(long, value_name = "DIRECTORY", env = "QUOTAD_DATA_DIR", default_value = "data")]
    pub(crate) data_dir: PathBuf,
    /// The archive of a data directory, with its compacted entries.
    #[arg(long, value_name = "DIRECTORY", env = "QUOTAD_RETENTION__ARCHIVE_DIR")]
    pub(crate) archive: Option<PathBuf>,
}

fn until(text: &str) -> Result<Until, String> {
    if let Ok(sequence) = text.parse() {
        return Ok(Until::Sequence(sequence));
    }
    let wrong = |_| "neither a sequence number nor an RFC 3339 time".to_owned();
    text.parse().map(Until::Time).map_err(wrong)
}

/// Commands for checkpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// Check that checkpoints are signed and agree with each other, and with a ledger. Ends with 4 if they do not.
    Verify {
        /// Files of checkpoints, each in the order in which they were signed, and directories of such files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The public key of their signatures.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
        /// A data directory, or an archive, that has to extend all checkpoints.
        #[arg(long, value_name = "DIRECTORY")]
        ledger: Option<PathBuf>,
        /// The archive of the data directory, with its compacted entries.
        #[arg(long, value_name = "DIRECTORY", requires = "ledger")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        jobs: Jobs,
    },
}

/// Commands for contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the contexts.
    GetContexts,
    /// Use another context from now on.
    UseContext {
        /// The name of the context.
        name: String,
    },
    /// Create or change a context, with the values of --server, --namespace, --ca, --cert, --key and --token-file.
    SetContext(SetContext),
    /// Delete a context.
    DeleteContext {
        /// The name of the context.
        name: String,
    },
    /// Show the file of contexts.
    View {
        /// Show tokens, too.
        #[arg(long)]
        raw: bool,
    },
    /// Show the name of the current context.
    CurrentContext,
}

/// A context to create or change.
#[derive(Args, Debug)]
pub(crate) struct SetContext {
    /// The name of the context.
    pub(crate) name: String,
    /// Keep the token from standard input in the file. --token-file is better: it names a file that can be renewed.
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) token_stdin: bool,
}

/// Commands for tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token for the namespaces given by -n (patterns such as team-*, separated by commas) or -A, and print
    /// it.
    ///
    /// The token is printed once. The daemon needs its record, in the file auth.tokens_file.
    Create(CreateToken),
    /// List the tokens and certificates in a file.
    List {
        /// The file.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}

/// The token to create.
#[derive(Args, Debug)]
pub(crate) struct CreateToken {
    /// The owner's name, which entries record as the actor.
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// The roles of the token.
    #[arg(long, required = true, value_delimiter = ',', value_parser = roles())]
    pub(crate) role: Vec<Role>,
    /// The lifetime of the token [default: until its record is removed].
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Period>,
    /// The file to append the record to [default: print it to standard error].
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// A role.
fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::as_str)).try_map(|name| name.parse::<Role>())
}

// The command line of `generate`.

/// The address of the runbooks in the shipped rules.
pub(crate) const RUNBOOKS: &str = "https://quota-ledger.example/alerts.html";

/// Files for an installation.
#[derive(Debug, Subcommand)]
pub(crate) enum Generate {
    /// Print a ValidatingWebhookConfiguration with which a kube-apiserver calls the daemon.
    Webhook(Webhook),
    /// Print a policy and a kubeconfig that have a kube-apiserver report failed creations to the daemon.
    Audit(Audit),
    /// Print quota-bridge's RBAC: a service account and its roles.
    Bridge(Bridge),
    /// Print a kubeconfig with which kubectl calls the daemon, with the server, the credentials and the namespace of the
    /// context or of these options.
    Kubeconfig,
    /// Create a CA and its certificates for the webhook and the calling API server, for a first try.
    Certs(Certs),
    /// Print the alerts, as a file of rules for Prometheus.
    Alerts(Alerts),
    /// Print a dashboard that Grafana can import.
    Dashboard,
    /// Write a manual page for each command.
    Man {
        /// The directory of the pages; created if missing.
        directory: PathBuf,
    },
    /// Print a ServiceMonitor for the daemon and a PodMonitor for the bridge.
    Servicemonitor(ServiceMonitor),
}

/// The form of the alerts.
#[derive(Args, Debug)]
pub(crate) struct Alerts {
    /// Print a PrometheusRule of the Prometheus operator.
    #[arg(long)]
    pub(crate) operator: bool,
    /// The namespace of the PrometheusRule.
    #[arg(long, value_name = "NAMESPACE", default_value = "monitoring")]
    pub(crate) monitoring_namespace: String,
    /// Labels of the PrometheusRule, by which the operator selects it: NAME=VALUE.
    #[arg(long = "label", value_name = "LABEL", value_parser = label, value_delimiter = ',')]
    pub(crate) labels: Vec<(String, String)>,
    /// Where docs/alerts.md is served: each alert links to its part of it.
    #[arg(long, value_name = "URL", default_value = RUNBOOKS, value_parser = runbooks)]
    pub(crate) runbooks: String,
}

/// The targets of the monitors.
#[derive(Args, Debug)]
pub(crate) struct ServiceMonitor {
    /// The namespace of the daemon and the bridge.
    #[arg(long, value_name = "NAMESPACE", default_value = "quota-system")]
    pub(crate) target_namespace: String,
    /// The namespace of the monitors.
    #[arg(long, value_name = "NAMESPACE", default_value = "monitoring")]
    pub(crate) monitoring_namespace: String,
    /// Labels of the monitors, by which the operator selects them: NAME=VALUE.
    #[arg(long = "label", value_name = "LABEL", value_parser = label, value_delimiter = ',')]
    pub(crate) labels: Vec<(String, String)>,
}

fn runbooks(text: &str) -> Result<String, String> {
    let is_absolute = ["https://", "http://"].iter().any(|scheme| text.starts_with(scheme));
    match is_absolute && !text.contains(['"', '#', ' ', '\n']) {
        true => Ok(text.to_owned()),
        false => Err("expected an http or https address without a fragment".to_owned()),
    }
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

/// The address of the webhook, and the requests that it reviews.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("place").required(true))]
pub(crate) struct Webhook {
    /// The address of admission.listen, as https://HOST:PORT.
    #[arg(long, value_name = "URL", group = "place")]
    pub(crate) url: Option<String>,
    /// The Service of the daemon, as NAMESPACE/NAME or NAMESPACE/NAME:PORT. Its namespace is exempt.
    #[arg(long, value_name = "SERVICE", group = "place")]
    pub(crate) service: Option<String>,
    /// The CA of the webhook's certificate, as PEM [default: the CAs that the API server trusts].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,
    /// The name of the configuration.
    #[arg(long, value_name = "NAME", default_value = "quota-ledger")]
    pub(crate) name: String,
    /// Exempt namespaces, besides those of the cluster itself: those of the daemon and its NATS.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) exempt: Vec<String>,
    /// Other kinds whose number quotas limit (count/…), such as configmaps or deployments.apps.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) count: Vec<GroupResource>,
    /// Workloads that are charged for their pods, as in admission.charge.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) charge: Vec<GroupResource>,
    /// The API server's reaction if the daemon does not answer.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) failure_policy: FailurePolicy,
    /// The time that the API server waits for the daemon, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=30))]
    pub(crate) timeout_seconds: u8,
}

/// The address of the daemon, and the requests that are reported to it.
#[derive(Args, Debug)]
pub(crate) struct Audit {
    /// The address of admission.listen, as https://HOST:PORT, from the API server's host, which does not resolve names
    /// of Services.
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// The name in the daemon's certificate, if it differs from the host of the URL.
    #[arg(long, value_name = "NAME")]
    pub(crate) server_name: Option<String>,
    /// The CA of the daemon's certificate, as PEM [default: the CAs that the API server trusts].
    #[arg(long, value_name = "FILE")]
    pub(crate) ca_bundle: Option<PathBuf>,
    /// The path of the API server's client certificate, on the API server's host.
    #[arg(long, value_name = "FILE", requires = "client_key")]
    pub(crate) client_cert: Option<PathBuf>,
    /// The path of the client certificate's key, on the API server's host.
    #[arg(long, value_name = "FILE", requires = "client_cert")]
    pub(crate) client_key: Option<PathBuf>,
    /// The path of a file with a token of the role reserve, on the API server's host: for a daemon that asks for no
    /// certificate (without tls.client_ca).
    #[arg(long, value_name = "FILE", conflicts_with = "client_cert")]
    pub(crate) api_server_token: Option<PathBuf>,
    /// Other kinds whose number quotas limit (count/…), such as configmaps or deployments.apps.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) count: Vec<GroupResource>,
    /// Workloads that are charged for their pods, as in admission.charge.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) charge: Vec<GroupResource>,
    /// Print only one of the two files.
    #[arg(long, value_enum)]
    pub(crate) only: Option<AuditPart>,
}

/// One of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AuditPart {
    /// The audit policy: the requests that are reported.
    Policy,
    /// The kubeconfig: the daemon to which they are sent.
    Kubeconfig,
}

/// The reaction of an API server if a webhook does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub(crate) enum FailurePolicy {
    /// Admit the request: limits may be exceeded while the daemon is down.
    #[default]
    Ignore,
    /// Refuse the request: nothing is created while the daemon is down.
    Fail,
}

/// The settings of quota-bridge's RBAC.
#[derive(Args, Debug)]
pub(crate) struct Bridge {
    /// The namespace of the bridge and its Lease.
    #[arg(long = "bridge-namespace", value_name = "NAMESPACE", default_value = "quota-system")]
    pub(crate) namespace: String,
    /// The name of the service account and its roles.
    #[arg(long, value_name = "NAME", default_value = "quota-bridge")]
    pub(crate) name: String,
    /// The only namespaces to watch, as in the bridge's key namespaces: creates Roles there instead of a ClusterRole.
    #[arg(long, value_name = "NAMESPACE", value_delimiter = ',')]
    pub(crate) namespaces: Vec<String>,
    /// Other kinds whose number quotas limit (count/…), such as configmaps or deployments.apps.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) count: Vec<GroupResource>,
    /// Workloads that are charged for their pods, as in admission.charge.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    pub(crate) charge: Vec<GroupResource>,
    /// Quotas and groups whose number of other kinds is limited, as files or directories; - is standard input. These kinds
    /// are added to those of --count.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) filenames: Vec<PathBuf>,
    /// The ValidatingWebhookConfiguration whose rules the bridge maintains, as in its key webhook.rules.
    #[arg(long, value_name = "NAME")]
    pub(crate) webhook: Option<String>,

    /// Allow to write the status of ClusterResourceQuotas, as with the bridge's key status.quotad.
    #[arg(long, conflicts_with = "namespaces")]
    pub(crate) status: bool,
}

/// The certificates to create.
#[derive(Args, Debug)]
pub(crate) struct Certs {
    /// The directory of the certificates.
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) dir: PathBuf,
    /// Names and addresses of the webhook, such as quotad.quota-system.svc.
    #[arg(long, value_name = "HOST", required = true, value_delimiter = ',')]
    pub(crate) host: Vec<String>,
    /// The name in the API server's client certificate.
    #[arg(long, value_name = "NAME", default_value = "kube-apiserver")]
    pub(crate) client_name: String,
    /// The validity of the certificates, in days.
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u16).range(1..=3650))]
    pub(crate) days: u16,
    /// Replace existing files.
    #[arg(long)]
    pub(crate) force: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_ends_at_a_sequence_or_a_time() {
        assert_eq!(until("17"), Ok(Until::Sequence(17)));
        let time = "2026-11-20T10:00:00Z";
        assert_eq!(until(time), Ok(Until::Time(time.parse().unwrap())));
        assert!(until("yesterday").is_err());
    }
}
