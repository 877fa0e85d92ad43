//! The tokens file: the callers of the API, and their permissions. The daemon reads it, `quotactl token` writes it.

mod file;
mod issue;
mod pattern;
mod role;
mod secret;
mod token;

pub use file::{Certificate, File, FileError, Token};
pub use issue::{Issued, NoRandomness, issue, random_bytes};
pub use pattern::{ParsePatternError, Pattern};
pub use role::{ParseRoleError, Role};
pub use secret::Secret;
pub use token::PresentedToken;

/// The principal of all callers if no tokens are configured.
pub const ANONYMOUS: &str = "anonymous";
