//! The command line of `token`.

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};

use quota_semantics::Period;
use quota_tokens::Role;

/// What can be done with the tokens of a daemon.
#[derive(Debug, Subcommand)]
pub(crate) enum Token {
    /// Make a token for the namespaces given by -n (patterns as team-*, separated by commas) or -A, and print it.
    ///
    /// It is printed once. The daemon needs the record of it, in the file that auth.tokens_file names.
    Create(CreateToken),
    /// Show whose tokens and certificates a file holds.
    List {
        /// The file.
        #[arg(long, value_name = "FILE")]
        file: PathBuf,
    },
}

/// A token to be made.
#[derive(Args, Debug)]
pub(crate) struct CreateToken {
    /// Whose it is, as entries name the actor.
    #[arg(long, value_name = "NAME")]
    pub(crate) principal: String,
    /// What may be done with it.
    #[arg(long, required = true, value_delimiter = ',', value_parser = roles())]
    pub(crate) role: Vec<Role>,
    /// How long it is good for; without it, until its record is removed.
    #[arg(long, value_name = "TIME")]
    pub(crate) expires: Option<Period>,
    /// The file to append the record to; without it, the record is printed to standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
}

/// One of the roles; which there are, the help says.
fn roles() -> impl TypedValueParser<Value = Role> {
    PossibleValuesParser::new(Role::ALL.map(Role::as_str)).try_map(|name| name.parse::<Role>())
}
