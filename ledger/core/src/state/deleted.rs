//! The objects that were deleted lately, so that a late event cannot bring one back.

use std::hash::BuildHasher;

use hashbrown::{DefaultHashBuilder, HashTable};

use super::ring::Ring;
use quota_semantics::uid::Uid;

/// How many are remembered. In the fold, and so part of the format: with a changed number old ledgers would fold to
/// another state.
const DELETED_MAX: u32 = 1 << 17;

/// Their uids, in the order of the deletions.
pub(crate) type Uids = Ring<Uid, DELETED_MAX>;

/// Their uids, in the order of the deletions, and by uid.
#[derive(Debug, Default)]
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
        let places: Vec<u32> = deleted.uids.iter().map(|(place, _)| place).collect();
        places.into_iter().for_each(|place| deleted.enter(place));
        deleted
    }

    pub(crate) const fn uids(&self) -> &Uids {
        &self.uids
    }

    pub(crate) fn contains(&self, uid: &Uid) -> bool {
        let same = |&place: &u32| self.uids.get(place) == Some(uid);
        self.index.find(self.hasher.hash_one(uid), same).is_some()
    }

    pub(crate) fn remember(&mut self, uid: Uid) {
        if self.contains(&uid) {
            return;
        }
        let (place, forgotten) = self.uids.push(uid);
        if let Some(forgotten) = forgotten {
            let hash = self.hasher.hash_one(&forgotten);
            if let Ok(entry) = self.index.find_entry(hash, |&other| other == place) {
                entry.remove();
            }
        }
        self.enter(place);
    }

    fn enter(&mut self, place: u32) {
        let Self {
            uids,
            index,
            hasher,
        } = self;
        let hash = |&place: &u32| uids.get(place).map_or(0, |uid| hasher.hash_one(uid));
        index.insert_unique(hash(&place), place, hash);
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
            deleted.remember(uid(number));
            deleted.remember(uid(number));
        }
        for deleted in [Deleted::from_uids(deleted.uids().clone()), deleted] {
            assert!(!deleted.contains(&uid(4)) && deleted.contains(&uid(5)));
            assert!(deleted.contains(&uid(DELETED_MAX + 4)));
            assert_eq!(deleted.index.len(), DELETED_MAX as usize);
        }
    }
}
