//! Who calls the HTTP API, and what they may do.
//!
//! A caller shows a bearer token or a client certificate; the tokens file says which [`Principal`] that is, and
//! [`access`] says which role each path needs. Whatever is not listed is refused. Without a tokens file everybody
//! is `anonymous` and may do everything.

pub mod access;
mod authenticator;
mod file;
mod lasting;
mod layer;
mod pattern;
mod principal;
mod refusal;
mod register;
mod secret;
mod token;

#[cfg(test)]
mod tests;

pub use authenticator::{Authenticator, Error, Follower};
pub use file::{Certificate, File, FileError, Token};
pub use layer::{Admitted, Target, guarded};
pub use pattern::{ParsePatternError, Pattern};
pub use principal::{Principal, Role};
pub use secret::Secret;
pub use token::{Issued, NoRandomness, issue};
