//! A simulated sled: after an unclean stop it may have lost a suffix, silently, or refuse to open.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use super::{
    super::{
        Damage, Error,
        disk::{Database, Pair},
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
    directory: PathBuf,
}

impl State {
    /// Of the puts that were not made durable, some first ones are left, also after a kill; and one
    /// database in eight that was open does not open again.
    pub(super) fn lose_pairs(&mut self, crash: Crash) {
        let paths: Vec<PathBuf> = self.databases.keys().cloned().collect();
        for path in paths {
            let Some(mut pairs) = self.databases.remove(&path) else {
                continue;
            };
            let unclean = !pairs.pending.is_empty();
            if unclean {
                let kept = self.random() % (pairs.pending.len() as u64 + 1);
                for (number, (key, value)) in (0u64..).zip(std::mem::take(&mut pairs.pending)) {
                    if number < kept {
                        pairs.durable.insert(key, value);
                    }
                }
                pairs.broken = self.random().is_multiple_of(8);
            }
            if unclean || crash == Crash::PowerLoss {
                pairs.now = pairs.durable.clone();
            }
            self.databases.insert(path, pairs);
        }
        self.open_databases.clear();
    }
}

impl SimDatabase {
    pub(super) fn open(disk: SimDisk, directory: &Path) -> Result<Self, Error> {
        let mut state = disk.state();
        state
            .step()
            .map_err(|source| Error::io(directory, "open", source))?;
        assert!(
            state.open_databases.insert(directory.to_path_buf()),
            "{} is open already",
            directory.display()
        );
        let pairs = state.databases.entry(directory.to_path_buf()).or_default();
        if pairs.broken {
            state.open_databases.remove(directory);
            return Err(Error::Damaged(Damage {
                file: directory.to_path_buf(),
                offset: None,
                sequence: None,
                why: "simulated corruption".to_owned(),
            }));
        }
        drop(state);
        Ok(Self {
            disk,
            directory: directory.to_path_buf(),
        })
    }

    fn with<T>(
        &self,
        operation: &'static str,
        run: impl FnOnce(&mut Pairs, Fault) -> T,
    ) -> Result<T, Error> {
        let mut state = self.disk.state();
        state
            .step()
            .map_err(|source| Error::io(&self.directory, operation, source))?;
        let fault = state.sync_fault();
        let pairs = state.databases.entry(self.directory.clone()).or_default();
        Ok(run(pairs, fault))
    }
}

impl Drop for SimDatabase {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        state.open_databases.remove(&self.directory);
    }
}

impl Database for SimDatabase {
    fn insert(&self, new: Vec<Pair>) -> Result<(), Error> {
        self.with("write", |pairs, _| {
            for (key, value) in new {
                pairs.now.insert(key.clone(), value.clone());
                pairs.pending.push((key, value));
            }
        })
    }

    fn sync(&self) -> Result<(), Error> {
        self.with("flush", |pairs, fault| match fault {
            Fault::None => {
                // Only what is still to be written is written: what a failed sync dropped stays lost.
                pairs.durable.extend(std::mem::take(&mut pairs.pending));
                Ok(())
            }
            Fault::Lies => Ok(()),
            Fault::Fails => {
                // What was put can be read, but will never be durable.
                pairs.pending.clear();
                Err(std::io::Error::other("simulated I/O error"))
            }
        })?
        .map_err(|source| Error::io(&self.directory, "fdatasync", source))
    }

    fn key_at_or_below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with("read", |pairs, _| {
            pairs
                .now
                .range(..=key.to_vec())
                .next_back()
                .map(|(key, _)| key.clone())
        })
    }

    fn range(&self, from: &[u8], limit: usize) -> Result<Vec<Pair>, Error> {
        self.with("read", |pairs, _| {
            pairs
                .now
                .range(from.to_vec()..)
                .take(limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }
}
