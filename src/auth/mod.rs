//! Who calls the HTTP API, and what they may do.
//!
//! A caller shows a bearer token or a client certificate; the tokens file says which [`Principal`] that is, and
//! [`access`] says which role each path needs. Whatever is not listed is refused. Without a tokens file everybody
//! is `anonymous` and may do everything.

pub mod access;
mod authenticator;
mod lasting;
mod layer;
mod principal;
mod refusal;
mod register;

#[cfg(test)]
mod tests;

pub use authenticator::{Authenticator, Error, Follower};
pub use layer::{Admitted, Target, guarded};
pub use principal::Principal;
pub use quota_tokens::{Certificate, File, FileError, Issued, Pattern, Role, Token, issue};
