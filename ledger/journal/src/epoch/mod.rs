//! Epochs: the ledger at rest, in sled, one database for each span of the ledger.
//!
//! An epoch is filled behind the write-ahead log, which keeps all of its frames until it is sealed: its
//! database closed and opened again, every frame checked against the chain, everything synced, and a
//! seal written. So an unsealed database is never the only copy of anything, and may be thrown away
//! and made again; and since sled's files never shrink, whole epochs are what compaction removes.

mod block;
mod check;
mod closed;
mod manifest;
mod read;
mod seal;
mod sealing;

use planted::Bug;
use std::{
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::{
    Damage, Durable, Error,
    disk::{Database, Disk, Pair},
    frame::{self, Parsed},
    throttle::Throttle,
};

pub use seal::Seal;

/// Directory of the epochs, in the data directory.
pub(super) const DIRECTORY: &str = "epochs";

/// Directory of the database, in the epoch's.
const DATABASE: &str = "sled";

/// One span of the ledger.
pub(super) struct Epoch {
    directory: PathBuf,
    /// The chain before its first batch.
    pub(super) before: Durable,
    /// Sequence of its last entry, once it is sealed.
    sealed: OnceLock<u64>,
    /// Whether a copy of the database was opened.
    is_copied: AtomicBool,
    database: RwLock<Option<Box<dyn Database>>>,
    removed: Mutex<bool>,
}

/// The first sequence of the epoch in a directory of this name.
pub(super) fn first_of(name: &str) -> Option<u64> {
    (name.len() == 20).then(|| name.parse().ok()).flatten()
}

impl Epoch {
    /// The epoch that begins behind `before`; its database is opened when it is needed.
    pub(super) fn new(epochs: &Path, before: Durable) -> Self {
        let first = before.sequence.saturating_add(1);
        Self {
            directory: epochs.join(format!("{first:020}")),
            before,
            sealed: OnceLock::new(),
            is_copied: AtomicBool::new(false),
            database: RwLock::new(None),
            removed: Mutex::new(false),
        }
    }

    /// A sealed epoch.
    pub(super) fn sealed(epochs: &Path, seal: &Seal) -> Self {
        let epoch = Self::new(epochs, seal.before);
        let _ = epoch.sealed.set(seal.last.sequence);
        epoch
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    fn first_sequence(&self) -> u64 {
        self.before.sequence.saturating_add(1)
    }

    fn opened(&self) -> RwLockReadGuard<'_, Option<Box<dyn Database>>> {
        self.database.read()
    }

    fn opened_mut(&self) -> RwLockWriteGuard<'_, Option<Box<dyn Database>>> {
        self.database.write()
    }

    /// Runs something on the open database, opening it first if need be.
    fn with<T>(
        &self,
        disk: &dyn Disk,
        run: impl FnOnce(&dyn Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            if let Some(database) = &*self.opened() {
                return run(database.as_ref())
                    .map_err(|error| self.placed(error, self.first_sequence()));
            }
            let mut slot = self.opened_mut();
            if *self.removed.lock() {
                let first = self.first_sequence();
                return Err(Error::Compacted { first });
            }
            if slot.is_none() {
                let opened = self
                    .open(disk)
                    .map_err(|error| self.placed(error, self.first_sequence()))?;
                *slot = Some(opened);
            }
        }
    }

    /// Opens the database. sled repairs what it opens; so of a sealed epoch, which is the only copy, it gets a copy,
    /// unless its files are known to be as they were sealed.
    fn open(&self, disk: &dyn Disk) -> Result<Box<dyn Database>, Error> {
        let path = self.directory.join(DATABASE);
        let as_it_is = self.sealed.get().is_none() || disk.is_read_only() || {
            match seal::manifest(disk, &self.directory) {
                Ok(Some(manifest)) => manifest.difference(disk, &path)?.is_none(),
                Ok(None) | Err(Error::Damaged(_)) => false,
                Err(error) => return Err(error),
            }
        };
        self.is_copied.store(!as_it_is, Ordering::Relaxed);
        match as_it_is {
            true => disk.database(&path),
            false => disk.private_database(&path),
        }
    }

    /// Whether the database was not opened as it is, since its files may not be as they were sealed.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied.load(Ordering::Relaxed)
    }

    /// What of its files is not as it was sealed. Whether the entries can be read all the same, [`Self::check`] says.
    pub(super) fn difference(&self, disk: &dyn Disk) -> Result<Option<Damage>, Error> {
        let difference = match seal::manifest(disk, &self.directory) {
            Ok(None) => Ok(None),
            Ok(Some(manifest)) => manifest.difference(disk, &self.directory.join(DATABASE)),
            Err(Error::Damaged(damage)) => Ok(Some(damage)),
            Err(error) => Err(error),
        };
        Ok(difference?.map(|damage| self.place(damage, self.first_sequence())))
    }

    /// Damage to anything in it may be damage to all that it holds.
    fn place(&self, damage: Damage, first: u64) -> Damage {
        Damage {
            sequence: damage.sequence.or(Some(first)),
            through: damage.through.or(self.sealed.get().copied()),
            ..damage
        }
    }

    fn placed(&self, error: Error, first: u64) -> Error {
        match error {
            Error::Damaged(damage) => self.place(damage, first).into(),
            error => error,
        }
    }

    /// Closes the database behind its last reader. Errors do not matter here and are dropped.
    pub(super) fn close(&self) {
        let _ = self.try_close();
    }

    fn try_close(&self) -> Result<(), Error> {
        self.opened_mut().take().map_or(Ok(()), Database::close)
    }

    /// Closes the database and removes everything.
    pub(super) fn remove(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.opened_mut();
        *self.removed.lock() = true;
        let _ = slot.take().map(Database::close);
        disk.remove_directory(&self.directory)
    }

    /// Throws an unsealed database away, so that it is made again.
    pub(super) fn reset(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.opened_mut();
        let _ = slot.take().map(Database::close);
        disk.remove_directory(&self.directory)
    }

    /// Puts the frames of a chunk, which continue what is there, into the database. The keys go first, without
    /// values: sled splits its pages while that costs nothing, and then writes each value once instead of thrice.
    pub(super) fn put(
        &self,
        disk: &dyn Disk,
        before: &Durable,
        frames: &[u8],
        throttle: &Throttle,
    ) -> Result<(), Error> {
        let pairs = blocks(before, frames, throttle).map_err(|why| self.damaged(before, why))?;
        let mut puts: Vec<_> = pairs
            .iter()
            .map(|(key, _)| (key.clone(), Vec::new()))
            .collect();
        puts.extend(pairs);
        // Synced once at the most, keys and values: what a crash leaves of either is not looked at, unless the
        // database was closed behind both, or sealed.
        self.with(disk, |database| database.insert(puts))
    }

    /// Makes everything durable that was put.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), Error> {
        if planted::is(Bug::EpochNotSynced) {
            return Ok(());
        }
        self.with(disk, |database| database.sync())
    }

    fn damaged(&self, position: &Durable, why: String) -> Error {
        Error::Damaged(Damage {
            file: self.directory.clone(),
            offset: None,
            sequence: Some(position.sequence.saturating_add(1)),
            through: self.sealed.get().copied(),
            why,
        })
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.close();
    }
}

/// Bytes of all files in a directory and below it.
pub(super) fn stored_bytes(disk: &dyn Disk, directory: &Path) -> Result<u64, Error> {
    let mut bytes = 0u64;
    for listed in disk.list(directory)? {
        let more = if listed.is_directory {
            stored_bytes(disk, &directory.join(&listed.name))?
        } else {
            listed.length
        };
        bytes = bytes.saturating_add(more);
    }
    Ok(bytes)
}

/// Cuts frames into blocks.
fn blocks(before: &Durable, frames: &[u8], throttle: &Throttle) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    let mut position = *before;
    let mut block = (position, 0, 0);
    while let Some(rest) = frames.get(block.2..).filter(|rest| !rest.is_empty()) {
        let Parsed::Complete(found) = frame::parse(rest) else {
            return Err("frames that cannot be read".to_owned());
        };
        let end = block.2.saturating_add(found.bytes.len());
        if block.2 > block.1 && end.saturating_sub(block.1) > block::BLOCK_BYTES {
            block::encode(&block.0, &frames[block.1..block.2], &mut pairs);
            throttle.pause();
            block = (position, block.2, block.2);
        }
        position = found.end();
        block.2 = end;
    }
    if block.2 > block.1 {
        block::encode(&block.0, &frames[block.1..block.2], &mut pairs);
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests;
