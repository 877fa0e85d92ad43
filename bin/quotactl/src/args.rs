//! The command line, and its completion in shells.

mod offline;
mod online;

#[cfg(test)]
mod tests;

use std::{collections::BTreeSet, ffi::OsString, io, path::PathBuf, str::FromStr};

use clap::{
    Arg, Args, Command as ClapCommand, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
};
use clap_complete::{ArgValueCandidates, CompleteEnv, CompletionCandidate, Shell, env::Shells};
use quota_client::{
    http::Address,
    wire::{NamespaceUsage, Page, Quota, Reservation, Usage},
};
use quota_semantics::{Period, Timestamp, resource::ResourceList};

pub(crate) use offline::*;
pub(crate) use online::*;

use crate::{
    config::{self, Connection},
    failure::{Failure, Outcome},
    output::{Color, FORMS, Format, written},
    session::Client,
    table::{self, misleads},
};

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

// Times of the past: as RFC 3339, or as a duration before now.

/// A time: in RFC 3339, or as a duration before now, such as `2h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// This time.
    At(Timestamp),
    /// This long before now.
    Ago(Period),
}

impl FromStr for Moment {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Ok(period) = text.parse::<Period>() {
            return Ok(Self::Ago(period));
        }
        let wrong = |_| "neither an RFC 3339 time nor a duration before now, as in 30d".to_owned();
        text.parse().map(Self::At).map_err(wrong)
    }
}

impl Moment {
    /// The time, given the present. Both ends of a period need the same one.
    pub(crate) fn resolve(self, now: Timestamp) -> Timestamp {
        match self {
            Self::At(time) => time,
            Self::Ago(period) => now.minus(period.span()),
        }
    }

    /// The time, as of now.
    pub(crate) fn time(self) -> Timestamp {
        self.resolve(table::now())
    }
}

/// The first entry of a range: its sequence, or a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Beginning {
    /// The entry with this sequence.
    Sequence(u64),
    /// The first entry that is not before this time.
    Time(Timestamp),
}

impl FromStr for Beginning {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(sequence) => Ok(Self::Sequence(sequence)),
            Err(_) => match text.parse() {
                Ok(moment) => Ok(Self::Time(Moment::time(moment))),
                Err(wrong) => Err(format!("not a sequence, and {wrong}")),
            },
        }
    }
}

/// A period of the past.
#[derive(Args, Clone, Debug)]
pub(crate) struct PastPeriod {
    /// From this time on, or for so long until now.
    #[arg(long, visible_alias = "last", value_name = "TIME|DURATION", conflicts_with_all = ["month", "from", "to"])]
    pub(crate) since: Option<Moment>,
    /// This month, in UTC.
    #[arg(long, value_name = "YYYY-MM", value_parser = month, conflicts_with_all = ["from", "to"])]
    pub(crate) month: Option<(Timestamp, Timestamp)>,
    /// The first moment of the period.
    #[arg(long, value_name = "TIME|DURATION")]
    pub(crate) from: Option<Moment>,
    /// The first moment behind the period [default: now].
    #[arg(long, value_name = "TIME|DURATION", requires = "from")]
    pub(crate) to: Option<Moment>,
}

impl PastPeriod {
    /// The first moment, and the first one behind the period: at most the present.
    pub(crate) fn resolve(
        &self,
        now: Timestamp,
        default: Option<Period>,
    ) -> Outcome<(Timestamp, Timestamp)> {
        let (from, to) = match (self.month, self.since.or(self.from), default) {
            (Some((from, to)), _, _) => (from, to.min(now)),
            (None, Some(from), _) => {
                let to = self.to.map_or(now, |to| to.resolve(now).min(now));
                (from.resolve(now), to)
            }
            (None, None, Some(length)) => (now.minus(length.span()), now),
            (None, None, None) => {
                return Err(Failure::usage("the period: --last, --month, or --from"));
            }
        };
        match from < to {
            true => Ok((from, to)),
            false => Err(Failure::usage(format!(
                "the period begins at {from}, which is not before its end at {to}"
            ))),
        }
    }
}

/// The beginning of a month and of the next one.
fn month(text: &str) -> Result<(Timestamp, Timestamp), String> {
    let wrong = || "not a month such as 2026-10".to_owned();
    let (year, month) = text.split_once('-').ok_or_else(wrong)?;
    let is_number =
        |text: &str, length| text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(year, 4) || !is_number(month, 2) {
        return Err(wrong());
    }
    let (year, month): (u32, u32) =
        (year.parse().map_err(|_| wrong())?, month.parse().map_err(|_| wrong())?);
    let begin = |year: u32, month: u32| {
        let text = format!("{year:04}-{month:02}-01T00:00:00Z");
        text.parse::<Timestamp>().map_err(|_| wrong())
    };
    let next = match month {
        12 => begin(year + 1, 1)?,
        _ => begin(year, month + 1)?,
    };
    Ok((begin(year, month)?, next))
}

// Shell completion of commands and options, and of names from the daemon.

/// The environment variable by which a shell requests completions.
const VARIABLE: &str = "QUOTACTL_COMPLETE";

/// The timeout for names from the daemon, in seconds.
const PATIENCE_SECONDS: u32 = 1;

/// The maximum number of offered names.
const NAMES_MAX: usize = 200;

/// The completions of an argument.
type Candidates = fn() -> Vec<CompletionCandidate>;

/// The completions by command name and argument name.
const CANDIDATES: [(&str, &str, Candidates); 16] = [
    ("quotactl", "context", contexts),
    ("quotactl", "namespace", namespaces),
    ("quotactl", "output", forms),
    ("use-context", "name", contexts),
    ("set-context", "name", contexts),
    ("delete-context", "name", contexts),
    ("namespace", "name", namespaces),
    ("quota", "name", quotas),
    ("quota", "names", quotas),
    ("explain", "quota", quotas),
    ("explain", "resource", resources),
    ("reservation", "uid", reservations),
    ("reservations", "uid", reservations),
    ("extend", "uid", reservations),
    ("commit", "uid", reservations),
    ("release", "uid", reservations),
];

/// The command line with the completions of its arguments.
fn with_candidates(command: ClapCommand) -> ClapCommand {
    let name = command.get_name().to_owned();
    let of = |id: &str| {
        let mut all = CANDIDATES.iter();
        all.find(|(command, argument, _)| *command == name && *argument == id)
    };
    let add = |argument: Arg| match of(argument.get_id().as_str()) {
        Some((_, _, candidates)) => argument.add(ArgValueCandidates::new(*candidates)),
        None => argument,
    };
    command.mut_args(add).mut_subcommands(with_candidates)
}

/// Answers a shell's request for completions. Returns false if there is no such request.
pub(crate) fn answered(arguments: &[OsString]) -> Result<bool, clap::Error> {
    let directory = std::env::current_dir().ok();
    CompleteEnv::with_factory(|| with_candidates(Arguments::command()))
        .var(VARIABLE)
        .bin("quotactl")
        .completer("quotactl")
        .try_complete(arguments.iter().cloned(), directory.as_deref())
}

/// Prints the script that a shell sources once.
pub(crate) fn script(shell: Shell) -> Outcome {
    let shells = Shells::builtins();
    let completer = shells.completer(&shell.to_string());
    let completer = completer.ok_or_else(|| Failure::usage("no completion for this shell"))?;
    let mut script = Vec::new();
    completer.write_registration(VARIABLE, "quotactl", "quotactl", "quotactl", &mut script)?;
    written(io::Write::write_all(&mut io::stdout(), &script))
}

/// The namespaces that have quotas, the fullest first.
pub(crate) fn namespaces() -> Vec<CompletionCandidate> {
    names(|client, _| {
        let address = Address::of(["v1", "usage"]);
        let found = client.list::<Page<NamespaceUsage>>(&address, Some(NAMES_MAX))?;
        let found = found.content.items.into_iter();
        Ok(found.map(|usage| usage.namespace.to_string()).collect())
    })
}

/// The quotas of the namespace.
pub(crate) fn quotas() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["quotas"]);
        let found = client.list::<Page<Quota<'static>>>(&address, Some(NAMES_MAX))?;
        let found = found.content.items.into_iter();
        Ok(found.map(|quota| quota.metadata.name.to_string()).collect())
    })
}

/// The uids of the namespace's pending reservations.
pub(crate) fn reservations() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["reservations"]);
        let found = client.list::<Page<Reservation<'static>>>(&address, Some(NAMES_MAX))?;
        let found = found.content.items.into_iter();
        Ok(found.map(|it| it.reserved_by.uid.to_string()).collect())
    })
}

/// The resources that are limited or counted in the namespace.
pub(crate) fn resources() -> Vec<CompletionCandidate> {
    names(|client, namespace| {
        let address = Address::in_namespace(namespace, ["usage"]);
        let usage = client.get::<Usage>(&address)?.content;
        let limits = usage.quotas.iter().flat_map(|quota| &quota.resources);
        let limits = limits.map(|limit| limit.resource.to_string());
        let sums = usage.resources.iter().map(|sum| sum.resource.to_string());
        let names: BTreeSet<_> = limits.chain(sums).collect();
        Ok(names.into_iter().take(NAMES_MAX).collect())
    })
}

/// The contexts in the file.
pub(crate) fn contexts() -> Vec<CompletionCandidate> {
    let found = global().and_then(|global| config::read(&global).ok());
    let contexts = found.map(|file| file.contexts).unwrap_or_default();
    contexts.into_keys().map(CompletionCandidate::new).collect()
}

/// The forms of output.
pub(crate) fn forms() -> Vec<CompletionCandidate> {
    let forms = crate::output::FORMS.split('|');
    forms.map(CompletionCandidate::new).collect()
}

/// Names from the daemon of the command line. There are none if the query fails: a shell has no place for errors.
fn names(ask: impl FnOnce(&Client, &str) -> Outcome<Vec<String>>) -> Vec<CompletionCandidate> {
    let found = || -> Option<Vec<String>> {
        let mut global = global()?;
        global.timeout = Period::from_secs(PATIENCE_SECONDS);
        let file = config::read(&global).ok()?;
        let connection = Connection::resolve(&global, &file).ok()?;
        let client = Client::new(&connection, false).ok()?;
        let namespace = connection.namespace.as_deref().unwrap_or("default");
        ask(&client, namespace).ok()
    };
    // What would steer the terminal, or is no word, is not offered.
    let plain = |name: &String| {
        !name.is_empty() && !name.contains(|c: char| misleads(c) || c.is_whitespace())
    };
    let found = found().unwrap_or_default().into_iter().filter(plain);
    found.map(CompletionCandidate::new).collect()
}

/// The global options of the line to be completed, which follows `--`, as far as the line is written.
fn global() -> Option<Global> {
    let line = std::env::args_os().skip_while(|word| word != "--").skip(1);
    let command = Arguments::command().ignore_errors(true);
    let matches = command.try_get_matches_from(line).ok()?;
    let global = Global::from_arg_matches(&matches).ok()?;
    Some(global.without_empty())
}
