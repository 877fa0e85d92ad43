//! The command line.

mod generate;
mod offline;
mod online;
mod past;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use quota_semantics::{Period, resource::ResourceList};

pub(crate) use self::{generate::*, offline::*, online::*, past::*};
use super::output::{Color, FORMS, Format};

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

/// The commands by what they are for.
const GROUPS: [(&str, &[&str]); 5] = [
    (
        "Look",
        &[
            "get", "describe", "explain", "denials", "top", "history", "status", "watch", "drift",
            "version",
        ],
    ),
    (
        "Change",
        &[
            "apply", "diff", "delete", "check", "reserve", "extend", "commit", "release", "push",
            "relist",
        ],
    ),
    ("Prove", &["report", "simulate", "suggest", "ledger", "checkpoint", "backup"]),
    ("Set up", &["config", "token", "generate", "cluster", "completions"]),
    ("Help", &["help"]),
];

/// The command line, with help that groups the commands.
pub(crate) fn command() -> clap::Command {
    let mut command = <Arguments as clap::CommandFactory>::command();
    command.build();
    let mut all: Vec<&clap::Command> = command.get_subcommands().collect();
    let mut text = String::new();
    let listed = GROUPS.iter().map(|(title, names)| (*title, *names));
    // A command that no group names is still shown.
    for (title, names) in listed.chain([("More", &[][..])]) {
        let is_of = |it: &&&clap::Command| names.is_empty() || names.contains(&it.get_name());
        let mut of: Vec<&clap::Command> = all.iter().filter(is_of).copied().collect();
        of.retain(|it| !it.is_hide_set());
        all.retain(|it| !of.iter().any(|shown| shown.get_name() == it.get_name()));
        let place = |it: &&clap::Command| names.iter().position(|name| *name == it.get_name());
        of.sort_by_key(place);
        if of.is_empty() {
            continue;
        }
        text.push_str(&format!("{title}:\n"));
        for it in of {
            let about = it.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {:<12} {about}\n", it.get_name()));
        }
        text.push('\n');
    }
    let template = format!(
        "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{text}Common options:\n{{options}}{{after-help}}"
    );
    <Arguments as clap::CommandFactory>::command().help_template(template)
}

impl Command {
    /// Whether the command writes files with the content of the ledger.
    pub(crate) const fn copies_the_ledger(&self) -> bool {
        match self {
            // Its public key is for others.
            Self::Ledger(command) => !matches!(command, Ledger::Keygen { .. }),
            Self::Online(command) => matches!(command, Online::Backup { .. }),
            _ => false,
        }
    }
}

/// The options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Common options")]
pub(crate) struct Global {
    /// The daemon's API [default: http://127.0.0.1:8480].
    #[arg(long, global = true, value_name = "URL", env = "QUOTACTL_SERVER")]
    pub(crate) server: Option<String>,
    /// The context, which names a daemon and how to connect to it: see `quotactl config`.
    #[arg(long, global = true, value_name = "NAME", env = "QUOTACTL_CONTEXT")]
    pub(crate) context: Option<String>,
    /// The file of contexts [default: ~/.config/quotactl/config.yaml].
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_CONFIG")]
    pub(crate) config: Option<PathBuf>,
    /// The namespace [default: default].
    #[arg(short, long, global = true, value_name = "NAME", env = "QUOTACTL_NAMESPACE")]
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
        help = format!("How data is printed: {FORMS}")
    )]
    pub(crate) output: Format,
    /// Tables without the names of their columns.
    #[arg(long, global = true)]
    pub(crate) no_headers: bool,
    /// The use of colours in tables.
    #[arg(long, global = true, value_name = "WHEN", value_enum, default_value_t)]
    pub(crate) color: Color,
    /// The time to wait for a response.
    #[arg(long, global = true, value_name = "TIME", default_value = "30s")]
    pub(crate) timeout: Period,
    /// CA certificates to trust for https, as PEM, instead of the system's.
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_CA")]
    pub(crate) ca: Option<PathBuf>,
    /// The client certificate for https, as PEM.
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_CERT", requires = "key")]
    pub(crate) cert: Option<PathBuf>,
    /// The private key of the client certificate, as PEM.
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_KEY", requires = "cert")]
    pub(crate) key: Option<PathBuf>,
    /// The file with the bearer token.
    #[arg(long, global = true, value_name = "FILE", env = "QUOTACTL_TOKEN_FILE")]
    pub(crate) token_file: Option<PathBuf>,
    /// The reason for a change; each entry that the command causes records it.
    #[arg(long, global = true, value_name = "TEXT", value_parser = reason)]
    pub(crate) reason: Option<String>,
}

impl Global {
    /// The same options without empty values: an empty environment variable counts as unset.
    pub(crate) fn without_empty(mut self) -> Self {
        for text in [&mut self.server, &mut self.context, &mut self.namespace] {
            *text = text.take().filter(|text| !text.is_empty());
        }
        self
    }
}

/// Checks a reason as the daemon does: 1 to 512 bytes without control characters.
fn reason(text: &str) -> Result<String, String> {
    match (1..=512).contains(&text.len()) && !text.chars().any(char::is_control) {
        true => Ok(text.to_owned()),
        false => Err("not a line of 1 to 512 bytes".to_owned()),
    }
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    #[command(flatten)]
    Online(Online),
    /// Read a ledger without a daemon: check it, replay it, print it.
    #[command(subcommand)]
    Ledger(Ledger),
    /// Manage contexts: addresses of daemons, and the credentials for each.
    #[command(subcommand)]
    Config(Config),
    /// Verify signed checkpoints of a ledger.
    #[command(subcommand)]
    Checkpoint(Checkpoint),
    /// Create and list tokens for callers of a daemon.
    #[command(subcommand)]
    Token(Token),
    /// Generate what an installation needs besides the daemon: the webhook's configuration, certificates.
    #[command(subcommand)]
    Generate(Generate),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
}

/// The commands that call a daemon.
#[derive(Debug, Subcommand)]
pub(crate) enum Online {
    /// Show quotas, groups, namespaces, denials, reservations, usage, objects or entries.
    Get(GetArgs),
    /// Show one thing in detail.
    #[command(subcommand)]
    Describe(Describe),
    /// Explain a number by the objects and reservations behind it, the largest first.
    Explain(Explain),
    /// Show the latest denials and their reasons; of all namespaces unless one is given.
    Denials(DenialsOf),
    /// Show the fullest namespaces; of one that is given, its limits.
    Top(Top),
    /// Show usage over time: a line for each limit.
    History(History),
    /// Report what was consumed in a period: by namespace, group, label, kind or workload; of all namespaces unless one
    /// is given.
    Report {
        #[command(flatten)]
        report: ReportArgs,
        /// Only namespaces with these labels, as in `team=a`.
        #[arg(short = 'l', long, value_name = "SELECTOR")]
        selector: Option<String>,
    },
    /// Show the status of the daemon, its ledger and its sources.
    Status,
    /// Show the versions of quotactl and of the daemon.
    Version {
        /// Only the version of quotactl, without a request to the daemon.
        #[arg(long)]
        client: bool,
    },
    /// Create or change the quotas and groups in manifests.
    Apply {
        #[command(flatten)]
        files: Files,
        /// Have the daemon validate the manifests, and change nothing.
        #[arg(long)]
        dry_run: bool,
    },
    /// Show what `apply` would change; ends with 12 if there is anything.
    Diff {
        #[command(flatten)]
        files: Files,
        /// Also show what the manifests would have refused since then.
        #[arg(long, value_name = "TIME|DURATION")]
        since: Option<Moment>,
    },
    /// Show what other limits would have refused in the past. Changes nothing.
    #[command(arg_required_else_help = true)]
    Simulate(Simulate),
    /// Suggest limits that fit what was taken in a period; `-o yaml` prints manifests.
    Suggest {
        #[command(flatten)]
        wish: Suggest,
        /// Only namespaces whose labels match, as in `team=a,tier!=test`.
        #[arg(short = 'l', long, value_name = "LABELS")]
        selector: Option<String>,
    },
    /// Delete quotas or groups.
    #[command(arg_required_else_help = true)]
    Delete(Delete),
    /// Check whether objects or reservations would fit, without reserving anything; of workloads also the pods.
    Check(Check),
    /// Reserve capacity for an object.
    Reserve(Reserve),
    /// Give a pending reservation more time.
    Extend {
        /// The object's uid.
        uid: String,
        /// The time from now on.
        #[arg(long, value_name = "TIME")]
        ttl: Period,
    },
    /// Commit a reservation: its object exists, and counts as used from now on.
    Commit {
        /// The object's uid.
        uid: String,
        /// The amounts to commit, if they are less than the reserved amounts.
        #[arg(long, value_name = "RESOURCE=QUANTITY,…", value_parser = amounts)]
        request: Option<ResourceList>,
    },
    /// Release a reservation.
    Release {
        /// The object's uid.
        uid: String,
    },
    /// Send object events: a file with one JSON event per line, or a JSON array.
    Push {
        /// The file; `-` is standard input.
        file: PathBuf,
    },
    /// Compare the ledger with a listing of objects, and show the differences. Changes nothing, unless
    /// `--correct` is given.
    Drift(Drift),
    /// Request publishers to list their objects again.
    Relist {
        /// Only these resources, as in `pods` or `deployments.apps` [default: all].
        #[arg(long, value_name = "RESOURCE", value_delimiter = ',')]
        resource: Vec<String>,
    },
    /// Manage a cluster of nodes that keep one ledger.
    #[command(subcommand)]
    Cluster(Cluster),
    /// Take a consistent copy of the ledger from the daemon, while it serves.
    Backup {
        /// The directory to create, on this machine; it must not exist, or be empty.
        directory: PathBuf,
    },
    /// Print ledger entries as they become durable; of all namespaces unless one is given.
    Watch {
        /// The first entry to print: its sequence, or a time [default: entries from now on].
        #[arg(long, value_name = "SEQUENCE|TIME", visible_alias = "since")]
        from: Option<Beginning>,
    },
}

/// Commands for a cluster.
#[derive(Debug, Subcommand)]
pub(crate) enum Cluster {
    /// Create the stream that holds the log, once. The ledger begins with the entries of the node that gets this
    /// request.
    Init,
    /// Show the nodes: the leader, and the position of each replica.
    Status,
    /// Remove a stopped node: the stream is no longer kept for it. Started again, it takes part again.
    Remove {
        /// The name of the node.
        node: String,
    },
    /// Create a new stream in place of one that is gone or has lost acknowledged messages, after the entries of the
    /// node that gets this request: the one with the most entries.
    Heal {
        /// The id of the ledger, as `cluster status` shows it, as a confirmation.
        #[arg(long, value_name = "ID")]
        ledger: String,
        /// A node that will not come back: entries that only this node has are lost.
        #[arg(long, value_name = "NODE")]
        lost: Vec<String>,
    },
    /// Hand the lead over to another node. Earlier decisions are durable, and requests wait for the new leader.
    Transfer {
        /// The name of the new leader.
        to: String,
    },
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "not a number of at least 1".to_owned())
}

#[cfg(test)]
mod tests;
