//! Recently deleted objects, so that a late event cannot bring one back.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ring::Ring;
use crate::codec::record;
use quota_semantics::{Name, uid::Uid};

/// Most deleted objects that are remembered. Part of the fold, and so of the format: with another number, a ledger would
/// fold to another state.
const DELETED_MAX: u32 = 1 << 17;

/// A deleted object.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub(crate) uid: Uid,
    pub(crate) namespace: Name,
}

record!(Gone { namespace, uid });

impl Gone {
    fn is(&self, namespace: &str, uid: &Uid) -> bool {
        self.uid == *uid && self.namespace == *namespace
    }
}

/// In the order of the deletions.
pub(crate) type Uids = Ring<Gone, DELETED_MAX>;

/// In the order of the deletions, and by uid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deleted {
    uids: Uids,
    index: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

impl Deleted {
    pub(crate) fn from_uids(uids: Uids) -> Self {
        let mut deleted = Self {
            uids,
            ..Self::default()
        };
        let places = deleted.uids.iter();
        let places = places.map(|(place, gone)| (deleted.hasher.hash_one(&gone.uid), place));
        for (hash, place) in places.collect::<Vec<_>>() {
            deleted.enter(hash, place);
        }
        deleted
    }

    pub(crate) const fn uids(&self) -> &Uids {
        &self.uids
    }

    pub(crate) fn contains(&self, namespace: &str, uid: &Uid) -> bool {
        self.find(self.hasher.hash_one(uid), namespace, uid)
    }

    fn find(&self, hash: u64, namespace: &str, uid: &Uid) -> bool {
        let same = |&place: &u32| {
            let gone = self.uids.get(place);
            gone.is_some_and(|gone| gone.is(namespace, uid))
        };
        self.index.find(hash, same).is_some()
    }

    pub(crate) fn remember(&mut self, namespace: Name, uid: Uid) {
        let hash = self.hasher.hash_one(&uid);
        if self.find(hash, &namespace, &uid) {
            return;
        }
        let (place, forgotten) = self.uids.push(Gone { uid, namespace });
        if let Some(forgotten) = forgotten {
            let hash = self.hasher.hash_one(&forgotten.uid);
            if let Ok(entry) = self.index.find_entry(hash, |&other| other == place) {
                entry.remove();
            }
        }
        self.enter(hash, place);
    }

    fn enter(&mut self, hash: u64, place: u32) {
        let Self {
            uids,
            index,
            hasher,
        } = self;
        let rehash = |&place: &u32| {
            let gone = uids.get(place);
            gone.map_or(0, |gone| hasher.hash_one(&gone.uid))
        };
        index.insert_unique(hash, place, rehash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uid(number: u32) -> Uid {
        Uid::new(&format!("vm-{number}")).unwrap()
    }

    #[test]
    fn as_many_are_remembered_as_the_format_says() {
        let mut deleted = Deleted::default();
        for number in 0..DELETED_MAX + 5 {
            deleted.remember("team-a".into(), uid(number));
            deleted.remember("team-a".into(), uid(number));
        }
        for deleted in [Deleted::from_uids(deleted.uids().clone()), deleted] {
            assert!(!deleted.contains("team-a", &uid(4)) && deleted.contains("team-a", &uid(5)));
            assert!(deleted.contains("team-a", &uid(DELETED_MAX + 4)));
            assert!(!deleted.contains("team-b", &uid(5)));
            assert_eq!(deleted.index.len(), DELETED_MAX as usize);
        }
    }
}
