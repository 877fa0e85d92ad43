//! Bounded memory shared by principals and their namespaces: how much each of them uses, and which item is removed first.
//!
//! When all items together exceed the bound, the principal with the most bytes loses an item: of its namespaces, the one
//! with the most bytes loses its oldest one. So a flood of one principal, in however many namespaces, never removes the
//! items of others that use less, and one in a namespace does not remove those of other namespaces of that principal.

mod items;

use std::{
    cmp::Reverse,
    collections::{BTreeSet, BinaryHeap},
    iter,
};

use hashbrown::HashMap;
use quota_semantics::Name;

use items::Items;

/// Items by principal and namespace, with keys that grow with time.
#[derive(Clone, Debug)]
pub struct BoundedMemory<K> {
    principals: Ranked<K, Ranked<K, Items<K>>>,
    len: usize,
}

impl<K> Default for BoundedMemory<K> {
    fn default() -> Self {
        Self { principals: Ranked::default(), len: 0 }
    }
}

impl<K: Copy + Ord> BoundedMemory<K> {
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
        self.principals.bytes
    }

    /// Adds an item of a principal in a namespace, or gives it another length.
    pub fn add(&mut self, principal: &Name, namespace: &Name, key: K, bytes: usize) {
        let before = self.principals.change(principal, |namespaces| {
            namespaces.change(namespace, |items| items.insert(key, bytes))
        });
        self.len += usize::from(before.is_none());
    }

    /// Removes an item, if it is there.
    pub fn remove(&mut self, principal: &Name, namespace: &Name, key: K) {
        let removed = self.principals.change(principal, |namespaces| {
            namespaces.change(namespace, |items| items.remove(key))
        });
        self.len -= usize::from(removed.is_some());
    }

    /// The keys of all items in a namespace behind a key, oldest first.
    pub fn of(&self, namespace: &str, after: K) -> impl Iterator<Item = K> {
        let principals = self.principals.shares.values();
        let shares = principals.filter_map(|namespaces| namespaces.shares.get(namespace));
        let mut shares: Vec<_> = shares.map(|items| items.after(after)).collect();
        let mut firsts: BinaryHeap<_> = (0..)
            .zip(&mut shares)
            .filter_map(|(place, items)| Some(Reverse((items.next()?, place))))
            .collect();
        iter::from_fn(move || {
            let Reverse((first, place)): Reverse<(K, usize)> = firsts.pop()?;
            let next = shares[place].next();
            firsts.extend(next.map(|next| Reverse((next, place))));
            Some(first)
        })
    }

    /// The item to remove first: of the principal with the most bytes, and of its namespace with the most, the oldest.
    #[must_use]
    pub fn first_to_go(&self) -> Option<K> {
        self.principals.first_to_go()
    }
}

/// A share: its length, and which of its items goes first.
trait Share<K: Copy>: Default {
    fn bytes(&self) -> usize;

    /// None: it is empty.
    fn first_to_go(&self) -> Option<K>;

    /// Its place among others, unless it is empty. No two have the same one, since no two have the same item.
    fn rank(&self) -> Option<(usize, Reverse<K>)> {
        Some((self.bytes(), Reverse(self.first_to_go()?)))
    }
}

impl<K: Copy + Ord> Share<K> for Items<K> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn first_to_go(&self) -> Option<K> {
        self.oldest()
    }
}

/// Shares by name, ordered by bytes: the one with the most comes last, and of equal ones the one whose first item to go
/// is the oldest.
#[derive(Clone, Debug)]
struct Ranked<K, S> {
    shares: HashMap<Name, S>,
    ranks: BTreeSet<(usize, Reverse<K>)>,
    bytes: usize,
}

impl<K, S> Default for Ranked<K, S> {
    fn default() -> Self {
        Self { shares: HashMap::new(), ranks: BTreeSet::new(), bytes: 0 }
    }
}

impl<K: Copy + Ord, S: Share<K>> Ranked<K, S> {
    /// Changes a share, which is kept as long as it has items.
    fn change<R>(&mut self, name: &Name, change: impl FnOnce(&mut S) -> R) -> R {
        let share = self.shares.entry_ref(name).or_default();
        let before = share.rank();
        self.bytes -= share.bytes();
        let result = change(share);
        self.bytes += share.bytes();
        let after = share.rank();
        if let Some(before) = before {
            self.ranks.remove(&before);
        }
        match after {
            Some(after) => drop(self.ranks.insert(after)),
            None => drop(self.shares.remove(name)),
        }
        result
    }
}

impl<K: Copy + Ord, S: Share<K>> Share<K> for Ranked<K, S> {
    fn bytes(&self) -> usize {
        self.bytes
    }

    fn first_to_go(&self) -> Option<K> {
        let (_, Reverse(first)) = self.ranks.last()?;
        Some(*first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    type Owner = (Name, Name);

    /// Adds items of an owner in turn, and removes what goes first while there is too much.
    fn flood(
        shares: &mut BoundedMemory<u32>,
        owners: &mut BTreeMap<u32, Owner>,
        owner: impl Fn(u32) -> Owner,
    ) {
        for key in 100..400 {
            let owner = owner(key);
            shares.add(&owner.0, &owner.1, key, 10);
            owners.insert(key, owner);
            while shares.bytes() > 50 {
                let first = shares.first_to_go().unwrap();
                let (principal, namespace) = owners.remove(&first).unwrap();
                shares.remove(&principal, &namespace, first);
            }
        }
    }

    #[test]
    fn the_principal_with_the_most_makes_room_and_of_its_namespaces_the_one_with_the_most() {
        let mut shares = BoundedMemory::default();
        let mut owners = BTreeMap::new();
        for (key, owner) in [(1, ("small", "a")), (2, ("large", "b"))] {
            let owner = (Name::from(owner.0), Name::from(owner.1));
            shares.add(&owner.0, &owner.1, key, 10);
            owners.insert(key, owner);
        }
        // One namespace is flooded, and then as many as there are items.
        let large = || Name::from("large");
        flood(&mut shares, &mut owners, |_| (large(), "c".into()));
        assert_eq!(owners.keys().collect::<Vec<_>>(), [&1, &2, &397, &398, &399]);
        flood(&mut shares, &mut owners, |key| (large(), format!("c-{key}").into()));
        assert!(owners.contains_key(&1) && !owners.contains_key(&2));
        assert_eq!((shares.len(), shares.bytes()), (5, 50));
        shares.remove(&"small".into(), &"a".into(), 1);
        assert!(shares.len() == 4 && !shares.is_empty());
    }

    /// What goes first, said as plainly as possible.
    fn expected(plain: &BTreeMap<(Owner, u8), usize>) -> Option<u8> {
        let largest = |of: &dyn Fn(&Owner) -> Option<Name>| {
            let mut shares: BTreeMap<Name, usize> = BTreeMap::new();
            for ((owner, _), bytes) in plain {
                if let Some(name) = of(owner) {
                    *shares.entry(name).or_default() += bytes;
                }
            }
            let most = shares.values().max().copied();
            shares.retain(|_, bytes| Some(*bytes) == most);
            shares.into_keys().collect::<Vec<_>>()
        };
        let principals = largest(&|owner| Some(owner.0.clone()));
        let of_principal = |principal: &Name| {
            let within = |owner: &Owner| (owner.0 == *principal).then(|| owner.1.clone());
            let namespaces = largest(&within);
            let all = plain.keys();
            let items =
                all.filter(|(owner, _)| owner.0 == *principal && namespaces.contains(&owner.1));
            items.map(|(_, key)| *key).min()
        };
        principals.iter().filter_map(of_principal).min()
    }

    proptest! {
        #[test]
        fn what_goes_first_depends_on_what_is_there_alone(
            steps in prop::collection::vec((any::<bool>(), "[pq]", "[ab]", 0..8_u8, 0..9_usize), 0..40),
        ) {
            let mut shares = BoundedMemory::default();
            let mut plain: BTreeMap<(Owner, u8), usize> = BTreeMap::new();
            for (adds, principal, namespace, key, bytes) in steps {
                let owner = (Name::from(principal.as_str()), Name::from(namespace.as_str()));
                // A key has one owner.
                let is_other = plain.keys().any(|(other, taken)| *taken == key && *other != owner);
                if adds && !is_other {
                    shares.add(&owner.0, &owner.1, key, bytes);
                    plain.insert((owner, key), bytes);
                } else if !adds {
                    shares.remove(&owner.0, &owner.1, key);
                    plain.remove(&(owner, key));
                }
                prop_assert_eq!(shares.first_to_go(), expected(&plain));
                prop_assert_eq!(shares.len(), plain.len());
                prop_assert_eq!(shares.bytes(), plain.values().sum::<usize>());
                for after in 0..8 {
                    let behind = plain.keys().filter(|(owner, key)| owner.1 == *"a" && *key > after);
                    let mut behind: Vec<_> = behind.map(|(_, key)| *key).collect();
                    behind.sort_unstable();
                    prop_assert_eq!(shares.of("a", after).collect::<Vec<_>>(), behind);
                }
                let principals = &shares.principals;
                prop_assert_eq!(principals.ranks.len(), principals.shares.len());
            }
            for ((owner, key), _) in plain {
                shares.remove(&owner.0, &owner.1, key);
            }
            prop_assert!(shares.is_empty() && shares.principals.shares.is_empty());
        }
    }
}
