//! What relists list: objects, namespaces and groups. The same rules hold for all of them.

use std::sync::Arc;

use super::{State, groups, namespaces::ObservedNamespace, observed, relists::Relist};
use crate::event::{GroupRecord, RelistScope};
use quota_semantics::{Name, group::manifest, uid::Uid};

/// Something recorded that relists list.
#[derive(Clone, Copy)]
pub(crate) enum Listable<'s> {
    /// The object at this place.
    Object(u32),
    /// An observed namespace.
    Namespace(&'s ObservedNamespace),
    /// A group, and its place.
    Group(u32, &'s Arc<GroupRecord>),
}

/// The resource and the namespace of an item: a relist whose scope covers both lists the item. Groups have no namespace,
/// so a relist of one namespace does not list them. A namespace counts as in the namespace of its own name.
pub(crate) type RelistTarget<'s> = (&'s str, Option<&'s str>);

/// The target of a namespace.
pub(crate) fn target_of_namespace(name: &str) -> RelistTarget<'_> {
    (observed::RESOURCE, Some(name))
}

/// The target of every group.
pub(crate) const TARGET_OF_GROUPS: RelistTarget<'static> = (manifest::RESOURCE, None);

impl Listable<'_> {
    fn is_listed_in(self, relist: &Relist) -> bool {
        match self {
            Self::Object(place) => relist.marks.contains(place),
            Self::Namespace(observed) => observed.seen >= relist.began,
            Self::Group(place, _) => relist.marks.contains(groups::mark(place)),
        }
    }
}

impl State {
    /// The object of a namespace and a uid.
    pub(crate) fn listable_object(&self, namespace: &str, uid: &Uid) -> Option<Listable<'_>> {
        self.find_object(namespace, uid).map(Listable::Object)
    }

    /// The namespace of a name.
    pub(crate) fn listable_namespace(&self, name: &str) -> Option<Listable<'_>> {
        self.observed_namespace(name).map(Listable::Namespace)
    }

    /// The group of a name.
    pub(crate) fn listable_group(&self, name: &str) -> Option<Listable<'_>> {
        let &place = self.groups.by_name.get(name)?;
        Some(Listable::Group(place, &self.groups.get(place).record))
    }

    fn listables_at(&self, place: u32) -> impl Iterator<Item = Listable<'_>> {
        let object = self.objects.slab.get(place);
        let object = object.map(|_| Listable::Object(place));
        let namespace = self.namespaces.slab.get(place);
        let namespace = namespace.and_then(|namespace| namespace.observed.as_ref());
        let namespace = namespace.map(Listable::Namespace);
        let group = self.groups.slab.get(place);
        let group = group.map(|group| Listable::Group(place, &group.record));
        [object, namespace, group].into_iter().flatten()
    }

    pub(super) fn target_of<'s>(&'s self, item: Listable<'s>) -> RelistTarget<'s> {
        match item {
            Listable::Object(place) => {
                let object = self.objects.get(place);
                let namespace = self.namespaces.get(object.namespace);
                let resource = self.resources.get(object.resource);
                (resource.as_str(), Some(namespace.name.as_str()))
            }
            Listable::Namespace(observed) => target_of_namespace(&observed.record.name),
            Listable::Group(..) => TARGET_OF_GROUPS,
        }
    }

    /// The name by which an item is found among those to be ended (for an object that of its namespace), and its uid.
    pub(super) fn key_of<'s>(&'s self, item: Listable<'s>) -> (&'s Name, &'s Uid) {
        match item {
            Listable::Object(place) => {
                let object = self.objects.get(place);
                (&self.namespaces.get(object.namespace).name, &object.uid)
            }
            Listable::Namespace(observed) => (&observed.record.name, &observed.record.uid),
            Listable::Group(_, record) => (&record.name, &record.uid),
        }
    }

    /// The version in which a source has reported an item (0: unknown); none: no source has reported it.
    fn version_of(&self, item: Listable<'_>) -> Option<u64> {
        match item {
            Listable::Object(place) => Some(self.objects.get(place).version),
            Listable::Namespace(observed) => Some(observed.record.version),
            Listable::Group(_, record) => record.adopted_version(),
        }
    }

    /// The open relists of a source that list items of this kind, and have not reported this item yet.
    fn relists_without<'s>(
        &'s self,
        source: &'s Name,
        (resource, namespace): RelistTarget<'s>,
        item: Option<Listable<'s>>,
    ) -> impl Iterator<Item = &'s RelistScope> {
        let open = self.relists.open.iter();
        let is_waiting = move |(scope, relist): &(&RelistScope, &Relist)| {
            scope.source == *source
                && relist.closed.is_none()
                && scope.covers(resource, namespace)
                && !item.is_some_and(|item| item.is_listed_in(relist))
        };
        open.filter(is_waiting).map(|(scope, _)| scope)
    }

    /// Whether an open relist of this source has not reported this item yet.
    #[must_use]
    pub(crate) fn awaits(&self, source: &Name, item: Listable<'_>) -> bool {
        let mut waiting = self.relists_without(source, self.target_of(item), Some(item));
        waiting.next().is_some()
    }

    /// Whether an open relist of this source replaces the record of this item, and has not reported it yet.
    #[must_use]
    pub(crate) fn is_to_be_replaced(
        &self,
        source: &Name,
        kind: RelistTarget<'_>,
        item: Option<Listable<'_>>,
    ) -> bool {
        let mut waiting = self.relists_without(source, kind, item);
        waiting.any(|scope| self.relists.resets.contains(scope))
    }

    /// Reads up to `most` places from `from` on, and returns the objects, namespaces and groups that a closed relist has
    /// not listed, and the next place; none: there are no more.
    #[must_use]
    pub fn unlisted(
        &self,
        scope: &RelistScope,
        from: u32,
        most: u32,
    ) -> (Vec<(Name, Uid)>, Option<u32>) {
        let Some(relist) = self.relists.open.get(scope) else {
            return (Vec::new(), None);
        };
        let of_groups = self.groups.slab.places();
        let places = self.objects.slab.places();
        let places = places.max(self.namespaces.slab.places()).max(of_groups);
        let end = from.saturating_add(most);
        let unlisted = (from..end.min(places))
            .flat_map(|place| self.listables_at(place))
            .filter(|item| self.is_unlisted(scope, relist, *item))
            .map(|item| {
                let (name, uid) = self.key_of(item);
                (name.clone(), uid.clone())
            });
        (unlisted.collect(), (end < places).then_some(end))
    }

    /// What a closed relist has not listed under this key, and is therefore gone.
    pub(crate) fn find_unlisted<'s>(
        &'s self,
        scope: &'s RelistScope,
        (name, uid): &'s (Name, Uid),
    ) -> impl Iterator<Item = Listable<'s>> {
        let items = [
            self.listable_object(name, uid),
            self.listable_namespace(name),
            self.listable_group(name),
        ];
        let relist = self.relists.open.get(scope);
        items.into_iter().flatten().filter(move |item| {
            self.key_of(*item).1 == uid
                && relist.is_some_and(|relist| self.is_unlisted(scope, relist, *item))
        })
    }

    /// Whether a relist shows that an item is gone. The version of a group is read from its metadata, so it comes after the
    /// cheaper tests.
    fn is_unlisted(&self, scope: &RelistScope, relist: &Relist, item: Listable<'_>) -> bool {
        let Some(closed) = relist.closed else {
            return false;
        };
        let is_newer =
            |version| closed > 0 && version > closed && !self.relists.resets.contains(scope);
        let (resource, namespace) = self.target_of(item);
        scope.covers(resource, namespace)
            && !item.is_listed_in(relist)
            && self.version_of(item).is_some_and(|version| !is_newer(version))
    }
}
