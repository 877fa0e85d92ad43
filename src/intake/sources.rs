//! The sources of events, for those who depend on them.

use std::{collections::BTreeSet, time::Duration};

use quota_semantics::Name;

/// The sources of events, as the API sees them.
pub trait Sources: Send + Sync {
    /// Whether all of them have been caught up with at least once since the start. Before, nothing is granted.
    fn are_caught_up(&self) -> bool;

    /// Whether one of them is behind now.
    fn lag(&self) -> bool;

    /// Requests a relist of these kinds, or of all if there are none. None: no publisher takes requests.
    fn request_relist(&self, _kinds: BTreeSet<Name>) -> Option<RequestedRelist> {
        None
    }
}

/// Where a relist was requested.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedRelist {
    /// The clusters whose publishers get the request; none: no cluster has been seen yet, so nobody gets it.
    pub clusters: Vec<Name>,
    /// How long the request is held back, since the last one was a short while ago.
    pub wait: Duration,
}

/// Events come by HTTP only: there is nothing to lag behind.
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
