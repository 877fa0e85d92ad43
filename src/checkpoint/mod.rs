//! Signing checkpoints while the ledger grows, and delivering them. What a checkpoint is, `quota_checkpoint` says.
//!
//! A checkpoint that contradicts one signed before is never signed: the last one is durable in the file before it
//! leaves the daemon, and is compared with the ledger at each start.

mod delivery;
mod destination;
mod signer;
#[cfg(test)]
mod tests;

pub use destination::Destination;
pub use signer::{Settings, Signer, StartError};
