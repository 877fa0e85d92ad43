//! The command lines of `describe`, `explain` and `history`.

use clap::{Args, Subcommand};
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
    #[command(flatten)]
    pub(crate) when: When,
    /// The maximum number of objects and reservations.
    #[arg(long, value_name = "N", default_value = "50", value_parser = at_least_one)]
    pub(crate) limit: usize,
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
