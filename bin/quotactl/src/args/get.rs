//! The command line of `get`.

use clap::{Args, Subcommand};
use quota_client::http::Address;

use super::{Beginning, Moment, at_least_one};
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
    pub(crate) fn of(self, address: Address) -> Address {
        let address = address.with_some("at", self.at.map(|Moment(at)| at));
        address.with_some("sequence", self.sequence)
    }

    pub(crate) const fn is_now(self) -> bool {
        self.at.is_none() && self.sequence.is_none()
    }
}
