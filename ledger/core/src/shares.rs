//! Bounded memory shared by namespaces: how much each of them uses, and which of them loses an item first.
//!
//! When all namespaces together exceed the bound, the oldest item of the namespace with the most bytes is removed. So a
//! flood in one namespace never removes the items of others that use less.

mod items;

use std::{cmp::Reverse, collections::BTreeSet};

use hashbrown::HashMap;
use quota_semantics::Name;

use items::Items;

/// The items of namespaces, by keys that grow with time.
#[derive(Clone, Debug)]
pub struct Shares<K> {
    namespaces: HashMap<Name, Share<K>>,
    ranks: BTreeSet<Rank<K>>,
    len: usize,
    bytes: usize,
}

/// Orders the namespaces by bytes: the one with the most comes last, and of equal ones the one with the oldest item.
type Rank<K> = (usize, Reverse<K>, Name);

#[derive(Clone, Debug)]
struct Share<K> {
    items: Items<K>,
    bytes: usize,
}

impl<K> Default for Share<K> {
    fn default() -> Self {
        Self {
            items: Items::default(),
            bytes: 0,
        }
    }
}

impl<K: Copy + Ord> Share<K> {
    /// The rank of the share, if it has items.
    fn rank(&self, namespace: Name) -> Option<Rank<K>> {
        let oldest = self.items.oldest()?;
        Some((self.bytes, Reverse(oldest), namespace))
    }
}

impl<K> Default for Shares<K> {
    fn default() -> Self {
        Self {
            namespaces: HashMap::new(),
            ranks: BTreeSet::new(),
            len: 0,
            bytes: 0,
        }
    }
}

impl<K: Copy + Ord> Shares<K> {
    /// The number of items.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no items.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes of all items.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Adds an item of a namespace, or gives it another length.
    pub fn add(&mut self, namespace: &Name, key: K, bytes: usize) {
        let share = self.namespaces.entry_ref(namespace).or_default();
        let rank = share.rank(namespace.clone());
        let ranked = rank.and_then(|rank| self.ranks.take(&rank));
        match share.items.insert(key, bytes) {
            Some(before) => {
                share.bytes -= before;
                self.bytes -= before;
            }
            None => self.len += 1,
        }
        share.bytes += bytes;
        self.bytes += bytes;
        let namespace = ranked.map_or_else(|| namespace.clone(), |(_, _, namespace)| namespace);
        self.ranks.extend(share.rank(namespace));
    }

    /// Removes an item of a namespace, if it is there.
    pub fn remove(&mut self, namespace: &Name, key: K) {
        let Some(share) = self.namespaces.get_mut(namespace) else {
            return;
        };
        let rank = share.rank(namespace.clone());
        let Some(bytes) = share.items.remove(key) else {
            return;
        };
        share.bytes -= bytes;
        self.len -= 1;
        self.bytes -= bytes;
        let Some((_, _, namespace)) = rank.and_then(|rank| self.ranks.take(&rank)) else {
            unreachable!("a share with items has a rank");
        };
        match share.rank(namespace.clone()) {
            Some(rank) => drop(self.ranks.insert(rank)),
            None => drop(self.namespaces.remove(&namespace)),
        }
    }

    /// The keys of a namespace's items behind a key, oldest first.
    pub fn of(&self, namespace: &str, after: K) -> impl Iterator<Item = K> {
        let share = self.namespaces.get(namespace).into_iter();
        share.flat_map(move |share| share.items.after(after))
    }

    /// The item to remove first: the oldest of the namespace with the most bytes.
    #[must_use]
    pub fn first_to_go(&self) -> Option<(Name, K)> {
        let (_, Reverse(oldest), namespace) = self.ranks.last()?;
        Some((namespace.clone(), *oldest))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_one_with_the_most_makes_room() {
        let mut shares = Shares::default();
        let [small, large] = ["small", "large"].map(Name::from);
        shares.add(&small, 1, 10);
        for key in 2..100 {
            shares.add(&large, key, 10);
            while shares.bytes() > 50 {
                let (namespace, key) = shares.first_to_go().unwrap();
                shares.remove(&namespace, key);
            }
        }
        assert_eq!((shares.len(), shares.bytes()), (5, 50));
        assert_eq!(shares.first_to_go(), Some((large, 96)));
        shares.remove(&small, 1);
        assert!(shares.len() == 4 && !shares.is_empty());
    }

    proptest! {
        #[test]
        fn what_is_left_depends_on_what_is_there_alone(
            steps in prop::collection::vec((any::<bool>(), "[abc]", 0..8_u8, 0..9_usize), 0..40),
        ) {
            let mut shares = Shares::default();
            let mut plain = BTreeMap::new();
            for (adds, namespace, key, bytes) in steps {
                let namespace = Name::from(namespace.as_str());
                if adds {
                    shares.add(&namespace, key, bytes);
                    plain.insert((namespace, key), bytes);
                } else {
                    shares.remove(&namespace, key);
                    plain.remove(&(namespace, key));
                }
                let mut anew = Shares::default();
                for ((namespace, key), bytes) in &plain {
                    anew.add(namespace, *key, *bytes);
                }
                prop_assert_eq!(shares.first_to_go(), anew.first_to_go());
                prop_assert_eq!(shares.ranks.len(), shares.namespaces.len());
                prop_assert_eq!(shares.len(), plain.len());
                prop_assert_eq!(shares.bytes(), plain.values().sum::<usize>());
            }
        }
    }
}
