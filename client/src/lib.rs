//! The HTTP API of Quota Ledger: what the daemon and those who call it have in common.
//!
//! A type of [`wire`] is one thing of the API. The daemon serializes it, callers deserialize it: both follow
//! from one definition. With the feature `http`, [`http`] calls the API; `examples/admission_hook.rs` shows how.

#[cfg(feature = "http")]
pub mod http;
pub mod paths;
pub mod server;
pub mod table;
pub mod wire;
