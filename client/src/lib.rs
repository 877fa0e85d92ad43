//! The HTTP API of Quota Ledger, as the daemon and its clients share it.
//!
//! [`wire`] has the types of requests and responses: the daemon and its clients use the same definitions. With the
//! feature `http`, [`http`] is a client of the API; `examples/admission_hook.rs` is an example. With the feature `tokens`,
//! `tokens` is the tokens file. [`exit`] has the exit codes of all programs.

pub mod exit;
pub mod server;
pub mod table;
pub mod wire;

#[cfg(feature = "http")]
pub mod http;
#[cfg(feature = "tokens")]
pub mod tokens;

// The paths that the configuration of an API server names.

/// The path of the admission webhook.
pub const ADMIT: &str = "/admit";

/// The path of the audit webhook.
pub const AUDIT: &str = "/audit";
