//! Signs checkpoints while the ledger grows, and delivers them. `quota_journal::checkpoint` defines checkpoints.
//!
//! A checkpoint that contradicts an earlier signed one is never signed: the last checkpoint is durable in the file
//! before it leaves the daemon, and each start compares it with the ledger: in a cluster as soon as the replica has its
//! entry.

mod delivery;
mod signer;
#[cfg(test)]
mod tests;

pub(crate) use delivery::Destination;
pub(crate) use signer::Signer;
