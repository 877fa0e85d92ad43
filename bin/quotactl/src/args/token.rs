//! The command line of `token`.

use std::path::PathBuf;

use clap::{
    Args, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser},
};

use quota_client::tokens::Role;
use quota_semantics::Period;

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
