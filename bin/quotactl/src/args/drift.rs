//! The command line of `drift`.

use std::path::PathBuf;

use clap::Args;

/// A comparison of the ledger with what is there.
#[derive(Args, Debug)]
pub(crate) struct Drift {
    /// All objects that there are, as `kubectl get … -o json` lists them, or one per line; `-` is standard input.
    #[arg(short = 'f', long = "filename", value_name = "LISTING")]
    pub(crate) listing: PathBuf,
    /// Only objects of this resource, as in `pods` or `deployments.apps`, also if none is listed.
    #[arg(long = "resource", value_name = "RESOURCE", value_delimiter = ',')]
    pub(crate) resources: Vec<String>,
    /// As of which version was listed, if the listing does not say; what is newer is not taken for gone.
    #[arg(long, value_name = "N")]
    pub(crate) resource_version: Option<u64>,
    /// There may be no objects at all.
    #[arg(long)]
    pub(crate) allow_empty: bool,
    /// Put right what differs, by entries of the ledger; `--reason` says why.
    #[arg(long)]
    pub(crate) correct: bool,
    /// End even more than half of the objects that the ledger believes to be there.
    #[arg(long, requires = "correct")]
    pub(crate) allow_ending_most: bool,
}
