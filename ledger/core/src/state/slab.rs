//! A copy-on-write slab: numbered places for many values, cheap to copy as a whole.
//!
//! A snapshot needs the state as of one moment while the writer goes on. Values lie in chunks behind reference counts:
//! a copy of the slab copies pointers only, and the writer copies a chunk when it first changes it afterwards. Places
//! are reused last-freed first, so equal histories give equal slabs.

use std::sync::Arc;

use crate::codec::{DecodeError, Reader, Wire, Writer};

/// The end of the list of free places.
const NONE: u32 = u32::MAX;

/// Values at numbered places, `CHUNK` of them to a copy-on-write chunk.
#[derive(Debug)]
pub(crate) struct Slab<T, const CHUNK: usize> {
    chunks: Vec<Arc<Vec<Slot<T>>>>,
    free: u32,
    live: u32,
}

#[derive(Clone, Debug)]
enum Slot<T> {
    Full(T),
    Free(u32),
}

impl<T, const CHUNK: usize> Clone for Slab<T, CHUNK> {
    fn clone(&self) -> Self {
        Self { chunks: self.chunks.clone(), free: self.free, live: self.live }
    }
}

impl<T, const CHUNK: usize> Default for Slab<T, CHUNK> {
    fn default() -> Self {
        Self { chunks: Vec::new(), free: NONE, live: 0 }
    }
}

const fn place(chunk: usize, offset: usize, size: usize) -> u32 {
    (chunk * size + offset) as u32
}

impl<T: Clone, const CHUNK: usize> Slab<T, CHUNK> {
    /// The size of a place in bytes.
    #[cfg(test)]
    pub(crate) const SLOT_BYTES: usize = size_of::<Slot<T>>();

    pub(crate) const fn len(&self) -> u32 {
        self.live
    }

    /// The number of places, used or free.
    pub(crate) fn places(&self) -> u32 {
        let full = self.chunks.len().saturating_sub(1) * CHUNK;
        let last = self.chunks.last().map_or(0, |chunk| chunk.len());
        u32::try_from(full + last).unwrap_or(u32::MAX)
    }

    fn slot(&self, index: u32) -> Option<&Slot<T>> {
        #[cfg(test)]
        work::look_up();
        let index = index as usize;
        self.chunks.get(index / CHUNK)?.get(index % CHUNK)
    }

    fn slot_mut(&mut self, index: u32) -> Option<&mut Slot<T>> {
        #[cfg(test)]
        work::look_up();
        let index = index as usize;
        Arc::make_mut(self.chunks.get_mut(index / CHUNK)?).get_mut(index % CHUNK)
    }

    pub(crate) fn get(&self, index: u32) -> Option<&T> {
        match self.slot(index)? {
            Slot::Full(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn get_mut(&mut self, index: u32) -> Option<&mut T> {
        match self.slot_mut(index)? {
            Slot::Full(value) => Some(value),
            Slot::Free(_) => None,
        }
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.live += 1;
        let index = self.free;
        if let Some(slot) = self.slot_mut(index) {
            let Slot::Free(next) = std::mem::replace(slot, Slot::Full(value)) else {
                unreachable!("the list of free places holds free places only");
            };
            self.free = next;
            return index;
        }
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            self.chunks.push(Arc::new(Vec::with_capacity(CHUNK)));
        }
        let chunk = self.chunks.len() - 1;
        let slots = Arc::make_mut(&mut self.chunks[chunk]);
        // A copied chunk has lost its spare capacity; without this it would grow by doubling.
        slots.reserve_exact(CHUNK - slots.len());
        slots.push(Slot::Full(value));
        place(chunk, slots.len() - 1, CHUNK)
    }

    pub(crate) fn remove(&mut self, index: u32) -> Option<T> {
        self.get(index)?;
        let free = self.free;
        let slot = self.slot_mut(index)?;
        let Slot::Full(value) = std::mem::replace(slot, Slot::Free(free)) else {
            return None;
        };
        self.free = index;
        self.live -= 1;
        Some(value)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        self.chunks.iter().enumerate().flat_map(|(chunk, slots)| {
            slots
                .iter()
                .enumerate()
                .inspect(|_| {
                    #[cfg(test)]
                    work::look_up();
                })
                .filter_map(move |(offset, slot)| match slot {
                    Slot::Full(value) => Some((place(chunk, offset, CHUNK), value)),
                    Slot::Free(_) => None,
                })
        })
    }
}

impl<T: Wire, const CHUNK: usize> Slab<T, CHUNK> {
    /// The number of chunks, so that a long slab can be written in bounded pieces.
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    pub(crate) fn put_head(&self, writer: &mut Writer) {
        self.free.put(writer);
        self.live.put(writer);
        writer.count(self.chunks.len());
    }

    pub(crate) fn put_chunk(&self, chunk: usize, writer: &mut Writer) {
        let slots = &self.chunks[chunk];
        writer.count(slots.len());
        for slot in slots.iter() {
            match slot {
                Slot::Full(value) => {
                    true.put(writer);
                    value.put(writer);
                }
                Slot::Free(next) => {
                    false.put(writer);
                    next.put(writer);
                }
            }
        }
    }

    /// Reads the head that [`Self::put_head`] wrote: an empty slab, and the number of chunks that follow.
    pub(crate) fn take_head(reader: &mut Reader<'_>) -> Result<(Self, u64), DecodeError> {
        let free = u32::take(reader)?;
        let live = u32::take(reader)?;
        let chunks = u64::take(reader)?;
        Ok((Self { chunks: Vec::new(), free, live }, chunks))
    }

    pub(crate) fn take_chunk(&mut self, reader: &mut Reader<'_>) -> Result<(), DecodeError> {
        let count = u64::take(reader)?;
        let count = usize::try_from(count).ok().filter(|count| (1..=CHUNK).contains(count));
        let count = count.ok_or_else(|| DecodeError("a chunk of the wrong size".into()))?;
        let mut slots = Vec::with_capacity(CHUNK);
        for _ in 0..count {
            slots.push(match bool::take(reader)? {
                true => Slot::Full(T::take(reader)?),
                false => Slot::Free(u32::take(reader)?),
            });
        }
        self.chunks.push(Arc::new(slots));
        Ok(())
    }

    /// Checks that the list of free places and the count of live ones agree with the slots, after reading them.
    pub(crate) fn check(&self) -> Result<(), DecodeError> {
        let (_, full) = self.chunks.split_last().unzip();
        let full: &[_] = full.unwrap_or_default();
        if full.iter().any(|chunk| chunk.len() != CHUNK) {
            return Err(DecodeError("a chunk of the wrong size".into()));
        }
        let slots = || self.chunks.iter().flat_map(|chunk| chunk.iter());
        let live = slots().filter(|slot| matches!(slot, Slot::Full(_))).count();
        let mut free = slots().count() - live;
        let mut next = self.free;
        while next != NONE {
            let slot =
                self.chunks.get(next as usize / CHUNK).and_then(|c| c.get(next as usize % CHUNK));
            match (slot, free.checked_sub(1)) {
                (Some(Slot::Free(following)), Some(left)) => (next, free) = (*following, left),
                _ => return Err(DecodeError("a list of free places that is not one".into())),
            }
        }
        if live != self.live as usize || free != 0 {
            return Err(DecodeError("a slab that does not add up".into()));
        }
        Ok(())
    }
}

/// Counts the places that are read, for tests of costs.
#[cfg(test)]
pub(crate) mod work {
    use std::cell::Cell;

    thread_local! {
        static LOOK_UPS: Cell<u64> = const { Cell::new(0) };
    }

    pub(in crate::state) fn look_up() {
        LOOK_UPS.set(LOOK_UPS.get() + 1);
    }

    /// The number of places that `act` reads.
    pub(crate) fn of(act: impl FnOnce()) -> u64 {
        let before = LOOK_UPS.get();
        act();
        LOOK_UPS.get() - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_reused_last_freed_first() {
        let mut slab = Slab::<u32, 4>::default();
        let places: Vec<u32> = (0..9).map(|value| slab.insert(value)).collect();
        assert_eq!(places, (0..9).collect::<Vec<_>>());
        assert_eq!((slab.remove(3), slab.remove(7), slab.remove(7)), (Some(3), Some(7), None));
        assert_eq!(slab.len(), 7);
        assert_eq!((slab.insert(70), slab.insert(30), slab.insert(9)), (7, 3, 9));
        assert_eq!(slab.get(7), Some(&70));
        assert_eq!(slab.get(100), None);
    }

    #[test]
    fn a_copy_does_not_see_later_changes() {
        let mut slab = Slab::<u32, 4>::default();
        for value in 0..6 {
            slab.insert(value);
        }
        let copy = slab.clone();
        *slab.get_mut(1).unwrap() = 100;
        slab.remove(5);
        slab.insert(500);
        assert_eq!(copy.iter().map(|(_, value)| *value).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        assert_eq!(
            slab.iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            [0, 100, 2, 3, 4, 500]
        );
    }
}
