//! Several replicas of one ledger: the [`protocol`] by which they agree on its log, and the log itself, on NATS
//! [`jetstream`].

#[allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "the walls of this directory are for the protocol, which takes time and replies; this carries it out"
)]
pub mod jetstream;
pub mod protocol;
