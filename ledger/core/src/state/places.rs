//! Tables of places in a slab.

use hashbrown::HashTable;

/// Up to this many places, the data behind the hashes fits into the processor's caches, so the order of access does not
/// matter.
const FEW: usize = 1 << 16;

/// Grows a large table that has no room for one more place. `hash` reads the slab.
///
/// By itself the table would rehash in the order of the hashes, with a cache miss for each; with a million places the
/// fold would stop for a tenth of a second. In the order of the slab it takes a fraction of that.
pub(super) fn make_room(table: &mut HashTable<u32>, hash: impl Fn(u32) -> u64) {
    if table.len() < table.capacity() || table.len() < FEW {
        return;
    }
    let mut places = SlotSet::default();
    table.iter().for_each(|&place| places.insert(place));
    // As the table itself would do: twice the size, or the same size if removed places take half of it.
    let mut grown = HashTable::with_capacity(table.len().saturating_mul(2).max(1));
    for place in places.in_order() {
        grown.insert_unique(hash(place), place, |&other| hash(other));
    }
    *table = grown;
}

/// A set of places: a bit for each.
#[derive(Default)]
struct SlotSet(Vec<u64>);

impl SlotSet {
    fn insert(&mut self, place: u32) {
        let word = (place / u64::BITS) as usize;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (place % u64::BITS);
    }

    fn in_order(&self) -> impl Iterator<Item = u32> {
        (0..).zip(&self.0).flat_map(|(word, &bits)| {
            let held = move |bit: &u32| bits >> bit & 1 == 1;
            (0..u64::BITS).filter(held).map(move |bit| word * u64::BITS + bit)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(place: u32) -> u64 {
        u64::from(place).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    #[test]
    fn a_table_holds_what_it_held_and_has_room_for_as_much_again() {
        const MANY: u32 = 8 * FEW as u32;
        let mut ours = HashTable::new();
        for place in (0..MANY).rev() {
            let before = ours.allocation_size();
            make_room(&mut ours, hash);
            if ours.allocation_size() != before {
                let twice = HashTable::<u32>::with_capacity(2 * ours.len());
                assert_eq!(ours.allocation_size(), twice.allocation_size());
            }
            ours.insert_unique(hash(place), place, |&other| {
                assert!(other >= MANY - 2 * FEW as u32, "there is room");
                hash(other)
            });
            // Removed places leave marks that take room.
            if place % 3 == 0 {
                let found = ours.find_entry(hash(place), |&other| other == place);
                found.unwrap().remove();
            }
        }
        for place in 0..MANY {
            let found = ours.find(hash(place), |&other| other == place);
            assert_eq!(found.is_some(), place % 3 != 0);
        }
    }
}
