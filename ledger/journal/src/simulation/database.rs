//! A simulated sled.

use std::path::{Path, PathBuf};

use super::{
    super::{
        Damage, Error, Operation,
        disk::{Database, Pair},
    },
    SimDisk,
    state::{Fault, Pairs},
};

pub(super) struct SimDatabase {
    disk: SimDisk,
    inode: u64,
    directory: PathBuf,
}

impl SimDatabase {
    pub(super) fn open(disk: SimDisk, directory: &Path) -> Result<Self, Error> {
        let mut state = disk.state();
        let inode = state
            .open_database(directory)
            .map_err(|source| Error::io(directory, Operation::Open, source))?;
        assert!(!state.open_databases.contains(&inode), "{} is open already", directory.display());
        if state.databases.get(&inode).is_none_or(|pairs| pairs.broken) {
            return Err(Damage::new(directory, "simulated corruption").into());
        }
        state.open_databases.insert(inode);
        drop(state);
        Ok(Self { disk, inode, directory: directory.to_path_buf() })
    }

    fn with<T>(&self, operation: Operation, run: impl FnOnce(&mut Pairs) -> T) -> Result<T, Error> {
        let fail = |source| Error::io(&self.directory, operation, source);
        let mut state = self.disk.state();
        state.step().map_err(fail)?;
        let pairs = state.databases.get_mut(&self.inode);
        pairs.map(run).ok_or_else(|| fail(std::io::ErrorKind::NotFound.into()))
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
        self.with(Operation::Write, |pairs| {
            for (key, value) in new {
                pairs.now.insert(key.clone(), value.clone());
                pairs.pending.push((key, value));
            }
        })
    }

    fn sync(&self) -> Result<(), Error> {
        let fail = |source| Error::io(&self.directory, Operation::SyncFile, source);
        let mut state = self.disk.state();
        state.step().map_err(fail)?;
        let fault = state.sync_fault();
        let Some(pairs) = state.databases.get_mut(&self.inode) else {
            return Err(fail(std::io::ErrorKind::NotFound.into()));
        };
        match fault {
            // Only pending pairs are written: pairs that a failed sync dropped stay lost.
            Fault::None => pairs.durable.extend(std::mem::take(&mut pairs.pending)),
            Fault::Lies => {}
            Fault::Fails => {
                // The inserted pairs can be read, but will never be durable.
                pairs.pending.clear();
                return Err(fail(std::io::Error::other("simulated I/O error")));
            }
        }
        Ok(())
    }

    fn key_at_or_below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        self.with(Operation::Read, |pairs| {
            pairs.now.range(..=key.to_vec()).next_back().map(|(key, _)| key.clone())
        })
    }

    fn range(&self, from: &[u8], limit: usize) -> Result<Vec<Pair>, Error> {
        self.with(Operation::Read, |pairs| {
            pairs
                .now
                .range(from.to_vec()..)
                .take(limit)
                .map(|(key, value)| (key.clone(), value.clone()))
                .collect()
        })
    }
}
