//! Epochs: the ledger at rest, in sled, one database for each span of the ledger.
//!
//! An epoch is filled behind the commit log, which keeps all of its frames until it is sealed: its
//! database closed and opened again, every frame checked against the chain, everything synced, and a
//! seal written. So an unsealed database is never the only copy of anything, and may be thrown away
//! and made again; and since sled's files never shrink, whole epochs are what compaction removes.

mod block;
mod manifest;
mod seal;

use planted::Bug;
use std::{
    path::{Path, PathBuf},
    sync::{
        Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    Damage, Durable, Error,
    codec::{POSITION_BYTES, Record, open_record, record_bytes},
    disk::{Database, Disk, Pair, parent},
    frame::{self, Parsed},
    pauses::Pauses,
    reader::Chunk,
};

use manifest::Manifest;

pub use seal::Seal;

/// Directory of the epochs, in the data directory.
pub(super) const DIRECTORY: &str = "epochs";

/// Directory of the database, in the epoch's.
const DATABASE: &str = "sled";

/// Note in the directory of an unsealed epoch whose database was closed cleanly: how far it goes.
const CLOSED: &str = "CLOSED";

const CLOSED_MAGIC: [u8; 3] = *b"QLC";

/// Pairs of a database that are read at a time: at most 256 KiB.
const CHUNK_PAIRS: usize = 64;

/// No more is put into a chunk when it has so many bytes of frames: what compresses well may grow.
const CHUNK_BYTES: usize = 1024 * 1024;

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
        self.database.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn opened_mut(&self) -> RwLockWriteGuard<'_, Option<Box<dyn Database>>> {
        self.database
            .write()
            .unwrap_or_else(PoisonError::into_inner)
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
            if *self.removed.lock().unwrap_or_else(PoisonError::into_inner) {
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

    /// Whether the database was not opened as it is, since its files are not known to be as they were sealed.
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

    /// Closes the database, once nobody reads from it any more. Whether that succeeds matters to nobody.
    pub(super) fn close(&self) {
        let _ = self.try_close();
    }

    fn try_close(&self) -> Result<(), Error> {
        self.opened_mut().take().map_or(Ok(()), Database::close)
    }

    /// Closes the database and removes everything.
    pub(super) fn remove(&self, disk: &dyn Disk) -> Result<(), Error> {
        let mut slot = self.opened_mut();
        *self.removed.lock().unwrap_or_else(PoisonError::into_inner) = true;
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
        pauses: &Pauses,
    ) -> Result<(), Error> {
        let pairs = blocks(before, frames, pauses).map_err(|why| self.damaged(before, why))?;
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

    /// Frames from the one on that holds `from`, or from a little before it. Empty if there are none.
    pub(super) fn chunk(&self, disk: &dyn Disk, from: u64) -> Result<Chunk, Error> {
        self.chunk_in(disk, from, Vec::new())
    }

    /// As [`Self::chunk`], in memory that was used before.
    fn chunk_in(&self, disk: &dyn Disk, from: u64, mut memory: Vec<u8>) -> Result<Chunk, Error> {
        memory.clear();
        let mut chunk = Chunk::empty(self.before, &self.directory);
        chunk.bytes = memory;
        chunk.through = self.sealed.get().copied();
        self.with(disk, |database| {
            let filled = self.fill(&mut chunk, database, from);
            filled.map_err(|error| self.placed(error, from))
        })?;
        Ok(chunk)
    }

    fn fill(&self, chunk: &mut Chunk, database: &dyn Database, from: u64) -> Result<(), Error> {
        let place = |why| {
            let position = Durable {
                sequence: from.saturating_sub(1),
                ..self.before
            };
            self.damaged(&position, why)
        };
        let Some(found) = database.key_at_or_below(&block::key(from, u32::MAX))? else {
            return Ok(());
        };
        let Some((first, _)) = block::parse_key(&found) else {
            return Err(place("a key that is none".to_owned()));
        };
        let key = block::key(first, 0);
        let mut pairs = filled(database, &key, CHUNK_PAIRS)?;
        if pairs.is_empty() {
            return Err(place("a block that has no value".to_owned()));
        }
        let mut blocks = Vec::new();
        let mut at = 0;
        let mut length = 0usize;
        while let Some((_, value)) = pairs.get(at) {
            let header = block::parse_header(value).map_err(place)?;
            let end = at.saturating_add(header.pieces);
            if at > 0 && (end > pairs.len() || length >= CHUNK_BYTES) {
                break;
            }
            if end > pairs.len() {
                pairs = filled(database, &key, header.pieces)?;
                if pairs.len() < header.pieces {
                    return Err(place("a block whose end is missing".to_owned()));
                }
            }
            if at == 0 {
                chunk.before = header.before;
            }
            length = length.saturating_add(header.length);
            blocks.push((header, at..end));
            at = end;
        }
        // At once: growing step by step would leave memory of every size behind.
        chunk.bytes.reserve_exact(length);
        for (header, pieces) in blocks {
            let pieces = pairs.get(pieces).unwrap_or_default();
            block::decode(&header, pieces, &mut chunk.bytes).map_err(place)?;
        }
        Ok(())
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

    /// Reads everything there is and checks it against the chain. `visit` sees each frame.
    pub(super) fn verify(
        &self,
        disk: &dyn Disk,
        mut visit: impl FnMut(&frame::Frame<'_>),
    ) -> Result<Durable, Error> {
        let mut position = self.before;
        let mut memory = Vec::new();
        loop {
            let next = position.sequence.saturating_add(1);
            let chunk = self.chunk_in(disk, next, memory)?;
            if chunk.before != position || chunk.bytes.is_empty() {
                return self.ends_at(disk, position);
            }
            let mut rest = chunk.bytes.as_slice();
            while !rest.is_empty() {
                let found = match frame::parse(rest) {
                    Parsed::Complete(found) => found,
                    other => return Err(self.damaged(&position, format!("{other:?}"))),
                };
                position = found
                    .follow(&position)
                    .map_err(|why| self.damaged(&position, why))?;
                visit(&found);
                rest = &rest[found.bytes.len()..];
            }
            memory = chunk.bytes;
        }
    }

    /// Nothing may stand behind the end, nor where there should be nothing.
    fn ends_at(&self, disk: &dyn Disk, position: Durable) -> Result<Durable, Error> {
        let last = self.with(disk, |database| database.key_at_or_below(&[u8::MAX; 12]))?;
        let first = last.and_then(|key| block::parse_key(&key));
        match first {
            Some((first, _)) if first > position.sequence || position == self.before => {
                let why = format!("it holds sequence {first}, which does not follow");
                Err(self.damaged(&position, why))
            }
            _ => Ok(position),
        }
    }

    /// Reads everything there is and compares it with the seal.
    pub(super) fn check(
        &self,
        disk: &dyn Disk,
        seal: &Seal,
        visit: impl FnMut(&frame::Frame<'_>),
    ) -> Result<(), Error> {
        let found = self.verify(disk, visit)?;
        if found == seal.last {
            return Ok(());
        }
        let why = format!(
            "it ends at sequence {}, but was sealed at {}",
            found.sequence, seal.last.sequence
        );
        Err(self.damaged(&found, why))
    }

    /// Closes, opens again, verifies that everything up to `last` is there, syncs, closes, and writes the
    /// seal with what the files are now: reading changes them no more.
    pub(super) fn seal(
        &self,
        disk: &dyn Disk,
        last: &Durable,
        pauses: &Pauses,
    ) -> Result<Seal, Error> {
        self.sync(disk)?;
        self.try_close()?;
        let mut seal = Seal {
            before: self.before,
            last: *last,
            first_time: last.time,
            batches: 0,
            frame_bytes: 0,
            stored_bytes: 0,
        };
        let found = self.verify(disk, |frame| {
            if seal.batches == 0 {
                seal.first_time = frame.time;
            }
            seal.batches = seal.batches.saturating_add(1);
            seal.frame_bytes = seal.frame_bytes.saturating_add(frame.bytes.len() as u64);
            pauses.pause();
        })?;
        if found != *last {
            let why = format!(
                "it ends at sequence {} instead of {}",
                found.sequence, last.sequence
            );
            return Err(self.damaged(&found, why));
        }
        self.sync(disk)?;
        self.try_close()?;
        seal.stored_bytes = stored_bytes(disk, &self.directory)?;
        let manifest = Manifest::take(disk, &self.directory.join(DATABASE), pauses)?;
        seal.write(disk, &self.directory, &manifest)?;
        disk.sync_directory(parent(&self.directory))?;
        let _ = self.sealed.set(last.sequence);
        Ok(seal)
    }

    /// Adds to a seal from before there were manifests what the files are, which were just found to be right. Gives
    /// whether that was needed.
    pub(super) fn add_manifest(&self, disk: &dyn Disk, seal: &Seal) -> Result<bool, Error> {
        if disk.is_read_only() || seal::manifest(disk, &self.directory)?.is_some() {
            return Ok(false);
        }
        let database = self.directory.join(DATABASE);
        let manifest = Manifest::take(disk, &database, &Pauses::default())?;
        seal.write(disk, &self.directory, &manifest)?;
        Ok(true)
    }

    /// Closes the database cleanly, so that it can be used again.
    pub(super) fn close_at(&self, disk: &dyn Disk, moved: &Durable) -> Result<(), Error> {
        if moved.sequence == self.before.sequence {
            return Ok(());
        }
        self.sync(disk)?;
        self.try_close()?;
        let record = Record::new(CLOSED_MAGIC).position(moved).finish();
        disk.replace(&self.directory.join(CLOSED), &record)
    }

    /// How far the database was filled when it was closed; none if it was not closed cleanly, or is
    /// not right. The note is taken away: from now on the database changes.
    pub(super) fn reopen(&self, disk: &dyn Disk) -> Result<Option<Durable>, Error> {
        let path = self.directory.join(CLOSED);
        let Some(bytes) = disk.read(&path, record_bytes(POSITION_BYTES))? else {
            return Ok(None);
        };
        disk.remove_file(&path)?;
        disk.sync_directory(&self.directory)?;
        let noted = closed_at(&bytes);
        let verified = self.verify(disk, |_| {});
        // What it takes of memory while it is open is more than what was checked; the mover opens it when it needs it.
        self.close();
        match verified {
            Ok(found) => Ok(noted.filter(|noted| *noted == found)),
            Err(Error::Damaged(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// What an epoch that is being filled tells of the commit log, from which it is filled: how far it was when its
    /// database was closed, and how far the frames in it go. It may be behind the log, but never differ from it.
    pub(super) fn witnessed(&self, disk: &dyn Disk) -> Result<Vec<Durable>, Error> {
        let noted = disk.read(&self.directory.join(CLOSED), record_bytes(POSITION_BYTES))?;
        let mut witnessed = Vec::from_iter(noted.and_then(|bytes| closed_at(&bytes)));
        let mut last = None;
        let verified = self.verify(disk, |frame| last = Some(frame.end()));
        self.close();
        match verified {
            // What a killed process wrote may be of no use; what is right in it was durable in the log.
            Ok(_) | Err(Error::Damaged(_)) => witnessed.extend(last),
            Err(error) => return Err(error),
        }
        Ok(witnessed)
    }

    /// Makes the seal durable as it was read, before the log lets go of what it vouches for.
    pub(super) fn sync_seal(&self, disk: &dyn Disk) -> Result<(), Error> {
        disk.open(&self.directory.join(seal::FILE))?.sync()?;
        disk.sync_directory(&self.directory)?;
        disk.sync_directory(parent(&self.directory))
    }
}

impl Drop for Epoch {
    fn drop(&mut self) {
        self.close();
    }
}

/// What the note of a clean closing says.
fn closed_at(bytes: &[u8]) -> Option<Durable> {
    open_record(CLOSED_MAGIC, bytes).ok()?.position()
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

/// Pairs from a key on, up to the first that has no value: it is being put, behind what anybody asks for.
fn filled(database: &dyn Database, key: &[u8], limit: usize) -> Result<Vec<Pair>, Error> {
    let mut pairs = database.range(key, limit)?;
    let end = pairs.iter().position(|(_, value)| value.is_empty());
    pairs.truncate(end.unwrap_or(pairs.len()));
    Ok(pairs)
}

/// Cuts frames into blocks.
fn blocks(before: &Durable, frames: &[u8], pauses: &Pauses) -> Result<Vec<Pair>, String> {
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
            pauses.pause();
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
