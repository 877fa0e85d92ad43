//! The content of a simulated sled database: after an unclean stop it may have lost a suffix, silently, or refuse to
//! open.

use std::collections::BTreeMap;

use super::{Crash, State};
use crate::disk::{DirectoryEntry, Pair};

/// The pairs of a database.
#[derive(Clone, Default)]
pub(in crate::simulation) struct Pairs {
    pub(in crate::simulation) now: BTreeMap<Vec<u8>, Vec<u8>>,
    pub(in crate::simulation) durable: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Puts that are not durable, in order.
    pub(in crate::simulation) pending: Vec<Pair>,
    pub(in crate::simulation) broken: bool,
}

impl Pairs {
    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Its only file.
    pub(super) fn listed(&self) -> DirectoryEntry {
        let bytes = self.now.values().map(|value| value.len() as u64).sum();
        DirectoryEntry { name: "db".to_owned(), is_directory: false, length: bytes }
    }

    /// Flips one bit of one value. sled would detect that on reading, or not open; here the value is simply wrong.
    pub(super) fn flip(&mut self, random: u64) {
        let number = random % (self.now.len().max(1) as u64);
        let key = self.now.keys().nth(usize::try_from(number).unwrap_or(0));
        let Some(key) = key.cloned() else {
            return;
        };
        for pairs in [&mut self.now, &mut self.durable] {
            if let Some(value) = pairs.get_mut(&key).filter(|value| !value.is_empty()) {
                let bit = (random >> 16) % (value.len() as u64 * 8);
                value[usize::try_from(bit / 8).unwrap_or(0)] ^= 1 << (bit % 8);
            }
        }
    }

    pub(super) fn fingerprint(&self, hasher: &mut blake3::Hasher) {
        for (key, value) in self.now.iter().chain(&self.durable) {
            hasher.update(key);
            hasher.update(value);
        }
    }
}

impl State {
    /// Keeps a prefix of the inserts that are not durable, also after a kill; and one in eight open databases does not
    /// open again.
    pub(super) fn lose_pairs(&mut self, crash: Crash) {
        for (inode, mut pairs) in std::mem::take(&mut self.databases) {
            let unclean = !pairs.pending.is_empty();
            if unclean {
                let kept = self.random() % (pairs.pending.len() as u64 + 1);
                for (number, (key, value)) in (0u64..).zip(std::mem::take(&mut pairs.pending)) {
                    if number < kept {
                        pairs.durable.insert(key, value);
                    } else {
                        self.fired.lost_pairs += 1;
                    }
                }
                pairs.broken = self.random().is_multiple_of(8);
                self.fired.broken_databases += u64::from(pairs.broken);
            }
            if unclean || crash == Crash::PowerLoss {
                pairs.now = pairs.durable.clone();
            }
            self.databases.insert(inode, pairs);
        }
        self.open_databases.clear();
    }
}
