//! What tests and benches of several subjects have in common: [`histories`] of a ledger, [`simulation`]s, and, with the
//! feature `processes`, daemons, servers and faults as processes of their own.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::should_implement_trait,
    reason = "it is for tests, which fail by panicking"
)]

pub mod histories;
#[cfg(feature = "processes")]
mod processes;
pub mod simulation;

#[cfg(feature = "processes")]
pub use processes::*;
