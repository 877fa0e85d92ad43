//! The objects of a namespace as of one moment, so that reading all of them does not block the state.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    State,
    objects::{CHUNK, Object},
    pool::Pooled,
    slab::Slab,
    view::{ObjectKey, ObjectView},
};
use quota_semantics::{Name, Timestamp, object::Footprint};

/// The number of objects between two pauses.
const STEP: usize = 1024;

/// The objects of a namespace. Taking the view copies pointers and numbers, without reading any object.
#[derive(Clone, Debug, Default)]
pub struct ObjectsView {
    namespace: Name,
    places: Vec<u32>,
    objects: Slab<Object, CHUNK>,
    resources: Slab<Pooled<Name>, 256>,
    footprints: Slab<Pooled<Footprint>, 256>,
}

impl State {
    /// The objects of a namespace as of now.
    #[must_use]
    pub fn objects_view(&self, namespace: &str) -> ObjectsView {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return ObjectsView::default();
        };
        ObjectsView {
            namespace: namespace.name.clone(),
            places: namespace.objects.clone(),
            objects: self.objects.slab.clone(),
            resources: self.resources.slab.clone(),
            footprints: self.footprints.slab.clone(),
        }
    }
}

impl ObjectsView {
    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Calls `see` for each object with its place, the name of its resource, and its footprint. `pause` is called after
    /// every thousand of them, so that other tasks get the processor.
    pub(super) fn each(
        &self,
        mut pause: impl FnMut(),
        mut see: impl FnMut(u32, &Object, &Name, &Arc<Footprint>),
    ) {
        for places in self.places.chunks(STEP) {
            for &place in places {
                if let Some((object, resource, footprint)) = self.find(place) {
                    see(place, object, resource, footprint);
                }
            }
            pause();
        }
    }

    fn find(&self, place: u32) -> Option<(&Object, &Name, &Arc<Footprint>)> {
        let object = self.objects.get(place)?;
        let resource = self.resources.get(object.resource)?.value();
        let footprint = self.footprints.get(object.footprint)?.shared();
        Some((object, resource, footprint))
    }

    /// The `limit` first objects after `after`, by resource, name and uid; `keep` filters. Reads all of them, with
    /// pauses.
    #[must_use]
    pub fn page(
        &self,
        after: Option<&ObjectKey>,
        limit: usize,
        keep: impl Fn(&str, &Footprint) -> bool,
        pause: impl FnMut(),
    ) -> Vec<ObjectView> {
        let mut first: BTreeMap<ObjectKey, u32> = BTreeMap::new();
        self.each(pause, |place, object, resource, footprint| {
            if !keep(resource, footprint) {
                return;
            }
            let key = (&**resource, object.name.as_str(), &object.uid);
            let is_before = |(r, n, u): &ObjectKey| key <= (&**r, &**n, u);
            let is_late = |(r, n, u): &ObjectKey| key > (&**r, &**n, u);
            let last = first.last_key_value().map(|(last, _)| last);
            if after.is_some_and(is_before) || (first.len() == limit && last.is_none_or(is_late)) {
                return;
            }
            let key = (resource.clone(), object.name.as_str().into(), object.uid.clone());
            first.insert(key, place);
            if first.len() > limit {
                first.pop_last();
            }
        });
        let places = first.into_values();
        places.filter_map(|place| self.view(place)).collect()
    }

    /// An object of the view.
    pub(super) fn view(&self, place: u32) -> Option<ObjectView> {
        let (object, resource, footprint) = self.find(place)?;
        Some(ObjectView {
            uid: object.uid.clone(),
            namespace: self.namespace.clone(),
            resource: resource.clone(),
            name: object.name.as_str().into(),
            version: object.version,
            entry: object.entry,
            lapse: Some(object.lapse).filter(|lapse| *lapse < Timestamp::MAX),
            footprint: footprint.clone(),
        })
    }
}
