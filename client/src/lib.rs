//! The HTTP API of Quota Ledger: what the daemon and those who call it have in common.
//!
//! A type of [`wire`] stands for one thing of the API. The daemon serializes it, callers deserialize it: both follow
//! from one definition.

pub mod paths;
pub mod wire;
