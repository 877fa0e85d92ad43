//! The objects of the naive fold.

use std::collections::{BTreeMap, BTreeSet};

use super::Key;
use crate::event::Observed;
use quota_semantics::{Name, uid::Uid};

/// All objects, by namespace and uid. A relist names uids only.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects {
    all: BTreeMap<Key, Observed>,
    /// The namespaces of each uid.
    namespaces: BTreeMap<Uid, BTreeSet<Name>>,
}

impl Objects {
    pub(super) fn insert(&mut self, key: Key, object: Observed) {
        let namespaces = self.namespaces.entry(key.1.clone()).or_default();
        namespaces.insert(key.0.clone());
        self.all.insert(key, object);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.all.remove(key);
        if let Some(namespaces) = self.namespaces.get_mut(&key.1) {
            namespaces.remove(&key.0);
            if namespaces.is_empty() {
                self.namespaces.remove(&key.1);
            }
        }
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Observed> {
        self.all.get(key)
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Observed> {
        self.all.get_mut(key)
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Key, &Observed)> {
        self.all.iter()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Observed> {
        self.all.values_mut()
    }

    /// The objects with this uid: at most one in each namespace.
    pub(super) fn with_uid(&self, uid: &Uid) -> impl Iterator<Item = Key> {
        let namespaces = self.namespaces.get(uid).into_iter().flatten();
        namespaces.map(|namespace| (namespace.clone(), uid.clone()))
    }
}
