//! The chain of a namespace: the groups that count anything in it.

use std::sync::Arc;

/// A group that counts objects of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) group: u32,
    /// If it does not count all objects: the groups that choose those that it counts, itself or below it.
    pub(crate) partial: Option<Vec<u32>>,
    /// How far it is above the nearest group that selects the namespace by itself.
    pub(crate) distance: usize,
}

impl Link {
    /// Whether this is the same group, and counts the same objects.
    pub(crate) fn counts_as(&self, other: &Self) -> bool {
        self.group == other.group && self.partial == other.partial
    }
}

/// The groups that count objects of a namespace, children before their parents.
pub(crate) type Chain = Arc<[Link]>;
