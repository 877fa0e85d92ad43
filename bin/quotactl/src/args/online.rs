//! The arguments of the commands that ask a daemon.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand, ValueEnum};
use quota_client::http::Address;
use quota_core::time::report::By;
use quota_semantics::{Period, resource::ResourceList, uid::Uid};

use super::{Beginning, Moment, PastPeriod, at_least_one};
use crate::output::Path;

/// A list, and how it is shown.
#[derive(Args, Debug)]
pub(crate) struct GetArgs {
    #[command(subcommand)]
    pub(crate) what: Get,
    /// Sort by a field, given by its path, such as `.metadata.name`.
    #[arg(long, global = true, value_name = "PATH", value_parser = Path::parse)]
    pub(crate) sort_by: Option<Path>,
    /// After the list, print changes until interrupted.
    #[arg(short, long, global = true)]
    pub(crate) watch: bool,
}

/// The lists.
#[derive(Debug, Subcommand)]
pub(crate) enum Get {
    /// Quotas: limits, usage, reservations.
    #[command(visible_alias = "quotas", aliases = ["resourcequota", "resourcequotas"])]
    Quota(Named),
    /// Groups: quotas over many namespaces.
    #[command(visible_alias = "groups", aliases = ["clusterresourcequota", "clusterresourcequotas", "clusterquota"])]
    Group(GroupsOf),
    /// Namespaces: labels, quotas, and the fullest limit of each.
    #[command(visible_alias = "ns", alias = "namespace")]
    Namespaces(NamespacesOf),
    /// The latest denials and their reasons; of all namespaces unless one is given.
    #[command(alias = "denial")]
    Denials(DenialsOf),
    /// Reservations: the pending ones, or one in any state.
    #[command(visible_alias = "reservation")]
    Reservations(Reservations),
    /// Usage: used, reserved and available amounts.
    Usage(UsageOf),
    /// The counted objects.
    #[command(alias = "object")]
    Objects(Objects),
    /// Ledger entries, in order; of all namespaces unless one is given.
    #[command(alias = "entry")]
    Entries(Range),
    /// Rejected events.
    #[command(alias = "dead-letter")]
    DeadLetters(DeadLetters),
}

/// The quotas or groups of a list.
#[derive(Args, Debug)]
pub(crate) struct Named {
    /// Only this one.
    pub(crate) name: Option<String>,
    /// Only those whose labels match, as in `team=a,tier!=test,env in (x, y),!old`.
    #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
    pub(crate) selector: Option<String>,
}

/// The groups of a list.
#[derive(Args, Debug)]
pub(crate) struct GroupsOf {
    #[command(flatten)]
    pub(crate) named: Named,
    #[command(flatten)]
    pub(crate) when: When,
}

/// The namespaces of a list.
#[derive(Args, Debug)]
pub(crate) struct NamespacesOf {
    /// Only those whose labels match, as in `team=a,tier!=test,env in (x, y),!old`.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) when: When,
}

/// The latest denials.
#[derive(Args, Debug)]
pub(crate) struct DenialsOf {
    /// The maximum number of denials.
    #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Only denials from this time on.
    #[arg(long, value_name = "TIME", visible_alias = "from")]
    pub(crate) since: Option<Moment>,
    /// Only denials up to this time.
    #[arg(long, value_name = "TIME")]
    pub(crate) to: Option<Moment>,
}

/// The pending reservations, or one in any state.
#[derive(Args, Debug)]
pub(crate) struct Reservations {
    /// Only the one for the object with this uid.
    pub(crate) uid: Option<String>,
}

/// Usage, now or as of an earlier time.
#[derive(Args, Debug)]
pub(crate) struct UsageOf {
    #[command(flatten)]
    pub(crate) when: When,
    /// Also resources without a limit.
    #[arg(long)]
    pub(crate) all: bool,
    /// With -A, only namespaces whose labels match, as in `team=a,tier!=test,env in (x, y),!old`.
    #[arg(short = 'l', long, value_name = "LABELS", requires = "all_namespaces")]
    pub(crate) selector: Option<String>,
}

/// The objects of a namespace or of all namespaces, with their amounts.
#[derive(Args, Debug)]
pub(crate) struct Objects {
    /// Only objects of this resource, such as `pods` or `deployments.apps`.
    pub(crate) resource: Option<String>,
    /// The maximum number of results.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) limit: Option<usize>,
}

/// The list of rejected events, with the reasons.
#[derive(Args, Debug)]
pub(crate) struct DeadLetters {
    /// The maximum number of results.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) limit: Option<usize>,
}

/// A part of the ledger.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The first entry: its sequence, or a time [default: the first in the ledger].
    #[arg(long, value_name = "SEQUENCE|TIME", visible_alias = "since")]
    pub(crate) from: Option<Beginning>,
    /// Only entries up to this time.
    #[arg(long, value_name = "TIME", conflicts_with = "tail")]
    pub(crate) to: Option<Moment>,
    /// The maximum number of results.
    #[arg(long, value_name = "N", default_value = "100", value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Only this many of the last entries.
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with_all = ["from", "limit"])]
    pub(crate) tail: Option<usize>,
}

/// The point in time of figures; without either option: now.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct When {
    /// As of this time: in RFC 3339, or as a duration before now, such as `2h`.
    #[arg(long, value_name = "TIME", conflicts_with = "sequence")]
    pub(crate) at: Option<Moment>,
    /// As of the entry with this sequence.
    #[arg(long, value_name = "N")]
    pub(crate) sequence: Option<u64>,
}

impl When {
    /// The address with the query parameters for this point in time.
    pub(crate) fn added_to(self, address: Address) -> Address {
        let address = address.with_some("at", self.at.map(Moment::time));
        address.with_some("sequence", self.sequence)
    }

    pub(crate) const fn is_now(self) -> bool {
        self.at.is_none() && self.sequence.is_none()
    }
}

/// The kinds that can be described.
#[derive(Debug, Subcommand)]
pub(crate) enum Describe {
    /// Quotas: scopes, and for each resource the used and reserved amounts and the limit.
    #[command(visible_alias = "quotas", aliases = ["resourcequota", "resourcequotas"])]
    Quota {
        /// The name of the quota [default: all].
        name: Option<String>,
    },
    /// A group: its selector, limits, and the usage of each member namespace.
    #[command(visible_alias = "groups", aliases = ["clusterresourcequota", "clusterresourcequotas", "clusterquota"])]
    Group {
        /// The name of the group.
        name: String,
    },
    /// A reservation, in any state: its amounts and its state.
    #[command(visible_alias = "reservations")]
    Reservation {
        /// The object's uid.
        uid: String,
    },
    /// A namespace: its limits, pending reservations and latest denials.
    #[command(visible_alias = "ns", alias = "namespaces")]
    Namespace {
        /// The name of the namespace [default: that of `--namespace`].
        name: Option<String>,
    },
}

/// A number to explain.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The resource, as a quota names it: `requests.cpu`, `pods`.
    pub(crate) resource: String,
    /// Only the part that this quota or group counts.
    #[arg(long, value_name = "NAME")]
    pub(crate) quota: Option<String>,
    /// The number of this group, in all its namespaces.
    #[arg(long, value_name = "NAME", conflicts_with = "quota")]
    pub(crate) group: Option<String>,
    #[command(flatten)]
    pub(crate) when: When,
    /// The maximum number of objects and reservations.
    #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
    pub(crate) limit: usize,
}

/// The fullest namespaces, or the limits of one.
#[derive(Args, Debug)]
pub(crate) struct Top {
    /// The maximum number of results.
    #[arg(long, value_name = "N", default_value = "20", value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Also namespaces without limits.
    #[arg(long)]
    pub(crate) all: bool,
    /// Only what is at least this full, in percent.
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) min: Option<f64>,
    /// The order of the namespaces.
    #[arg(long, value_name = "ORDER", value_enum, default_value_t)]
    pub(crate) sort: TopOrder,
    /// Only namespaces whose labels match, as in `team=a,tier!=test,env in (x, y),!old`.
    #[arg(short = 'l', long, value_name = "LABELS")]
    pub(crate) selector: Option<String>,
    #[command(flatten)]
    pub(crate) when: When,
}

/// The order of `top`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TopOrder {
    /// The fullest first.
    #[default]
    Use,
    /// By name.
    Name,
    /// Those with the most pending reservations first.
    Pending,
}

fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim_end_matches('%').parse::<f64>().ok();
    let number = number.filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| "not a percentage".to_owned())
}

/// Usage over time.
#[derive(Args, Debug)]
pub(crate) struct History {
    /// Only this resource, as a quota names it.
    pub(crate) resource: Option<String>,
    /// The history of this group, instead of that of a namespace.
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// The period [default: the last hour].
    #[command(flatten)]
    pub(crate) period: PastPeriod,
    /// The time between two points [default: a fortieth of the period].
    #[arg(long, value_name = "TIME")]
    pub(crate) step: Option<Period>,
}

/// What was consumed in a period.
#[derive(Args, Debug)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) period: PastPeriod,
    /// The subject of the rows: namespace, group, label:KEY, kind or workload.
    #[arg(long, value_name = "WHAT", default_value = "namespace")]
    pub(crate) by: By,
    /// Only this group, or only namespaces that it counts.
    #[arg(long, value_name = "NAME")]
    pub(crate) group: Option<String>,
    /// Only these resources [default: all].
    #[arg(long, value_name = "RESOURCE", value_delimiter = ',')]
    pub(crate) resource: Vec<String>,
}

/// Manifests.
#[derive(Args, Debug)]
pub(crate) struct Files {
    /// A file of YAML or JSON documents, a directory of such files, or `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
}

/// The objects or reservations to check.
#[derive(Args, Debug)]
pub(crate) struct Check {
    #[command(flatten)]
    pub(crate) files: Files,
    /// Whether the pods of a Deployment, ReplicaSet, StatefulSet, Job or CronJob are checked, too: as many as it runs at
    /// once.
    #[arg(
        long,
        value_name = "true|false",
        default_value_t = true,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "true",
        action = clap::ArgAction::Set,
        hide_possible_values = true
    )]
    pub(crate) pods: bool,
}

/// The quotas and groups to delete.
#[derive(Args, Debug)]
pub(crate) struct Delete {
    /// Delete the quotas and groups that are named in these manifests.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    #[command(subcommand)]
    pub(crate) what: Option<DeleteWhat>,
}

/// The kinds that can be deleted by name.
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
        #[arg(required_unless_present = "files")]
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
    /// The amounts to reserve.
    #[arg(long, value_name = "RESOURCE=QUANTITY,…", value_parser = amounts)]
    pub(crate) request: Option<ResourceList>,
    /// The uid of the object that the reservation is for [default: a new one, which is printed].
    #[arg(long, value_parser = uid)]
    pub(crate) uid: Option<Uid>,
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

fn uid(text: &str) -> Result<Uid, String> {
    Uid::new(text).map_err(|error| error.to_string())
}

pub(crate) fn amounts(text: &str) -> Result<ResourceList, String> {
    let mut amounts = ResourceList::new();
    for part in text.split(',') {
        let (resource, quantity) = part
            .split_once('=')
            .filter(|(resource, _)| !resource.is_empty())
            .ok_or_else(|| format!("{part:?} is not RESOURCE=QUANTITY"))?;
        let quantity = quantity.parse().map_err(|error| format!("{resource}: {error}"))?;
        if amounts.get(resource).is_some() {
            return Err(format!("{resource} is given twice"));
        }
        amounts.insert(resource.into(), quantity);
    }
    Ok(amounts)
}

/// Limits to simulate.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Simulate {
    /// Quotas and groups that hold instead of those of the same names: a file of YAML or JSON documents, a directory of
    /// such files, or `-` for standard input.
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A quota or group to leave out: `quota/NAME` or `group/NAME`.
    #[arg(long, value_name = "KIND/NAME", value_parser = named)]
    pub(crate) delete: Vec<(bool, String)>,
    /// The period [default: the last 14 days].
    #[command(flatten)]
    pub(crate) period: PastPeriod,
    /// End with 10 if anything would have been refused.
    #[arg(long)]
    pub(crate) fail_on_refusal: bool,
}

/// Limits to suggest.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Suggest {
    /// The period [default: the last 30 days].
    #[command(flatten)]
    pub(crate) period: PastPeriod,
    /// The share of time in which a suggested limit suffices, in percent; 100: all of it.
    #[arg(long, value_name = "PERCENT", default_value_t = 100.0, value_parser = percentile)]
    pub(crate) percentile: f64,
    /// What is added, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "20%", value_parser = headroom)]
    pub(crate) headroom: u32,
}

fn percentile(text: &str) -> Result<f64, String> {
    let number = text.parse().ok();
    let number = number.filter(|number| (0.0..=100.0).contains(number));
    number.ok_or_else(|| "not a number from 0 to 100".to_owned())
}

fn headroom(text: &str) -> Result<u32, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse().ok();
    let number = number.filter(|number| *number <= 1000);
    number.ok_or_else(|| "not a percentage such as 20%".to_owned())
}

/// Whether it is a group, and the name.
fn named(text: &str) -> Result<(bool, String), String> {
    match text.split_once('/') {
        Some(("quota" | "resourcequota", name)) if !name.is_empty() => Ok((false, name.to_owned())),
        Some(("group" | "clusterresourcequota", name)) if !name.is_empty() => {
            Ok((true, name.to_owned()))
        }
        _ => Err("neither quota/NAME nor group/NAME".to_owned()),
    }
}

/// A comparison of the ledger with a listing of the cluster's objects.
#[derive(Args, Debug)]
pub(crate) struct Drift {
    /// The listing: output of `kubectl get … -o json`, or one object per line; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "LISTING")]
    pub(crate) listing: PathBuf,
    /// Only objects of this resource, such as `pods` or `deployments.apps`, even if none is listed.
    #[arg(long = "resource", value_name = "RESOURCE", value_delimiter = ',')]
    pub(crate) resources: Vec<String>,
    /// The listing's resourceVersion, if it has none; newer objects do not count as gone.
    #[arg(long, value_name = "N")]
    pub(crate) resource_version: Option<u64>,
    /// Accept an empty listing.
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Correct the differences by entries of the ledger; requires `--reason`.
    #[arg(long)]
    pub(crate) correct: bool,
    /// Allow to end more than half of the objects in the ledger.
    #[arg(long, requires = "correct")]
    pub(crate) allow_ending_most: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_is_a_quota_or_a_group() {
        assert_eq!(named("quota/q"), Ok((false, "q".to_owned())));
        assert_eq!(named("group/g"), Ok((true, "g".to_owned())));
        for wrong in ["q", "quota/", "pod/x"] {
            assert!(named(wrong).is_err(), "{wrong}");
        }
    }
}
