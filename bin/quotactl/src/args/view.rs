//! The command lines of `describe`, `explain` and `history`.

use clap::{Args, Subcommand};
use quota_semantics::Period;

use super::{When, at_least_one};

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
    /// The length of the period, which ends now.
    #[arg(long, value_name = "TIME", default_value = "1h")]
    pub(crate) since: Period,
    /// The time between two points [default: a fortieth of the period].
    #[arg(long, value_name = "TIME")]
    pub(crate) step: Option<Period>,
}
