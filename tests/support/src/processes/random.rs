//! Numbers that a seed makes again.

use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};

/// The seed that an environment variable sets; otherwise any one.
pub fn seed(variable: &str) -> u64 {
    super::number(variable).unwrap_or_else(|| RandomState::new().hash_one(variable) >> 32)
}

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// The numbers that this part of the test gets from the seed.
    pub fn new(seed: u64, part: &str) -> Self {
        let mut hasher = DefaultHasher::new();
        (seed, part).hash(&mut hasher);
        Self(hasher.finish())
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// From 0 to one less than this.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    /// An index into something of this length; 0 if it is empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length.max(1) as u64)).unwrap()
    }

    /// One of these.
    pub fn of<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.index(items.len())]
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
