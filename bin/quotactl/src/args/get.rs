//! The command line of `get`.

use clap::{Args, Subcommand};
use quota_semantics::Timestamp;

use super::at_least_one;
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
    Quota {
        /// Only this one.
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
        /// Only those whose labels match, as in `team=a,tier!=test,env in (x, y),!old`.
        #[arg(short = 'l', long, value_name = "LABELS", conflicts_with = "name")]
        selector: Option<String>,
    },
    /// Reservations: the pending ones, or one in any state.
    #[command(visible_alias = "reservation")]
    Reservations {
        /// Only the one for the object with this uid.
        uid: Option<String>,
    },
    /// Usage: used, reserved and available amounts.
    Usage {
        /// Usage at this time.
        #[arg(long, value_name = "TIME", conflicts_with = "sequence")]
        at: Option<Timestamp>,
        /// Usage at this entry.
        #[arg(long, value_name = "N")]
        sequence: Option<u64>,
        /// Also resources without a limit.
        #[arg(long)]
        all: bool,
    },
    /// The counted objects.
    #[command(alias = "object")]
    Objects {
        /// Only objects of this resource, such as `pods` or `deployments.apps`.
        resource: Option<String>,
        /// The maximum number of results.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
    /// Ledger entries, in order; of all namespaces unless one is given.
    #[command(alias = "entry")]
    Entries(Range),
    /// Rejected events.
    #[command(alias = "dead-letter")]
    DeadLetters {
        /// The maximum number of results.
        #[arg(long, value_name = "N", value_parser = at_least_one)]
        limit: Option<usize>,
    },
}

/// A part of the ledger.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Range {
    /// The sequence of the first entry [default: the first in the ledger].
    #[arg(long, value_name = "SEQUENCE")]
    pub(crate) from: Option<u64>,
    /// The maximum number of results.
    #[arg(long, value_name = "N", default_value = "100", value_parser = at_least_one)]
    pub(crate) limit: usize,
    /// Only this many of the last entries.
    #[arg(long, value_name = "N", value_parser = at_least_one, conflicts_with_all = ["from", "limit"])]
    pub(crate) tail: Option<usize>,
}
