//! The command line of `checkpoint`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Jobs;

/// Commands for checkpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// Check that checkpoints are signed and agree with each other, and with a ledger. Ends with 4 if they do not.
    Verify {
        /// Files of checkpoints, each in the order in which they were signed, and directories of such files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The public key of their signatures.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
        /// A data directory, or an archive, that has to extend all checkpoints.
        #[arg(long, value_name = "DIRECTORY")]
        ledger: Option<PathBuf>,
        /// The archive of the data directory, with its compacted entries.
        #[arg(long, value_name = "DIRECTORY", requires = "ledger")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        jobs: Jobs,
    },
}
