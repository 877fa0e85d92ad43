//! What a power cut takes.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{State, apply, put};

/// Written or lost as one.
const SECTOR_BYTES: usize = 512;

impl State {
    /// Of the changes of names that were not synced, the earlier ones of each directory may have
    /// happened.
    pub(super) fn lose_names(&mut self) {
        let mut left: BTreeMap<PathBuf, usize> = BTreeMap::new();
        let changes = std::mem::take(&mut self.pending_names);
        for change in &changes {
            *left.entry(change.directory().to_path_buf()).or_default() += 1;
        }
        for count in left.values_mut() {
            *count = self.below(*count + 1);
        }
        for change in &changes {
            if let Some(left) = left.get_mut(change.directory()).filter(|left| **left > 0) {
                *left -= 1;
                apply(&mut self.durable_names, change);
            }
        }
        self.names = self.durable_names.clone();
        let used: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| used.contains(inode));
    }

    /// Of the writes that were not synced, any sectors may have happened.
    pub(super) fn lose_writes(&mut self) {
        let ids: Vec<u64> = self.inodes.keys().copied().collect();
        for id in ids {
            let Some(mut inode) = self.inodes.remove(&id) else {
                continue;
            };
            // All, none, some, or those up to some point.
            let mode = self.random() % 4;
            let sectors: usize = inode
                .pending
                .iter()
                .map(|(_, b)| b.len() / SECTOR_BYTES + 2)
                .sum();
            let mut left = self.below(sectors + 1);
            for (offset, bytes) in std::mem::take(&mut inode.pending) {
                let mut at = 0;
                while at < bytes.len() {
                    let here = offset + at;
                    let room = SECTOR_BYTES - here % SECTOR_BYTES;
                    let end = bytes.len().min(at + room);
                    let kept = match mode {
                        0 => true,
                        1 => false,
                        2 => self.random().is_multiple_of(2),
                        _ => {
                            left = left.saturating_sub(1);
                            left > 0
                        }
                    };
                    if kept {
                        put(&mut inode.durable, here, &bytes[at..end]);
                    }
                    at = end;
                }
            }
            inode.content = inode.durable.clone();
            self.inodes.insert(id, inode);
        }
    }
}
