//! Queries about objects.

use crate::state::{
    State,
    objects::Object,
    view::{ObjectKey, ObjectView},
};
use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};

/// A live object as it is recorded.
pub(crate) struct Recorded<'a> {
    pub(crate) version: u64,
    pub(crate) resource: &'a Name,
    pub(crate) name: &'a str,
    /// When it stops counting without an event.
    pub(crate) lapse: Option<Timestamp>,
    pub(crate) footprint: &'a Footprint,
}

impl State {
    /// Objects that lapsed before `now`, and so cease to count without an event, soonest first; a pod counts until its
    /// limit has passed.
    pub(crate) fn lapsed(&self, now: Timestamp) -> impl Iterator<Item = ObjectView> {
        let lapses = self.objects.lapses.iter();
        let lapsed = lapses.take_while(move |(at, _)| *at < now);
        lapsed.map(|&(_, place)| self.object_view(place))
    }

    /// When the next object ceases to count without an event.
    #[must_use]
    pub fn next_lapse(&self) -> Option<Timestamp> {
        self.objects.lapses.first().map(|&(at, _)| at)
    }

    /// A live object.
    #[must_use]
    pub fn object(&self, namespace: &str, uid: &Uid) -> Option<ObjectView> {
        let place = self.find_object(namespace, uid)?;
        Some(self.object_view(place))
    }

    /// The same without a copy.
    pub(crate) fn recorded(&self, namespace: &str, uid: &Uid) -> Option<Recorded<'_>> {
        let object = self.objects.get(self.find_object(namespace, uid)?);
        Some(Recorded {
            version: object.version,
            resource: self.resources.get(object.resource),
            name: object.name.as_str(),
            lapse: Some(object.lapse).filter(|lapse| *lapse < Timestamp::MAX),
            footprint: self.footprints.get(object.footprint),
        })
    }

    /// The objects with this uid, each in another namespace.
    pub(crate) fn objects_with(&self, uid: &Uid) -> impl Iterator<Item = ObjectView> {
        let places = self.objects.all_with(uid);
        places.map(|place| self.object_view(place))
    }

    /// The live object of this name.
    #[must_use]
    pub fn object_named(&self, namespace: &str, resource: &str, name: &str) -> Option<ObjectView> {
        let namespace = self.namespaces.place(namespace)?;
        let resource = self.resources.find(&Name::from(resource))?;
        self.objects
            .find_name(namespace, resource, name.as_bytes())
            .map(|place| self.object_view(place))
    }

    /// Whether the deletion of this object was observed, as far as deletions are remembered.
    #[must_use]
    pub(crate) fn is_deleted(&self, namespace: &str, uid: &Uid) -> bool {
        self.objects.deleted.contains(namespace, uid)
    }

    /// The `limit` first objects of a namespace after `after`, by resource, name and uid; `keep` filters.
    #[must_use]
    pub fn objects(
        &self,
        namespace: &str,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: impl Fn(&str, &Footprint) -> bool,
    ) -> Vec<ObjectView> {
        let view = self.objects_view(namespace);
        view.page(after, limit, keep, || ())
    }

    /// Reads up to `most` places from `from` on, and returns at most `limit` objects that `keep` accepts, and the next
    /// place; none: there are no more. A live object never changes its place.
    #[must_use]
    pub fn objects_from(
        &self,
        from: u32,
        most: u32,
        limit: usize,
        keep: impl Fn(&str, &Name) -> bool,
    ) -> (Vec<ObjectView>, Option<u32>) {
        let places = self.objects.slab.places();
        let end = from.saturating_add(most).min(places);
        let mut found = Vec::new();
        for place in from..end {
            if found.len() == limit {
                return (found, Some(place));
            }
            let object = self.objects.slab.get(place);
            let is_kept = |object: &Object| {
                let namespace = &self.namespaces.get(object.namespace).name;
                keep(self.resources.get(object.resource), namespace)
            };
            if object.is_some_and(is_kept) {
                found.push(self.object_view(place));
            }
        }
        (found, (end < places).then_some(end))
    }

    /// The object at a place.
    pub(crate) fn object_view(&self, place: u32) -> ObjectView {
        let object = self.objects.get(place);
        ObjectView {
            uid: object.uid.clone(),
            namespace: self.namespaces.get(object.namespace).name.clone(),
            resource: (**self.resources.get(object.resource)).clone(),
            name: object.name.as_str().into(),
            version: object.version,
            entry: object.entry,
            lapse: Some(object.lapse).filter(|lapse| *lapse < Timestamp::MAX),
            footprint: self.footprints.get(object.footprint).clone(),
        }
    }
}
