//! The group path of a namespace: the groups that count objects in it.

use std::sync::Arc;

/// A group that counts objects of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    pub(crate) group: u32,
    /// If the group does not count all objects: the groups whose selectors choose the counted ones, itself or
    /// descendants.
    pub(crate) partial: Option<Vec<u32>>,
    /// The distance to the nearest descendant (or the group itself) whose own selector matches the namespace.
    pub(crate) distance: usize,
}

impl Link {
    /// Whether this is the same group with the same choice of objects.
    pub(crate) fn counts_as(&self, other: &Self) -> bool {
        self.group == other.group && self.partial == other.partial
    }
}

/// The groups that count objects of a namespace, children before their parents.
pub(crate) type GroupPath = Arc<[Link]>;
