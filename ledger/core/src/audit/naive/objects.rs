//! The objects of the naive fold.

use std::collections::BTreeMap;

use super::Key;
use crate::event::Observed;
use quota_semantics::{Name, uid::Uid};

/// All objects, by uid and namespace: a relist names uids only.
#[derive(Clone, Debug, Default)]
pub(super) struct Objects(BTreeMap<(Uid, Name), Observed>);

fn by_uid((namespace, uid): &Key) -> (Uid, Name) {
    (uid.clone(), namespace.clone())
}

impl Objects {
    pub(super) fn insert(&mut self, key: &Key, object: Observed) {
        self.0.insert(by_uid(key), object);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.0.remove(&by_uid(key));
    }

    pub(super) fn get(&self, key: &Key) -> Option<&Observed> {
        self.0.get(&by_uid(key))
    }

    pub(super) fn get_mut(&mut self, key: &Key) -> Option<&mut Observed> {
        self.0.get_mut(&by_uid(key))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &Observed> {
        self.0.values()
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut Observed> {
        self.0.values_mut()
    }

    /// The objects with this uid: at most one in each namespace.
    pub(super) fn with_uid(&self, uid: &Uid) -> impl Iterator<Item = Key> {
        let from = self.0.range((uid.clone(), Name::default())..);
        let objects = from.take_while(move |((other, _), _)| other == uid);
        objects.map(|((uid, namespace), _)| (namespace.clone(), uid.clone()))
    }
}
