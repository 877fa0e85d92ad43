//! Queries about relists that are not over.

use std::collections::BTreeSet;

use super::{
    Listable, State,
    relists::{Relist, Relists},
};
use crate::event::{RelistScope, Sequence};
use quota_semantics::{Name, uid::Uid};

/// A relist that is not over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelistView {
    /// The scope.
    pub scope: RelistScope,
    /// The entry with which it began.
    pub began: Sequence,
    /// The identifier that the end has to repeat.
    pub id: Option<Name>,
    /// Whether an empty list is allowed.
    pub allow_empty: bool,
    /// Whether a message of its source was lost or not understood since it began.
    pub is_spoiled: bool,
    /// Whether all objects are listed: recorded objects that are not listed are to be ended.
    pub is_closed: bool,
    /// Whether listed objects replace recorded ones, whatever their version.
    pub resets_versions: bool,
    /// Whether anything was listed, even if it has ended since.
    pub has_any: bool,
    /// The number of listed objects that are alive.
    pub listed: u64,
    /// The number of objects that were ended because they were not listed.
    pub ended: u64,
}

impl RelistView {
    fn of(relists: &Relists, scope: &RelistScope, relist: &Relist) -> Self {
        Self {
            scope: scope.clone(),
            began: relist.began,
            id: relist.id.clone(),
            allow_empty: relist.allow_empty,
            is_spoiled: relist.spoiled,
            is_closed: relist.closed.is_some(),
            resets_versions: relists.resets.contains(scope),
            has_any: relist.any,
            listed: relist.marks.len(),
            ended: relist.ended,
        }
    }
}

impl State {
    /// The number of relists that are not over.
    #[must_use]
    pub fn relist_count(&self) -> usize {
        self.relists.open.len()
    }

    /// The relists that are not over, by scope.
    pub fn relists(&self) -> impl Iterator<Item = RelistView> {
        let open = self.relists.open.iter();
        open.map(|(scope, relist)| self.relist_view(scope, relist))
    }

    fn relist_view(&self, scope: &RelistScope, relist: &Relist) -> RelistView {
        let mut view = RelistView::of(&self.relists, scope, relist);
        view.listed += self.namespaces_in_list(scope).count() as u64;
        view
    }

    /// A relist that is not over.
    #[must_use]
    pub fn relist(&self, scope: &RelistScope) -> Option<RelistView> {
        let relist = self.relists.open.get(scope)?;
        Some(self.relist_view(scope, relist))
    }

    /// The scopes whose versions went back, and of which no relist has completed since.
    #[must_use]
    pub const fn version_resets(&self) -> &BTreeSet<RelistScope> {
        &self.relists.resets
    }

    /// A relist that is closed and still has to be finished.
    #[must_use]
    pub fn closed_relist(&self) -> Option<RelistView> {
        self.relists().find(|relist| relist.is_closed)
    }

    /// The objects that a relist has listed.
    #[must_use]
    pub(crate) fn listed_objects(&self, scope: &RelistScope) -> BTreeSet<(Name, Uid)> {
        let relist = self.relists.open.get(scope);
        let marked =
            |place: u32| relist.is_some_and(|relist: &Relist| relist.marks.contains(place));
        let objects = self.objects.slab.iter();
        objects
            .filter(|(place, _)| marked(*place))
            .map(|(place, _)| self.key_of(Listable::Object(place)))
            .map(|(namespace, uid)| (namespace.clone(), uid.clone()))
            .collect()
    }

    /// The namespaces that a relist has listed, or that were observed since it began.
    #[must_use]
    pub(crate) fn listed_namespaces(&self, scope: &RelistScope) -> BTreeSet<(Name, Uid)> {
        self.namespaces_in_list(scope)
            .map(|observed| (observed.record.name.clone(), observed.record.uid.clone()))
            .collect()
    }

    /// Whether an object of this scope, last changed before an entry, has a later version. Looks at all objects.
    #[must_use]
    pub(crate) fn has_later_objects(
        &self,
        scope: &RelistScope,
        before: Sequence,
        version: u64,
    ) -> bool {
        let mut objects = self.objects.slab.iter();
        objects.any(|(place, object)| {
            // Few objects are both, so the names are not looked up for the others.
            object.version > version && object.entry < before && {
                let (resource, namespace) = self.target_of(Listable::Object(place));
                scope.covers(resource, namespace)
            }
        })
    }
}
