//! Epochs: the ledger at rest, in sled, one database for each span of the ledger.
//!
//! An epoch is filled from the write-ahead log, which keeps all of its frames until the epoch is sealed: its database
//! closed and opened again, every frame checked against the chain, everything synced, and a seal written. So an
//! unsealed database is never the only copy of its entries, and can be discarded and rebuilt. Since sled's files never
//! shrink, compaction removes whole epochs.

mod block;
mod manifest;
mod read;
mod seal;

use std::{
    path::{Path, PathBuf},
    sync::{
        OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};

use super::{
    Damage, Durable, Error,
    disk::{Database, Disk, Pair},
    frame::{self, Parsed},
    journal::Throttle,
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
    /// Whether the open database is a copy.
    is_copied: AtomicBool,
    database: RwLock<Option<Box<dyn Database>>>,
    removed: Mutex<bool>,
}

/// The first sequence of the epoch in a directory of this name.
pub(super) fn first_of(name: &str) -> Option<u64> {
    (name.len() == 20).then(|| name.parse().ok()).flatten()
}

impl Epoch {
    /// The epoch that begins behind `before`; its database is opened on demand.
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

    /// Calls `run` with the open database, which is opened if necessary.
    fn with<T>(
        &self,
        disk: &dyn Disk,
        run: impl FnOnce(&dyn Database) -> Result<T, Error>,
    ) -> Result<T, Error> {
        loop {
            if let Some(database) = &*self.database.read() {
                return run(database.as_ref())
                    .map_err(|error| self.placed(error, self.first_sequence()));
            }
            let mut slot = self.database.write();
            if *self.removed.lock() {
                let first = self.first_sequence();
                return Err(Error::Compacted { first });
            }
            if slot.is_none() {
                let opened =
                    self.open(disk).map_err(|error| self.placed(error, self.first_sequence()))?;
                *slot = Some(opened);
            }
        }
    }

    /// Opens the database. sled repairs a damaged database when it opens it. A sealed epoch is the only copy of its
    /// entries, so sled opens a copy of it, unless its files have been verified against the manifest.
    fn open(&self, disk: &dyn Disk) -> Result<Box<dyn Database>, Error> {
        let path = self.directory.join(DATABASE);
        // sled would create a missing database.
        if self.sealed.get().is_some() && disk.list(&path)?.is_empty() {
            return Err(self.damaged(&self.before, "the database is missing".to_owned()));
        }
        let as_it_is = self.sealed.get().is_none() || disk.is_read_only() || {
            match seal::manifest(disk, &self.directory) {
                Ok(manifest) => manifest.difference(disk, &path)?.is_none(),
                Err(Error::Damaged(_)) => false,
                Err(error) => return Err(error),
            }
        };
        self.is_copied.store(!as_it_is, Ordering::Relaxed);
        match as_it_is {
            true => disk.database(&path),
            false => disk.private_database(&path),
        }
    }

    /// Whether the open database is a copy, since its files may differ from the manifest.
    pub(super) fn is_copied(&self) -> bool {
        self.is_copied.load(Ordering::Relaxed)
    }

    /// The difference between its files and the manifest. Whether the entries can still be read is decided by
    /// [`Self::check`].
    pub(super) fn difference(&self, disk: &dyn Disk) -> Result<Option<Damage>, Error> {
        let difference = match seal::manifest(disk, &self.directory) {
            Ok(manifest) => manifest.difference(disk, &self.directory.join(DATABASE)),
            Err(Error::Damaged(damage)) => Ok(Some(damage)),
            Err(error) => Err(error),
        };
        Ok(difference?.map(|damage| self.place(damage, self.first_sequence())))
    }

    /// Damage to any part may affect all entries of the epoch.
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

    /// Closes the database after its last reader. Errors are irrelevant here and ignored.
    pub(super) fn close(&self) {
        let _ = self.try_close();
    }

    fn try_close(&self) -> Result<(), Error> {
        self.database.write().take().map_or(Ok(()), Database::close)
    }

    /// Closes the database and removes everything.
    pub(super) fn remove(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.database.write();
        *self.removed.lock() = true;
        let _ = slot.take().map(Database::close);
        disk.remove_directory(&self.directory)
    }

    /// Discards an unsealed database, so that it is rebuilt.
    pub(super) fn reset(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.database.write();
        let _ = slot.take().map(Database::close);
        disk.remove_directory(&self.directory)
    }

    /// Inserts the frames of a chunk, which continue the present content. The keys are inserted first, without values:
    /// sled splits its pages while that is cheap, and then writes each value once instead of three times.
    pub(super) fn put(
        &self,
        disk: &dyn Disk,
        before: &Durable,
        frames: &[u8],
        throttle: &Throttle,
    ) -> Result<(), Error> {
        let pairs = blocks(before, frames, throttle).map_err(|why| self.damaged(before, why))?;
        let mut puts: Vec<_> = pairs.iter().map(|(key, _)| (key.clone(), Vec::new())).collect();
        puts.extend(pairs);
        // Keys and values need only one sync: their state after a crash is ignored, unless the database was closed
        // cleanly or sealed.
        self.with(disk, |database| database.insert(puts))
    }

    /// Makes all inserted frames durable.
    pub(super) fn sync(&self, disk: &dyn Disk) -> Result<(), Error> {
        self.with(disk, |database| database.sync())
    }

    fn damaged(&self, position: &Durable, why: String) -> Error {
        Error::Damaged(
            Damage::new(&self.directory, why)
                .at_sequence(position.sequence.saturating_add(1))
                .through(self.sealed.get().copied()),
        )
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

/// Splits frames into blocks.
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
