//! Items in the order of their keys, with their lengths.
//!
//! Nearly every item is added behind all others, and removed as the first of them. So the items lie in a queue, in which
//! both cost a fraction of what they cost in a tree. An item between others leaves a gap, until half of the queue is
//! gaps.

use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Items<K> {
    /// By key; without a length: a gap. The first is no gap.
    queue: VecDeque<(K, Option<usize>)>,
    gaps: usize,
    /// Of all items.
    pub(super) bytes: usize,
}

impl<K> Default for Items<K> {
    fn default() -> Self {
        Self { queue: VecDeque::new(), gaps: 0, bytes: 0 }
    }
}

impl<K: Copy + Ord> Items<K> {
    /// The key of the first item.
    pub(super) fn oldest(&self) -> Option<K> {
        self.queue.front().map(|(key, _)| *key)
    }

    /// Adds an item, or gives it another length; returns the one that it had.
    pub(super) fn insert(&mut self, key: K, bytes: usize) -> Option<usize> {
        let before = self.replace(key, bytes);
        self.bytes = self.bytes - before.unwrap_or(0) + bytes;
        before
    }

    fn replace(&mut self, key: K, bytes: usize) -> Option<usize> {
        if self.queue.back().is_none_or(|(last, _)| *last < key) {
            self.queue.push_back((key, Some(bytes)));
            return None;
        }
        match self.place(key) {
            Ok(place) => {
                let before = self.queue[place].1.replace(bytes);
                self.gaps -= usize::from(before.is_none());
                before
            }
            Err(place) => {
                self.queue.insert(place, (key, Some(bytes)));
                None
            }
        }
    }

    /// Removes an item; returns its length.
    pub(super) fn remove(&mut self, key: K) -> Option<usize> {
        let is_oldest = self.oldest() == Some(key);
        let place = if is_oldest { 0 } else { self.place(key).ok()? };
        let bytes = self.queue[place].1.take()?;
        self.bytes -= bytes;
        self.gaps += 1;
        while self.queue.front().is_some_and(|(_, length)| length.is_none()) {
            self.queue.pop_front();
            self.gaps -= 1;
        }
        if self.gaps > self.queue.len() / 2 {
            self.queue.retain(|(_, length)| length.is_some());
            self.gaps = 0;
        }
        Some(bytes)
    }

    /// The keys behind this one.
    pub(super) fn after(&self, after: K) -> impl Iterator<Item = K> {
        let first = self.queue.partition_point(|(key, _)| *key <= after);
        let behind = self.queue.range(first..);
        behind.filter_map(|(key, length)| length.map(|_| *key))
    }

    fn place(&self, key: K) -> Result<usize, usize> {
        self.queue.binary_search_by_key(&key, |(key, _)| *key)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn they_are_those_of_a_tree(
            steps in prop::collection::vec((any::<bool>(), 0..40_u8, 0..9_usize), 0..200),
        ) {
            let mut items = Items::default();
            let mut tree = BTreeMap::new();
            for (adds, key, bytes) in steps {
                match adds {
                    true => prop_assert_eq!(items.insert(key, bytes), tree.insert(key, bytes)),
                    false => prop_assert_eq!(items.remove(key), tree.remove(&key)),
                }
                prop_assert_eq!(items.oldest(), tree.keys().next().copied());
                prop_assert_eq!(items.queue.len() - items.gaps, tree.len());
                prop_assert_eq!(items.bytes, tree.values().sum::<usize>());
                prop_assert!(items.queue.len() <= 2 * tree.len());
            }
        }
    }
}
