//! Numbers that a seed makes again.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

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

    /// An index into something of this length, which is not zero.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap()
    }

    /// Once in so many times.
    pub fn once_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }
}
