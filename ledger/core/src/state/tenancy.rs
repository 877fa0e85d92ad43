//! The owners of reservations in an image, in a piece beside the tables of the first ledgers, by their places.

use std::sync::Arc;

use super::{deleted::Uids, namespaces::Namespaces, slab::Slab, tracked::Tracked};
use crate::codec::{DecodeError, record};
use quota_semantics::{Name, object::Footprint};

/// The content of that piece.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tenancy {
    /// The principals that made reservations.
    owners: Vec<(u32, Name)>,
    /// The footprints of commits.
    committed: Vec<(u32, Arc<Footprint>)>,
    /// The namespaces of deleted objects, in the order of the deletions; empty if none is recorded.
    deleted: Vec<Name>,
}

record!(Tenancy {
    owners,
    committed,
    deleted
});

fn astray(record: &str) -> DecodeError {
    DecodeError(format!("{record} at a free place"))
}

impl Tenancy {
    pub(crate) fn of<const CHUNK: usize>(
        reservations: &Slab<Tracked, CHUNK>,
        deleted: &Uids,
    ) -> Self {
        let owned = reservations
            .iter()
            .filter(|(_, tracked)| !tracked.owner.is_empty());
        let committed = reservations
            .iter()
            .filter_map(|(place, tracked)| Some((place, tracked.committed.clone()?)));
        let namespaces = deleted.iter().map(|(_, gone)| gone.namespace.clone());
        let is_recorded = deleted.iter().any(|(_, gone)| !gone.namespace.is_empty());
        Self {
            owners: owned
                .map(|(place, tracked)| (place, tracked.owner.clone()))
                .collect(),
            committed: committed.collect(),
            deleted: namespaces.filter(|_| is_recorded).collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.owners.is_empty() && self.committed.is_empty() && self.deleted.is_empty()
    }

    pub(crate) fn fill_reservations<const CHUNK: usize>(
        &self,
        reservations: &mut Slab<Tracked, CHUNK>,
    ) -> Result<(), DecodeError> {
        for (place, owner) in &self.owners {
            let tracked = reservations.get_mut(*place);
            tracked.ok_or_else(|| astray("the owner"))?.owner = owner.clone();
        }
        for (place, footprint) in &self.committed {
            let tracked = reservations.get_mut(*place);
            let tracked = tracked.filter(|tracked| tracked.ended.is_some());
            tracked.ok_or_else(|| astray("the commit"))?.committed = Some(footprint.clone());
        }
        Ok(())
    }

    pub(crate) fn fill_namespaces<const CHUNK: usize>(
        reservations: &Slab<Tracked, CHUNK>,
        namespaces: &mut Namespaces,
    ) {
        for (place, tracked) in reservations.iter() {
            if tracked.committed.is_some() {
                // A check finds a commit without a namespace.
                let namespace = namespaces.place(&tracked.reservation.namespace);
                if let Some(namespace) = namespace {
                    namespaces.get_mut(namespace).committed.insert(place);
                }
            }
        }
    }

    pub(crate) fn fill_deleted(&self, deleted: &mut Uids) -> Result<(), DecodeError> {
        if self.deleted.is_empty() {
            return Ok(());
        }
        let places: Vec<u32> = deleted.iter().map(|(place, _)| place).collect();
        if places.len() != self.deleted.len() {
            return Err(astray("the namespace"));
        }
        for (place, namespace) in places.into_iter().zip(&self.deleted) {
            if let Some(gone) = deleted.get_mut(place) {
                gone.namespace = namespace.clone();
            }
        }
        Ok(())
    }
}
