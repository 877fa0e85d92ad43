//! The command line.

mod bench;
mod checkpoint;
mod config;
mod drift;
mod generate;
mod ledger;
mod token;

use std::{collections::BTreeMap, path::PathBuf};

use clap::{ArgGroup, Args, Parser, Subcommand};
use clap_complete::{ArgValueCandidates, Shell};
use quota_semantics::{Period, Timestamp, quantity::Quantity};

pub(crate) use bench::Bench;
pub(crate) use checkpoint::Checkpoint;
pub(crate) use config::{Config, SetContext};
pub(crate) use drift::Drift;
pub(crate) use generate::{
    Alerts, Audit, AuditPart, Bridge, Certs, FailurePolicy, Generate, ServiceMonitor, Webhook,
};
pub(crate) use ledger::{Jobs, Ledger, Place, Signed};
pub(crate) use token::{CreateToken, Token};

use super::complete;
use super::output::{Color, FORMS, Format, Path};

/// Quotas and reservations of a Quota Ledger, from the command line.
#[derive(Debug, Parser)]
#[command(
    name = "quotactl",
    version = env!("BUILD_VERSION"),
    arg_required_else_help = true,
    after_help = "Exit codes: 0 done, granted, fits; 1 failure; 2 usage; 4 ledger damaged; \
                  10 denied, does not fit; 11 not found; 12 conflict, drift."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Command {
    /// Whether files are written that hold what the ledger holds.
    pub(crate) const fn copies_the_ledger(&self) -> bool {
        match self {
            // Its public key is for others.
            Self::Ledger(command) => !matches!(command, Ledger::Keygen { .. }),
            Self::Online(command) => matches!(command, Online::Backup { .. }),
            _ => false,
        }
    }
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// The daemon's API [default: http://127.0.0.1:8480].
    #[arg(long, global = true, value_name = "URL", env = "QUOTACTL_SERVER")]
    pub(crate) server: Option<String>,
    /// The context that says how to speak to which daemon: see `quotactl config`.
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        env = "QUOTACTL_CONTEXT",
        add = ArgValueCandidates::new(complete::contexts)
    )]
    pub(crate) context: Option<String>,
    /// The file of contexts [default: ~/.config/quotactl/config.yaml].
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The namespace [default: default].
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAME",
        env = "QUOTACTL_NAMESPACE",
        add = ArgValueCandidates::new(complete::namespaces)
    )]
    pub(crate) namespace: Option<String>,
    /// All namespaces.
    #[arg(short = 'A', long, global = true)]
    pub(crate) all_namespaces: bool,
    #[arg(
        short,
        long,
        global = true,
        value_name = "FORM",
        default_value = "table",
        value_parser = Format::parse,
        add = ArgValueCandidates::new(complete::forms),
        help = format!("How data is printed: {FORMS}")
    )]
    pub(crate) output: Format,
    /// Tables without the names of their columns.
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    /// When tables have colours.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
    /// How long to wait for an answer.
    #[arg(long, global = true, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Period,
    /// Certificates that an https server is trusted by, as PEM, instead of the system's.
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// Certificate to show to an https server, as PEM.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "QUOTACTL_CERT",
        requires = "key"
    )]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of the certificate, as PEM.
    #[arg(
        long,
        global = true,
        value_name = "FILE",
        env = "QUOTACTL_KEY",
        requires = "cert"
    )]
    pub(crate) key: Option<PathBuf>,
    /// File with the bearer token to send.
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// Why something is changed; each entry that the command causes holds it.
    #[arg(long, global = true, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: Option<String>,
}

/// As the daemon takes it: 1 to 512 bytes without control characters.
fn reason(text: &str) -> Result<String, String> {
    match (1..=512).contains(&text.len()) && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err("not a line of 1 to 512 bytes".to_owned()),
    }
}

/// What is to be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Online(Online),
    /// Read a ledger without a daemon: check it, replay it, print it.
    #[command(subcommand)]
    Ledger(Ledger),
    /// Say which daemons there are, and how to speak to each.
    #[command(subcommand)]
    Config(Config),
    /// Check what was signed of a ledger.
    #[command(subcommand)]
    Checkpoint(Checkpoint),
    /// Make tokens for callers of a daemon, and see which there are.
    #[command(subcommand)]
    Token(Token),
    /// Make what an installation needs besides the daemon: the webhook's configuration, certificates.
    #[command(subcommand)]
    Generate(Generate),
    /// Measure what a daemon can do: reservations and releases per second, and how long each takes.
    Bench(Bench),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// What is done with a daemon.
#[derive(Debug, Subcommand)]
pub(crate) enum Online {
    /// Show quotas, groups, reservations, usage, objects or entries.
    Get(GetArgs),
    /// Show one thing in detail.
    #[command(subcommand)]
    Describe(Describe),
    /// Show what makes a number: the objects and reservations behind it, the largest first.
    Explain(Explain),
    /// Show what was denied lately, and why; of all namespaces unless one is given.
    Denials {
        /// At most so many, the latest.
        #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
        limit: usize,
    },
    /// Show the fullest namespaces; of one that is given, its limits.
    Top {
        /// At most so many.
        #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one)]
        limit: usize,
        /// Also namespaces without limits.
        #[arg(long)]
        all: bool,
    },
    /// Show how usage went: a line for each limit, from a time on.
    History(History),
    /// Show how the daemon is: what it grants, how far its ledger and its sources are.
    Status,
    /// Show the versions of quotactl and of the daemon.
    Version {
        /// Only that of quotactl: no daemon is asked.
        #[arg(long)]
        client: bool,
    },
    /// Create or change the quotas and groups in manifests.
    Apply {
        #[command(flatten)]
        files: Files,
        /// Have the daemon check them, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show what `apply` would change; ends with 12 if there is anything.
    Diff(Files),
    /// Delete quotas or groups.
    #[command(args_conflicts_with_subcommands = true, arg_required_else_help = true)]
    Delete(Delete),
    /// Ask whether objects or reservations would fit, without reserving anything.
    Check(Files),
    /// Reserve capacity for an object.
    Reserve(Reserve),
    /// Give a pending reservation more time.
    Extend {
        /// The object's uid.
        #[arg(add = ArgValueCandidates::new(complete::reservations))]
        uid: String,
        /// The time from now on.
        #[arg(long, value_name = "TIME")]
        ttl: Period,
    },
    /// Say that a reservation's object exists: it counts as used from now on.
    Commit {
        /// The object's uid.
        #[arg(add = ArgValueCandidates::new(complete::reservations))]
        uid: String,
        /// What the object counts for, if it is less than was reserved.
        #[arg(long, value_name = "RESOURCE=QUANTITY,…", value_parser = amounts)]
        request: Option<Amounts>,
    },
    /// Give a reservation back.
    Release {
        /// The object's uid.
        #[arg(add = ArgValueCandidates::new(complete::reservations))]
        uid: String,
    },
    /// Send object events: a file with one JSON event per line, or a JSON array.
    Push {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
    /// Compare the ledger with a listing of what is there, and name the objects that differ. Changes nothing, unless
    /// `--correct` is given.
    Drift(Drift),
    /// Have publishers list again what there is.
    Relist {
        /// Only these resources, as in `pods` or `deployments.apps` [default: all].
        #[arg(long, value_name = "RESOURCE", value_delimiter = ',')]
        resource: Vec<String>,
    },
    /// Begin, look at, and lead a cluster of nodes that keep one ledger.
    #[command(subcommand)]
    Cluster(Cluster),
    /// Take a consistent copy of the ledger from the daemon, while it serves.
    Backup {
        /// The directory to make, on this machine; it must not exist, or be empty.
        directory: PathBuf,
    },
    /// Print ledger entries as they become durable; of all namespaces unless one is given.
    Watch {
        /// The first entry to print, by sequence; without it, what happens from now on.
        #[arg(long, value_name = "SEQUENCE")]
        from: Option<u64>,
    },
}

/// What can be done with a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Make the stream that holds the log, once. The ledger begins with what the node holds that is asked.
    Init,
    /// Show the nodes: who leads, and how far each replica is.
    Status,
    /// Have another node lead. All that was decided before is durable, and requests wait for it.
    Transfer {
        /// The node.
        to: String,
    },
}

/// A list, and how it is shown.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(subcommand)]
    pub(crate) what: Get,
    /// In the order of a field: its path, as in `.metadata.name`.
    #[arg(long, global = true, value_name = "PATH", value_parser = Path::parse)]
    pub(crate) sort_by: Option<Path>,
    /// Then print what changes, until it is interrupted.
    #[arg(short, long, global = true)]
    pub(crate) watch: bool,
}

/// What can be shown.
#[derive(Debug, Subcommand)]
pub(crate) enum Get {
    /// Quotas: limits, usage, reservations.
    #[command(visible_alias = "quotas", aliases = ["resourcequota", "resourcequotas"])]
    Quota {
        /// Only this one.
        #[arg(add = ArgValueCandidates::new(complete::quotas))]
        name: Option<String>,
        /// Only those whose labels match, as in `team=a,tier!=test,env in (x, y),!old`.
        #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
        selector: Option<String>,
    },
    /// Groups: quotas over many namespaces.
    #[command(visible_alias = "groups", aliases = ["clusterresourcequota", "clusterresourcequotas", "clusterquota"])]
    Group {
        /// Only this one.
        name: Option<String>,
    },
    /// Reservations: the pending ones, or one in any state.
    #[command(visible_alias = "reservation")]
    Reservations {
        /// Only that of the object with this uid.
        #[arg(add = ArgValueCandidates::new(complete::reservations))]
        uid: Option<String>,
    },
    /// What is used, reserved and available.
    Usage {
        /// As it was at this time.
        #[arg(long, value_name = "TIME", conflicts_with = "sequence")]
        at: Option<Timestamp>,
        /// As it was at this entry.
        #[arg(long, value_name = "N")]
        sequence: Option<u64>,
        /// Also what no quota limits.
        #[arg(long)]
        all: bool,
    },
    /// The objects behind the numbers.
    #[command(alias = "object")]
    Objects {
        /// Only objects of this resource, as in `pods` or `deployments.apps`.
        resource: Option<String>,
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
    /// Ledger entries, in order; of all namespaces unless one is given.
    #[command(alias = "entry")]
    Entries(Range),
    /// Events that could not be understood.
    #[command(alias = "dead-letter")]
    DeadLetters {
        /// At most so many.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
}

/// A number, and what makes it.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The resource, as a quota names it: `requests.cpu`, `pods`.
    #[arg(add = ArgValueCandidates::new(complete::resources))]
    pub(crate) resource: String,
    /// Only what this quota counts.
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(complete::quotas))]
    pub(crate) quota: Option<String>,
    /// As it was at this time.
    #[arg(long, value_name = "TIME", conflicts_with = "sequence")]
    pub(crate) at: Option<Timestamp>,
    /// As it was at this entry.
    #[arg(long, value_name = "N")]
    pub(crate) sequence: Option<u64>,
    /// At most so many parts, the largest.
    #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
    pub(crate) limit: usize,
}

/// Usage over time.
#[derive(Args, Debug)]
pub(crate) struct History {
    /// Only this resource, as a quota names it.
    pub(crate) resource: Option<String>,
    /// From so long ago on.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) since: Period,
    /// Time between two points [default: a fortieth of the whole].
    #[arg(long, value_name = "TIME")]
    pub(crate) step: Option<Period>,
}

/// A part of the ledger.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The first entry, by sequence; without it, the first that there is.
    #[arg(long, value_name = "SEQUENCE")]
    pub(crate) from: Option<u64>,
    /// At most so many.
    #[arg(long, value_name = "N", default_value = "100", value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// The last so many.
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with_all = ["from", "limit"])]
    pub(crate) tail: Option<usize>,
}

/// What can be shown in detail.
#[derive(Debug, Subcommand)]
pub(crate) enum Describe {
    /// Quotas: scopes, and for each resource what is used, reserved and allowed.
    #[command(visible_alias = "quotas", aliases = ["resourcequota", "resourcequotas"])]
    Quota {
        /// Only this one.
        #[arg(add = ArgValueCandidates::new(complete::quotas))]
        name: Option<String>,
    },
    /// A group: which namespaces, and what each of them takes of its limits.
    #[command(visible_alias = "groups", aliases = ["clusterresourcequota", "clusterresourcequotas", "clusterquota"])]
    Group {
        /// Its name.
        name: String,
    },
    /// A reservation, in any state: what it holds, and what has become of it.
    #[command(visible_alias = "reservations")]
    Reservation {
        /// The object's uid.
        #[arg(add = ArgValueCandidates::new(complete::reservations))]
        uid: String,
    },
    /// A namespace: its limits, pending reservations, what was denied lately.
    #[command(visible_alias = "ns", alias = "namespaces")]
    Namespace {
        /// Its name [default: that of `--namespace`].
        #[arg(add = ArgValueCandidates::new(complete::namespaces))]
        name: Option<String>,
    },
}

/// Manifests.
#[derive(Args, Debug)]
pub(crate) struct Files {
    /// A file of YAML or JSON documents, a directory of such files, or `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// What is to be deleted.
#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Delete the quotas and groups that are named in these manifests.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) what: Option<DeleteWhat>,
}

/// What can be deleted.
#[derive(Debug, Subcommand)]
pub(crate) enum DeleteWhat {
    /// Groups.
    #[command(visible_alias = "groups", aliases = ["clusterresourcequota", "clusterresourcequotas", "clusterquota"])]
    Group {
        /// Their names.
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Quotas.
    #[command(visible_alias = "quotas", aliases = ["resourcequota", "resourcequotas"])]
    Quota {
        /// Their names.
        #[arg(required_unless_present = "files", add = ArgValueCandidates::new(complete::quotas))]
        names: Vec<String>,
        /// Delete the quotas that are named in these manifests.
        #[arg(short = 'f', long = "filename", value_name = "FILE")]
        files: Vec<PathBuf>,
    },
}

/// A reservation.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true).args(["files", "request"]))]
pub(crate) struct Reserve {
    /// Reservations, or the objects that they are for, as YAML or JSON; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// What to reserve.
    #[arg(long, value_name = "RESOURCE=QUANTITY,…", value_parser = amounts, requires = "uid")]
    pub(crate) request: Option<Amounts>,
    /// The uid of the object that it is for.
    #[arg(long)]
    pub(crate) uid: Option<String>,
    /// The object's apiVersion.
    #[arg(long, value_name = "VERSION", conflicts_with = "files")]
    pub(crate) api_version: Option<String>,
    /// The object's kind.
    #[arg(long, conflicts_with = "files")]
    pub(crate) kind: Option<String>,
    /// The object's name.
    #[arg(long, conflicts_with = "files")]
    pub(crate) name: Option<String>,
    /// How long it is held; without it, as the daemon is configured.
    #[arg(long, value_name = "TIME")]
    pub(crate) ttl: Option<Period>,
}

/// Quantities by resource, as the API takes them.
pub(crate) type Amounts = BTreeMap<String, String>;

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "not a number of at least 1".to_owned())
}

fn amounts(text: &str) -> Result<Amounts, String> {
    let mut amounts = Amounts::new();
    for part in text.split(',') {
        let (resource, quantity) = part
            .split_once('=')
            .filter(|(resource, _)| !resource.is_empty())
            .ok_or_else(|| format!("{part:?} is not RESOURCE=QUANTITY"))?;
        quantity
            .parse::<Quantity>()
            .map_err(|error| format!("{resource}: {error}"))?;
        if amounts
            .insert(resource.to_owned(), quantity.to_owned())
            .is_some()
        {
            return Err(format!("{resource} is given twice"));
        }
    }
    Ok(amounts)
}

#[cfg(test)]
mod tests;
