//! Intake: turns the events of sources into entries of the ledger.
//!
//! [`payload`] parses bytes as events. [`record`] turns events into entries, together with the position of their
//! source. `relist` ends the objects that a listing lacked. [`http`] and [`nats`] are the two transports.

pub mod nats;
pub mod payload;
pub mod record;

use std::{collections::BTreeSet, time::Duration};

use quota_semantics::Name;

/// The event sources as the API sees them.
pub trait Sources: Send + Sync {
    /// Whether all sources have been fully consumed at least once since the start. Nothing is granted before.
    fn are_caught_up(&self) -> bool;

    /// Whether a source lags now.
    fn lag(&self) -> bool;

    /// Requests a relist of these kinds, or of all if there are none. None if no publisher accepts requests.
    fn request_relist(&self, _kinds: BTreeSet<Name>) -> Option<RequestedRelist> {
        None
    }
}

/// The result of a requested relist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedRelist {
    /// The clusters whose publishers receive the request; empty if no cluster is recorded yet, so that no publisher
    /// receives it.
    pub clusters: Vec<Name>,
    /// How long the request is delayed, because of a recent one.
    pub wait: Duration,
}

/// Events come over HTTP only, so no source can lag.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSources;

impl Sources for NoSources {
    fn are_caught_up(&self) -> bool {
        true
    }
    fn lag(&self) -> bool {
        false
    }
}
