//! The command line of `checkpoint`.

use std::path::PathBuf;

use clap::Subcommand;

use super::Jobs;

/// What can be done with checkpoints.
#[derive(Debug, Subcommand)]
pub(crate) enum Checkpoint {
    /// Check that checkpoints are signed and agree with each other, and with a ledger. Ends with 4 if they do not.
    Verify {
        /// Files of checkpoints, each in the order in which they were signed, and directories of such files.
        #[arg(required = true, value_name = "FILE")]
        files: Vec<PathBuf>,
        /// The key that they have to be signed by.
        #[arg(long, value_name = "FILE")]
        public_key: PathBuf,
        /// A data directory, or an archive, that has to extend all of them.
        #[arg(long, value_name = "DIRECTORY")]
        ledger: Option<PathBuf>,
        /// The archive of the data directory, for what was compacted away.
        #[arg(long, value_name = "DIRECTORY", requires = "ledger")]
        archive: Option<PathBuf>,
        #[command(flatten)]
        jobs: Jobs,
    },
}
