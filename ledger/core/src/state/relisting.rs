//! Queries about relists that are not over.

use std::collections::BTreeSet;

use super::{
    End, ObservedNamespace, State,
    objects::Object,
    observed,
    relists::{Relist, Relists},
    view::ObjectView,
};
use crate::event::{RelistScope, Sequence};
use quota_semantics::{Name, Span, Timestamp, uid::Uid};

/// How long a committed object that was never observed survives its absence from a listing: the listing may have begun
/// before the object was created.
const COMMITTED_LATELY: Span = Span::from_seconds(600);

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

    /// Whether an open relist of this source replaces the record of this object, and has not reported it yet.
    #[must_use]
    pub(crate) fn is_to_be_replaced(
        &self,
        source: &Name,
        uid: &Uid,
        resource: &Name,
        namespace: &Name,
    ) -> bool {
        let is_open = |scope: &RelistScope| {
            let relist = self.relists.open.get(scope);
            relist.is_some_and(|relist| {
                let place = self.find_object(namespace, uid);
                let is_shown = place.is_some_and(|place| relist.marks.contains(place));
                relist.closed.is_none() && !is_shown
            })
        };
        let mut resets = self.relists.resets.iter();
        resets.any(|scope| {
            let is_here = scope
                .namespace
                .as_ref()
                .is_none_or(|only| only == namespace);
            scope.source == *source && scope.resource == *resource && is_here && is_open(scope)
        })
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
            .map(|(_, object)| self.key_of(object))
            .collect()
    }

    /// The namespaces that a relist has listed, or that were observed since it began.
    #[must_use]
    pub(crate) fn listed_namespaces(&self, scope: &RelistScope) -> BTreeSet<(Name, Uid)> {
        self.namespaces_in_list(scope)
            .map(key_of_namespace)
            .collect()
    }

    fn key_of(&self, object: &Object) -> (Name, Uid) {
        let namespace = &self.namespaces.get(object.namespace).name;
        (namespace.clone(), object.uid.clone())
    }

    /// Whether an open relist of this source has not reported this live object yet.
    #[must_use]
    pub(crate) fn awaits(&self, source: &Name, namespace: &Name, uid: &Uid) -> bool {
        if self.relists.is_empty() {
            return false;
        }
        let Some(place) = self.find_object(namespace, uid) else {
            return false;
        };
        let object = self.objects.get(place);
        let mut open = self.relists.open.iter();
        open.any(|(scope, relist)| {
            let is_open = scope.source == *source && relist.closed.is_none();
            is_open && !relist.marks.contains(place) && self.is_in(scope, object)
        })
    }

    /// Reads up to `most` places from `from` on, and returns the objects that a closed relist has not listed, and the
    /// next place; none: there are no more.
    #[must_use]
    pub fn unlisted(
        &self,
        scope: &RelistScope,
        from: u32,
        most: u32,
        now: Timestamp,
    ) -> (Vec<(Name, Uid)>, Option<u32>) {
        let Some(relist) = self.relists.open.get(scope) else {
            return (Vec::new(), None);
        };
        let end = from.saturating_add(most);
        let is_of_namespaces = scope.resource == *observed::RESOURCE;
        let namespaces = match is_of_namespaces {
            true => self.namespaces.slab.places(),
            false => 0,
        };
        let groups = self.group_places(scope);
        let places = self.objects.slab.places().max(namespaces).max(groups);
        let groups = (from..end.min(groups)).filter_map(|place| {
            let record = self.unlisted_group(scope, place)?;
            Some((record.name.clone(), record.uid.clone()))
        });
        let gone = (from..end.min(namespaces))
            .filter_map(|place| self.unlisted_namespace(scope, place).map(key_of_namespace));
        let unlisted = (from..end.min(places)).filter_map(|place| {
            let object = self.objects.slab.get(place)?;
            self.is_unlisted(scope, relist, place, now)
                .then(|| self.key_of(object))
        });
        (
            unlisted.chain(gone).chain(groups).collect(),
            (end < places).then_some(end),
        )
    }

    /// An object that a closed relist has not listed, and that is therefore gone.
    pub(crate) fn find_unlisted(
        &self,
        scope: &RelistScope,
        (namespace, uid): &(Name, Uid),
        now: Timestamp,
    ) -> Option<ObjectView> {
        let relist = self.relists.open.get(scope)?;
        let place = self.find_object(namespace, uid)?;
        self.is_unlisted(scope, relist, place, now)
            .then(|| self.object_view(place))
    }

    fn is_unlisted(
        &self,
        scope: &RelistScope,
        relist: &Relist,
        place: u32,
        now: Timestamp,
    ) -> bool {
        let object = self.objects.get(place);
        let Some(version) = relist.closed else {
            return false;
        };
        let is_reset = self.relists.resets.contains(scope);
        let is_newer = version > 0 && object.version > version && !is_reset;
        let namespace = &self.namespaces.get(object.namespace).name;
        let is_awaited =
            object.version == 0 && self.committed_since(namespace, &object.uid, now).is_some();
        self.is_in(scope, object) && !relist.marks.contains(place) && !is_newer && !is_awaited
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
        objects.any(|(_, object)| {
            object.version > version && object.entry < before && self.is_in(scope, object)
        })
    }

    fn is_in(&self, scope: &RelistScope, object: &Object) -> bool {
        let namespace = &self.namespaces.get(object.namespace).name;
        **self.resources.get(object.resource) == scope.resource
            && scope
                .namespace
                .as_ref()
                .is_none_or(|only| only == namespace)
    }

    /// When the holder committed an object, if that was a short while ago and no source has reported the object yet.
    /// Only the first ledgers take a committed object for observed.
    #[must_use]
    pub fn committed_lately(&self, object: &ObjectView, now: Timestamp) -> Option<Timestamp> {
        (object.version == 0).then(|| self.committed_since(&object.namespace, &object.uid, now))?
    }

    fn committed_since(&self, namespace: &str, uid: &Uid, now: Timestamp) -> Option<Timestamp> {
        let (how, time) = self.tracked(namespace, uid)?.end()?;
        (how == End::Committed && now.since(time) < COMMITTED_LATELY).then_some(time)
    }
}

fn key_of_namespace(namespace: &ObservedNamespace) -> (Name, Uid) {
    (namespace.record.name.clone(), namespace.record.uid.clone())
}
