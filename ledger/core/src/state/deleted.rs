//! Recently deleted objects, so that a late event cannot bring one back.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ring::Ring;
use crate::{codec::record, event::Sequence};
use quota_semantics::{Name, uid::Uid};

/// Most deleted objects that are remembered. Part of the fold, and so of the format: with another number, a ledger would
/// fold to another state.
const DELETED_MAX: u32 = 1 << 17;

/// A deleted object.
#[derive(Clone, Debug)]
pub(crate) struct Gone {
    pub(crate) uid: Uid,
    pub(crate) namespace: Name,
    /// The entry that last changed its footprint; 0: unknown, as after a snapshot.
    pub(crate) last: Sequence,
}

record!(Gone { namespace, uid } without { last });

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
        let mut deleted = Self { uids, ..Self::default() };
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
        self.find(namespace, uid).is_some()
    }

    pub(crate) fn find(&self, namespace: &str, uid: &Uid) -> Option<&Gone> {
        if self.index.is_empty() {
            return None;
        }
        let gone = |place: &u32| {
            let gone = self.uids.get(*place);
            gone.filter(|gone| gone.is(namespace, uid))
        };
        let hash = self.hasher.hash_one(uid);
        let place = self.index.find(hash, |place| gone(place).is_some())?;
        self.uids.get(*place)
    }

    pub(crate) fn remember(&mut self, namespace: Name, uid: Uid, last: Sequence) {
        let hash = self.hasher.hash_one(&uid);
        if self.contains(&namespace, &uid) {
            return;
        }
        let gone = Gone { uid, namespace, last };
        let (place, forgotten) = self.uids.push(gone);
        if let Some(forgotten) = forgotten {
            let hash = self.hasher.hash_one(&forgotten.uid);
            if let Ok(entry) = self.index.find_entry(hash, |&other| other == place) {
                entry.remove();
            }
        }
        self.enter(hash, place);
    }

    fn enter(&mut self, hash: u64, place: u32) {
        let Self { uids, index, hasher } = self;
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
            deleted.remember("team-a".into(), uid(number), 1);
            deleted.remember("team-a".into(), uid(number), 1);
        }
        for deleted in [Deleted::from_uids(deleted.uids().clone()), deleted] {
            assert!(!deleted.contains("team-a", &uid(4)) && deleted.contains("team-a", &uid(5)));
            assert!(deleted.contains("team-a", &uid(DELETED_MAX + 4)));
            assert!(!deleted.contains("team-b", &uid(5)));
            assert_eq!(deleted.index.len(), DELETED_MAX as usize);
        }
    }
}
