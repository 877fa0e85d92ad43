//! Manifests, and reservations.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use quota_semantics::{Period, resource::ResourceList, uid::Uid};

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

pub(super) fn amounts(text: &str) -> Result<ResourceList, String> {
    let mut amounts = ResourceList::new();
    for part in text.split(',') {
        let (resource, quantity) = part
            .split_once('=')
            .filter(|(resource, _)| !resource.is_empty())
            .ok_or_else(|| format!("{part:?} is not RESOURCE=QUANTITY"))?;
        let quantity = quantity
            .parse()
            .map_err(|error| format!("{resource}: {error}"))?;
        if amounts.get(resource).is_some() {
            return Err(format!("{resource} is given twice"));
        }
        amounts.insert(resource.into(), quantity);
    }
    Ok(amounts)
}
