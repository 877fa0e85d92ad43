//! The command line of `ledger`.

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
    value_parser,
};
use quota_client::tokens::Role;
use quota_ledger::replay::Until;
use quota_semantics::Period;

use super::ReportArgs;

/// Commands for a ledger on disk, without a daemon.
#[derive(Debug, Subcommand)]
pub(crate) enum Ledger {
    /// Check everything: checksums, hash chain, offsets, snapshots. Ends with 4 if something is damaged.
    Verify {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        signed: Signed,
        #[command(flatten)]
        jobs: Jobs,
    },
    /// Check a backup, and create a data directory from it.
    Restore {
        /// The backup's directory.
        backup: PathBuf,
        /// The data directory to create; it must not exist, or be empty.
        #[arg(long, value_name = "DIRECTORY")]
        data_dir: PathBuf,
        #[command(flatten)]
        signed: Signed,
        #[command(flatten)]
        jobs: Jobs,
    },
    /// Rebuild damaged epochs from an archive, a backup or a copy; damaged files are set aside.
    Repair {
        /// The data directory, which no daemon may have open.
        #[arg(long, value_name = "DIRECTORY", env = "QUOTAD_DATA_DIR", default_value = "data")]
        data_dir: PathBuf,
        /// An archive directory, a backup, or another copy of the data directory; without it, only what damaged epochs
        /// still hold themselves.
        #[arg(long, value_name = "DIRECTORY")]
        from: Option<PathBuf>,
    },
    /// Create the key pair that signs and verifies checkpoints.
    Keygen {
        /// The file of the private key; the public one goes to FILE.pub. Neither may exist.
        file: PathBuf,
        /// The ledger's name in checkpoints, such as `ledger.example.com/production`.
        #[arg(long, value_name = "NAME")]
        origin: String,
    },
    /// Fold the entries from the beginning, and print the state.
    Replay {
        #[command(flatten)]
        place: LedgerPath,
        /// The last entry to fold, by sequence or by time.
        #[arg(long, value_name = "SEQUENCE|TIME", value_parser = until)]
        until: Option<Until>,
    },
    /// Report what was consumed in a period, from the entries alone; of all namespaces unless one is given.
    Report {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        report: ReportArgs,
    },
    /// Show what other limits would have refused in the past.
    Simulate {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        limits: super::Simulate,
    },
    /// Suggest limits that fit what was taken in a period; `-o yaml` prints manifests.
    Suggest {
        #[command(flatten)]
        place: LedgerPath,
        #[command(flatten)]
        wish: super::Suggest,
    },
    /// Print entries, one JSON object per line; of all namespaces unless one is given.
    Dump {
        #[command(flatten)]
        place: LedgerPath,
        /// The first entry, by sequence.
        #[arg(long, value_name = "SEQUENCE", default_value_t = 1)]
        from: u64,
        /// The last entry, by sequence.
        #[arg(long, value_name = "SEQUENCE", default_value_t = u64::MAX, hide_default_value = true)]
        to: u64,
    },
    /// Print statistics of the ledger.
    Stat {
        #[command(flatten)]
        place: LedgerPath,
    },
    /// Write the ledger as text that others can check: batches with their hashes, and their entries.
    Export {
        /// The file to write; `-` is standard output.
        file: PathBuf,
        #[command(flatten)]
        place: LedgerPath,
    },
    /// Create a data directory from an exported ledger, checking every hash.
    Import {
        /// The file to read; `-` is standard input.
        file: PathBuf,
        /// The data directory to create; it must not exist, or be empty.
        #[arg(long, value_name = "DIRECTORY")]
        data_dir: PathBuf,
    },
}

/// Earlier statements about the ledger.
#[derive(Args, Debug)]
pub(crate) struct Signed {
    /// Signed checkpoints that the ledger has to extend.
    #[arg(long, value_name = "FILE", requires = "public_key")]
    pub(crate) checkpoint: Option<PathBuf>,
    /// The public key of their signatures.
    #[arg(long, value_name = "FILE", requires = "checkpoint")]
    pub(crate) public_key: Option<PathBuf>,
}

/// Parallelism.
#[derive(Args, Debug)]
pub(crate) struct Jobs {
    /// Threads that check bytes [default: the number of processors].
    #[arg(long, value_name = "N", value_parser = value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

impl Jobs {
    /// The number of threads.
    pub(crate) fn get(&self) -> usize {
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        self.jobs.map_or_else(processors, usize::from)
    }
}

/// The place of a ledger.
#[derive(Args, Debug)]
pub(crate) struct LedgerPath {
    /// A data directory, or an archive directory alone.
    #[arg(long, value_name = "DIRECTORY", env = "QUOTAD_DATA_DIR", default_value = "data")]
    pub(crate) data_dir: PathBuf,
    /// The archive of a data directory, with its compacted entries.
    #[arg(long, value_name = "DIRECTORY", env = "QUOTAD_RETENTION__ARCHIVE_DIR")]
    pub(crate) archive: Option<PathBuf>,
}

fn until(text: &str) -> Result<Until, String> {
    if let Ok(sequence) = text.parse() {
        return Ok(Until::Sequence(sequence));
    }
    let wrong = |_| "neither a sequence number nor an RFC 3339 time".to_owned();
    text.parse().map(Until::Time).map_err(wrong)
}

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

/// Commands for contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the contexts.
    GetContexts,
    /// Use another context from now on.
    UseContext {
        /// The name of the context.
        name: String,
    },
    /// Create or change a context, with the values of --server, --namespace, --ca, --cert, --key and --token-file.
    SetContext(SetContext),
    /// Delete a context.
    DeleteContext {
        /// The name of the context.
        name: String,
    },
    /// Show the file of contexts.
    View {
        /// Show tokens, too.
        #[arg(long)]
        raw: bool,
    },
    /// Show the name of the current context.
    CurrentContext,
}

/// A context to create or change.
#[derive(Args, Debug)]
pub(crate) struct SetContext {
    /// The name of the context.
    pub(crate) name: String,
    /// Keep the token from standard input in the file. --token-file is better: it names a file that can be renewed.
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) token_stdin: bool,
}

/// Commands for tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Create a token for the namespaces given by -n (patterns such as team-*, separated by commas) or -A, and print
    /// it.
    ///
    /// The token is printed once. The daemon needs its record, in the file auth.tokens_file.
    Create(CreateToken),
    /// List the tokens and certificates in a file.
    List {
        /// The file.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}

/// The token to create.
#[derive(Args, Debug)]
pub(crate) struct CreateToken {
    /// The owner's name, which entries record as the actor.
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// The roles of the token.
    #[arg(long, required = true, value_delimiter = ',', value_parser = roles())]
    pub(crate) role: Vec<Role>,
    /// The lifetime of the token [default: until its record is removed].
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Period>,
    /// The file to append the record to [default: print it to standard error].
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// A role.
fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::as_str)).try_map(|name| name.parse::<Role>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replay_ends_at_a_sequence_or_a_time() {
        assert_eq!(until("17"), Ok(Until::Sequence(17)));
        let time = "2026-11-20T10:00:00Z";
        assert_eq!(until(time), Ok(Until::Time(time.parse().unwrap())));
        assert!(until("yesterday").is_err());
    }
}
