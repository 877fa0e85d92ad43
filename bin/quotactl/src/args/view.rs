//! What is shown otherwise than as a list.

use clap::{Args, Subcommand};
use quota_semantics::{Period, Timestamp};

use super::at_least_one;

/// What can be shown in detail.
#[derive(Debug, Subcommand)]
pub(crate) enum Describe {
    /// Quotas: scopes, and for each resource what is used, reserved and allowed.
    #[command(visible_alias = "quotas", aliases = ["resourcequota", "resourcequotas"])]
    Quota {
        /// Only this one.
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
        uid: String,
    },
    /// A namespace: its limits, pending reservations, what was denied lately.
    #[command(visible_alias = "ns", alias = "namespaces")]
    Namespace {
        /// Its name [default: that of `--namespace`].
        name: Option<String>,
    },
}

/// A number, and what makes it.
#[derive(Args, Debug)]
pub(crate) struct Explain {
    /// The resource, as a quota names it: `requests.cpu`, `pods`.
    pub(crate) resource: String,
    /// Only what this quota counts.
    #[arg(long, value_name = "NAME")]
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
