//! Interned values with reference counts.

use std::{hash::Hash, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

use super::slab::Slab;
use crate::codec::{DecodeError, Reader, Wire, Writer};

const CHUNK: usize = 256;

/// A value and its number of references.
#[derive(Clone, Debug)]
pub(crate) struct Pooled<T> {
    value: Arc<T>,
    holders: u32,
}

impl<T> Pooled<T> {
    pub(crate) fn value(&self) -> &T {
        &self.value
    }

    pub(crate) const fn holders(&self) -> u32 {
        self.holders
    }

    pub(crate) const fn shared(&self) -> &Arc<T> {
        &self.value
    }
}

impl<T: Wire> Wire for Pooled<T> {
    fn put(&self, writer: &mut Writer) {
        self.value.put(writer);
        self.holders.put(writer);
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(Self { value: Wire::take(reader)?, holders: Wire::take(reader)? })
    }
}

/// Distinct values, each kept as long as it is referenced: replicas of one workload have the same footprint.
#[derive(Clone, Debug)]
pub(crate) struct Pool<T> {
    pub(crate) slab: Slab<Pooled<T>, CHUNK>,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl<T> Default for Pool<T> {
    fn default() -> Self {
        Self {
            slab: Slab::default(),
            index: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<T: Eq + Hash + Clone> Pool<T> {
    pub(crate) fn from_slab(slab: Slab<Pooled<T>, CHUNK>) -> Self {
        let mut pool = Self { slab, ..Self::default() };
        for (place, pooled) in pool.slab.iter() {
            let hash = pool.hasher.hash_one(&*pooled.value);
            let slab = &pool.slab;
            let rehash =
                |&place: &u32| slab.get(place).map_or(0, |p| pool.hasher.hash_one(&*p.value));
            pool.index.insert_unique(hash, place, rehash);
        }
        pool
    }

    /// Whether no value is stored twice.
    pub(crate) fn is_distinct(&self) -> bool {
        let mut all = self.slab.iter();
        all.all(|(place, pooled)| self.find(&pooled.value) == Some(place))
    }

    /// All referenced values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &T> {
        self.slab.iter().map(|(_, pooled)| &*pooled.value)
    }

    pub(crate) fn get(&self, place: u32) -> &Arc<T> {
        &self.slab.get(place).expect("a held value stays in the pool").value
    }

    /// The place of a value, if it is referenced.
    pub(crate) fn find(&self, value: &T) -> Option<u32> {
        let same =
            |&place: &u32| self.slab.get(place).is_some_and(|pooled| *pooled.value == *value);
        self.index.find(self.hasher.hash_one(value), same).copied()
    }

    /// Adds a reference to a value, which is stored if it is new.
    pub(crate) fn hold(&mut self, value: &T) -> u32 {
        let Self { slab, index, hasher } = self;
        let hash = hasher.hash_one(value);
        let same = |&place: &u32| slab.get(place).is_some_and(|pooled| *pooled.value == *value);
        if let Some(&place) = index.find(hash, same) {
            let pooled = slab.get_mut(place).expect("indexed places are full");
            pooled.holders += 1;
            return place;
        }
        let place = slab.insert(Pooled { value: Arc::new(value.clone()), holders: 1 });
        let rehash = |&place: &u32| slab.get(place).map_or(0, |p| hasher.hash_one(&*p.value));
        index.insert_unique(hash, place, rehash);
        place
    }

    /// Removes a reference to a value.
    pub(crate) fn release(&mut self, place: u32) {
        let pooled = self.slab.get_mut(place).expect("a held value stays in the pool");
        pooled.holders -= 1;
        if pooled.holders == 0 {
            let hash = self.hasher.hash_one(&*pooled.value);
            if let Ok(entry) = self.index.find_entry(hash, |&other| other == place) {
                entry.remove();
            }
            self.slab.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_once_and_as_long_as_it_is_held() {
        let mut pool = Pool::<String>::default();
        let a = pool.hold(&"a".to_owned());
        assert_eq!(pool.hold(&"a".to_owned()), a);
        let b = pool.hold(&"b".to_owned());
        assert_eq!(pool.slab.len(), 2);
        pool.release(a);
        assert_eq!(**pool.get(a), "a");
        pool.release(a);
        assert_eq!(pool.slab.len(), 1);
        assert_eq!(pool.hold(&"c".to_owned()), a);
        assert_eq!(**pool.get(b), "b");
        let again = Pool::from_slab(pool.slab.clone());
        assert!(again.index.len() == 2);
    }
}
