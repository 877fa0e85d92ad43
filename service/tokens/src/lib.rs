//! The tokens file: which callers of the API there are, and what they may do. The daemon reads it, `quotactl token`
//! writes it.

mod file;
mod issue;
mod pattern;
mod role;
mod secret;
mod token;

pub use file::{Certificate, File, FileError, Token};
pub use issue::{Issued, NoRandomness, issue};
pub use pattern::{ParsePatternError, Pattern};
pub use role::{ParseRoleError, Role};
pub use secret::Secret;
pub use token::PresentedToken;

/// The name of whoever calls while nobody needs a token.
pub const ANONYMOUS: &str = "anonymous";
