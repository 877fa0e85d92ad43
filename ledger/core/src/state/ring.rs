//! A ring buffer of the latest values, oldest first.

use super::slab::Slab;
use crate::codec::{DecodeError, Reader, Wire, Writer};

const CHUNK: usize = 256;

/// Holds at most `MAX` values: a further one replaces the oldest. As cheap to copy as a [`Slab`].
#[derive(Clone, Debug)]
pub(crate) struct Ring<T, const MAX: u32> {
    slab: Slab<T, CHUNK>,
    /// The place of the oldest value, once the ring is full.
    oldest: u32,
}

impl<T, const MAX: u32> Default for Ring<T, MAX> {
    fn default() -> Self {
        Self { slab: Slab::default(), oldest: 0 }
    }
}

impl<T: Clone, const MAX: u32> Ring<T, MAX> {
    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        self.slab.get(place)
    }

    /// Adds a value. Returns its place, and the value that it replaced.
    pub(crate) fn push(&mut self, value: T) -> (u32, Option<T>) {
        let place = self.oldest;
        if self.slab.len() < MAX {
            return (self.slab.insert(value), None);
        }
        self.oldest = (place + 1) % MAX;
        let slot = self.slab.get_mut(place);
        (place, slot.map(|slot| std::mem::replace(slot, value)))
    }

    /// All values with their places, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &T)> {
        let places = (self.oldest..self.slab.len()).chain(0..self.oldest);
        places.filter_map(|place| Some((place, self.slab.get(place)?)))
    }
}

/// Encoded as a list.
impl<T: Wire + Clone, const MAX: u32> Wire for Ring<T, MAX> {
    fn put(&self, writer: &mut Writer) {
        u64::from(self.slab.len()).put(writer);
        for (_, value) in self.iter() {
            value.put(writer);
        }
    }
    fn take(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let mut ring = Self::default();
        for _ in 0..reader.count()? {
            ring.push(T::take(reader)?);
        }
        Ok(ring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_when_it_is_full() {
        let mut ring = Ring::<u32, 3>::default();
        for value in 0..8_u32 {
            let gone = value.checked_sub(3);
            assert_eq!(ring.push(value), (value % 3, gone));
            let held: Vec<u32> = ring.iter().map(|(_, value)| *value).collect();
            let first = (value + 1).saturating_sub(3);
            assert_eq!(held, (first..=value).collect::<Vec<_>>());
        }
        assert_eq!((ring.get(2), ring.get(3)), (Some(&5), None));
    }

    #[test]
    fn it_is_written_as_a_list() {
        for count in [0, 2, 3, 7] {
            let mut ring = Ring::<u32, 3>::default();
            (0..count).for_each(|value| {
                ring.push(value);
            });
            let list: Vec<u32> = ring.iter().map(|(_, value)| *value).collect();
            let [mut one, mut other] = [Writer::default(), Writer::default()];
            ring.put(&mut one);
            list.put(&mut other);
            let bytes = one.finish();
            assert_eq!(bytes, other.finish());
            let mut reader = Reader::new(&bytes).unwrap();
            let again = Ring::<u32, 3>::take(&mut reader).unwrap();
            assert!(again.iter().map(|(_, value)| value).eq(&list));
        }
    }
}
