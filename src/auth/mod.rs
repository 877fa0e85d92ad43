//! Authentication of HTTP callers, and their rights.
//!
//! A caller presents a bearer token or a client certificate; the tokens file maps it to a [`Principal`], and the [route
//! table](crate::routes) states the role that each route needs. Without a tokens file every caller is `anonymous` and
//! may do everything.

mod authenticator;
mod layer;
mod principal;

#[cfg(test)]
mod tests;

pub use authenticator::{Authenticator, Error, Follower};
pub use layer::Admitted;
pub(crate) use layer::is_of_kubernetes;
pub use principal::{Access, Principal, Reader, Scope};
pub use quota_client::tokens::{Certificate, File, FileError, Issued, Pattern, Role, Token, issue};
