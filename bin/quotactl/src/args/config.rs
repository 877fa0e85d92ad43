//! The command line of `config`.

use clap::{Args, Subcommand};

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
