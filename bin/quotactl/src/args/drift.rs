//! The command line of `drift`.

use std::path::PathBuf;

use clap::Args;

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
