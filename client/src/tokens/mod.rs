//! The tokens file: the callers of the API, and their permissions. The daemon reads it, `quotactl token` writes it.

mod file;
mod rights;
mod token;

pub use file::{Certificate, File, FileError, Token};
pub use rights::{ParsePatternError, ParseRoleError, Pattern, Role};
pub use token::{Issued, NoRandomness, PresentedToken, Secret, issue, random_bytes};

/// The principal of all callers if no tokens are configured.
pub const ANONYMOUS: &str = "anonymous";
