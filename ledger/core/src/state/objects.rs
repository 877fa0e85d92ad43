//! The objects that are alive.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hasher};

use hashbrown::{DefaultHashBuilder, HashTable, hash_table::Entry};

use super::{deleted::Deleted, label::Label, places::make_room, slab::Slab};
use crate::{codec::record, event::Sequence};
use quota_semantics::{Timestamp, uid::Uid};

pub(crate) const CHUNK: usize = 256;

/// An object that is alive. There may be ten million: keep it small.
#[derive(Clone, Debug)]
pub(crate) struct Object {
    pub(crate) uid: Uid,
    pub(crate) name: Label,
    pub(crate) version: u64,
    /// The entry that last changed it.
    pub(crate) entry: Sequence,
    /// When it stops counting without an event; [`Timestamp::MAX`]: never.
    pub(crate) lapse: Timestamp,
    /// Places in the state's tables.
    pub(crate) namespace: u32,
    pub(crate) resource: u32,
    pub(crate) footprint: u32,
    /// Its position in the list of its namespace.
    pub(crate) position: u32,
}

record!(Object { uid, name, version, entry, lapse, namespace, resource, footprint, position });

impl Object {
    fn hash_of_name(&self, hasher: &DefaultHashBuilder) -> u64 {
        hash_of_name(hasher, self.namespace, self.resource, self.name.as_bytes())
    }
}

fn hash_of_name(hasher: &DefaultHashBuilder, namespace: u32, resource: u32, name: &[u8]) -> u64 {
    let mut hasher = hasher.build_hasher();
    hasher.write_u32(namespace);
    hasher.write_u32(resource);
    hasher.write(name);
    hasher.finish()
}

/// All objects, by place, uid and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Objects {
    pub(crate) slab: Slab<Object, CHUNK>,
    by_uid: HashTable<u32>,
    by_name: HashTable<u32>,
    pub(super) lapses: BTreeSet<(Timestamp, u32)>,
    /// The number of objects whose uid another object in another namespace has as well.
    pub(super) collisions: usize,
    pub(crate) deleted: Deleted,
    hasher: DefaultHashBuilder,
}

impl Objects {
    pub(crate) fn from_parts(slab: Slab<Object, CHUNK>, deleted: Deleted) -> Self {
        let mut objects = Self { deleted, ..Self::default() };
        objects.by_uid.reserve(slab.len() as usize, |_| 0);
        objects.by_name.reserve(slab.len() as usize, |_| 0);
        objects.slab = slab;
        for place in 0..objects.slab.places() {
            if objects.slab.get(place).is_some() {
                objects.index(place);
            }
        }
        objects
    }

    pub(crate) fn get(&self, place: u32) -> &Object {
        self.slab.get(place).expect("an object that is listed is alive")
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Object {
        self.slab.get_mut(place).expect("an object that is listed is alive")
    }

    /// The objects with this uid, each in another namespace.
    pub(crate) fn all_with(&self, uid: &Uid) -> impl Iterator<Item = u32> {
        let places = self.by_uid.iter_hash(self.hasher.hash_one(uid)).copied();
        places.filter(move |&place| self.get(place).uid == *uid)
    }

    /// The object of this name that changed last, by the places of its namespace and resource. There are several while
    /// the end of an earlier one is not known.
    pub(crate) fn find_name(&self, namespace: u32, resource: u32, name: &[u8]) -> Option<u32> {
        let hash = hash_of_name(&self.hasher, namespace, resource, name);
        let places = self.by_name.iter_hash(hash).copied();
        let same = places.filter(|&place| {
            let object = self.get(place);
            object.namespace == namespace
                && object.resource == resource
                && object.name.as_bytes() == name
        });
        same.max_by_key(|&place| (self.get(place).entry, place))
    }

    pub(crate) fn insert(&mut self, object: Object) -> u32 {
        let place = self.slab.insert(object);
        self.index(place);
        place
    }

    fn index(&mut self, place: u32) {
        let Self { slab, by_uid, by_name, lapses, collisions, hasher, .. } = self;
        let object = slab.get(place).expect("just stored");
        let uid_of = |object: &Object| hasher.hash_one(&object.uid);
        let name_of = |object: &Object| object.hash_of_name(hasher);
        let uid_at = |place: u32| slab.get(place).map_or(0, uid_of);
        let name_at = |place: u32| slab.get(place).map_or(0, name_of);
        let (uid_hash, name_hash) = (uid_of(object), name_of(object));
        let is_same_uid = |&other: &u32| slab.get(other).is_some_and(|it| it.uid == object.uid);
        make_room(by_uid, uid_at);
        make_room(by_name, name_at);
        match by_uid.entry(uid_hash, is_same_uid, |&place| uid_at(place)) {
            Entry::Vacant(vacant) => {
                vacant.insert(place);
            }
            Entry::Occupied(_) => {
                *collisions += 1;
                by_uid.insert_unique(uid_hash, place, |&place| uid_at(place));
            }
        }
        by_name.insert_unique(name_hash, place, |&place| name_at(place));
        if object.lapse < Timestamp::MAX {
            lapses.insert((object.lapse, place));
        }
    }

    fn unindex_name(&mut self, place: u32) {
        let object = self.slab.get(place).expect("still stored");
        let hash = object.hash_of_name(&self.hasher);
        if let Ok(entry) = self.by_name.find_entry(hash, |&other| other == place) {
            entry.remove();
        }
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<Object> {
        let object = self.slab.get(place)?;
        let hash = self.hasher.hash_one(&object.uid);
        if object.lapse < Timestamp::MAX {
            self.lapses.remove(&(object.lapse, place));
        }
        if let Ok(entry) = self.by_uid.find_entry(hash, |&other| other == place) {
            entry.remove();
        }
        self.unindex_name(place);
        let removed = self.slab.remove(place)?;
        if self.collisions > 0 {
            let collided = self.all_with(&removed.uid).next().is_some();
            self.collisions -= usize::from(collided);
        }
        Some(removed)
    }

    pub(crate) fn set_lapse(&mut self, place: u32, lapse: Timestamp) {
        let object = self.get_mut(place);
        let before = std::mem::replace(&mut object.lapse, lapse);
        if before == lapse {
            return;
        }
        self.lapses.remove(&(before, place));
        if lapse < Timestamp::MAX {
            self.lapses.insert((lapse, place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_small() {
        assert_eq!(Slab::<Object, CHUNK>::SLOT_BYTES, 96);
    }
}
