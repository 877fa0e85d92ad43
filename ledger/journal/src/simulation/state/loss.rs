//! The effects of a power loss.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::PathBuf,
};

use super::{State, names::apply, put};

/// The unit that is written or lost as a whole.
const SECTOR_BYTES: usize = 512;

impl State {
    /// Keeps the earlier ones of the unsynced changes of names in each directory, and loses the others.
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
            match left.get_mut(change.directory()).filter(|left| **left > 0) {
                Some(left) => {
                    *left -= 1;
                    apply(&mut self.durable_names, change);
                }
                None => self.fired.lost_names += 1,
            }
        }
        // The content of a directory is lost with it. Directories come before their content.
        let mut names: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for (path, inode) in &self.durable_names {
            let parent = path.parent().unwrap_or(path);
            if parent.parent().is_none() || names.contains_key(parent) {
                names.insert(path.clone(), *inode);
            }
        }
        self.names = names;
        self.durable_names = self.names.clone();
        let used: BTreeSet<u64> = self.names.values().copied().collect();
        self.inodes.retain(|inode, _| used.contains(inode));
        self.databases.retain(|inode, _| used.contains(inode));
    }

    /// Keeps any sectors of the unsynced writes, and loses the others.
    pub(super) fn lose_writes(&mut self) {
        let ids: Vec<u64> = self.inodes.keys().copied().collect();
        for id in ids {
            let Some(mut inode) = self.inodes.remove(&id) else {
                continue;
            };
            // All, none, some, or those up to some point.
            let mode = self.random() % 4;
            let sectors: usize =
                inode.pending.iter().map(|(_, b)| b.len() / SECTOR_BYTES + 2).sum();
            let mut left = self.below(sectors + 1);
            let (mut some_lost, mut kept_behind_lost) = (false, false);
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
                    some_lost |= !kept;
                    if kept {
                        kept_behind_lost |= some_lost;
                        put(&mut inode.durable, here, &bytes[at..end]);
                    }
                    at = end;
                }
            }
            self.fired.lost_writes += u64::from(some_lost);
            self.fired.reordered_writes += u64::from(kept_behind_lost);
            inode.content = inode.durable.clone();
            self.inodes.insert(id, inode);
        }
    }
}
