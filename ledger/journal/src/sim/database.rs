//! A simulated sled: after an unclean stop it may have lost a suffix, silently, or refuse to open.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    super::{
        Damage, Error,
        disk::{Database, Listed, Pair},
    },
    Crash, SimDisk,
    state::{Fault, State},
};

/// The pairs of a database.
#[derive(Clone, Default)]
pub(super) struct Pairs {
    now: BTreeMap<Vec<u8>, Vec<u8>>,
    durable: BTreeMap<Vec<u8>, Vec<u8>>,
    /// Puts that are not durable, in order.
    pending: Vec<Pair>,
    broken: bool,
}

pub(super) struct SimDatabase {
    disk: SimDisk,
    inode: u64,
    directory: PathBuf,
}

impl Pairs {
    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty()
    }

    /// Its one file.
    pub(super) fn listed(&self) -> Listed {
        let bytes = self.now.values().map(|value| value.len() as u64).sum();
        Listed {
            name: "db".to_owned(),
            is_directory: false,
            length: bytes,
        }
    }

    /// Turns one bit of one value. sled would see that in a read, or not open; here the value is simply wrong.
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
    /// Of the puts that were not made durable, some first ones are left, also after a kill; and one
    /// database in eight that was open does not open again.
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

impl SimDatabase {
    pub(super) fn open(disk: SimDisk, directory: &Path) -> Result<Self, Error> {
        let mut state = disk.state();
        let inode = state
            .open_database(directory)
            .map_err(|source| Error::io(directory, "open", source))?;
        assert!(
            !state.open_databases.contains(&inode),
            "{} is open already",
            directory.display()
        );
        if state.databases.get(&inode).is_none_or(|pairs| pairs.broken) {
            return Err(Error::Damaged(Damage {
                file: directory.to_path_buf(),
                offset: None,
                sequence: None,
                through: None,
                why: "simulated corruption".to_owned(),
            }));
        }
        state.open_databases.insert(inode);
        drop(state);
        Ok(Self {
            disk,
            inode,
            directory: directory.to_path_buf(),
        })
    }

    fn with<T>(
        &self,
        operation: &'static str,
        run: impl FnOnce(&mut Pairs) -> T,
    ) -> Result<T, Error> {
        let fail = |source| Error::io(&self.directory, operation, source);
        let mut state = self.disk.state();
        state.step().map_err(fail)?;
        let pairs = state.databases.get_mut(&self.inode);
        pairs
            .map(run)
            .ok_or_else(|| fail(std::io::ErrorKind::NotFound.into()))
    }
}

impl Drop for SimDatabase {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.open_databases.remove(&self.inode);
    }
}

impl Database for SimDatabase {
    fn insert(&self, new: Vec<Pair>) -> Result<(), Error> {
        self.with("write", |pairs| {
            for (key, value) in new {
                pairs.now.insert(key.clone(), value.clone());
                pairs.pending.push((key, value));
            }
        })
    }

    fn sync(&self) -> Result<(), Error> {
        let fail = |source| Error::io(&self.directory, "fdatasync", source);
        let mut state = self.disk.state();
        state.step().map_err(fail)?;
        let fault = state.sync_fault();
        let Some(pairs) = state.databases.get_mut(&self.inode) else {
            return Err(fail(std::io::ErrorKind::NotFound.into()));
        };
        match fault {
            // Only what is still to be written is written: what a failed sync dropped stays lost.
            Fault::None => pairs.durable.extend(std::mem::take(&mut pairs.pending)),
            Fault::Lies => {}
            Fault::Fails => {
                // What was put can be read, but will never be durable.
                pairs.pending.clear();
                return Err(fail(std::io::Error::other("simulated I/O error")));
            }
        }
        Ok(())
    }

    fn key_at_or_below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with("read", |pairs| {
            pairs
                .now
                .range(..=key.to_vec())
                .next_back()
                .map(|(key, _)| key.clone())
        })
    }

    fn range(&self, from: &[u8], limit: usize) -> Result<Vec<Pair>, Error> {
        self.with("read", |pairs| {
            pairs
                .now
                .range(from.to_vec()..)
                .take(limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }
}
