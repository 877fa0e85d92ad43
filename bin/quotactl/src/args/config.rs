//! The command line of `config`.

use clap::{Args, Subcommand};

/// What can be done with contexts.
#[derive(Debug, Subcommand)]
pub(crate) enum Config {
    /// Show the contexts.
    GetContexts,
    /// Use another context from now on.
    UseContext {
        /// Its name.
        name: String,
    },
    /// Make or change a context: what --server, --namespace, --ca, --cert, --key and --token-file say.
    SetContext(SetContext),
    /// Delete a context.
    DeleteContext {
        /// Its name.
        name: String,
    },
    /// Show the whole file.
    View {
        /// With the tokens that it holds.
        #[arg(long)]
        raw: bool,
    },
    /// Show which context is used.
    CurrentContext,
}

/// A context to be made or changed.
#[derive(Args, Debug)]
pub(crate) struct SetContext {
    /// Its name.
    pub(crate) name: String,
    /// Keep the token from standard input in the file. --token-file is better: it names a file that can be renewed.
    #[arg(long, conflicts_with = "token_file")]
    pub(crate) token_stdin: bool,
}
