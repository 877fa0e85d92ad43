//! The command lines of `describe`, `explain` and `history`.

use clap::{Args, Subcommand, ValueEnum};
use quota_semantics::Period;

use quota_core::time::report::By;

use super::{PastPeriod, When, at_least_one};

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
