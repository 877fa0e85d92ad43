//! The journal on this machine's disk.

use std::{path::Path, sync::Arc};

use parking_lot::RwLockReadGuard;

use crate::{
    Batch, Batches, Damage, Durable, Error, Journal, Reader,
    compaction::{self, Compaction, Retention},
    disk::{Disk, Lock},
    journal::{Options, Stats},
    maintenance::{FLUSH_BYTES, Maintenance},
    positions::Base,
    reader::BatchReader,
    recovery::{self, Opened, Recovery},
    snapshot::{SnapshotInfo, Snapshots},
    store::Store,
};

/// The writing side of an open journal. It holds the lock of the data directory.
pub struct FileJournal {
    maintenance: Maintenance,
    pub(super) store: Arc<Store>,
    unflushed: u64,
    _lock: Box<dyn Lock>,
}

/// The reading side of an open journal, and its maintenance: snapshots, compaction, figures. Cheap to clone;
/// usable from any thread.
#[derive(Clone)]
pub struct FileReader {
    pub(super) store: Arc<Store>,
}

impl FileJournal {
    /// Opens the journal in a data directory, or begins one: takes the lock, cleans up after a killed process, checks
    /// everything against the chain, and makes durable everything that it read.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Damaged`], [`Error::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
    ) -> Result<(Self, FileReader, Recovery), Error> {
        Self::from_opened(recovery::open(disk, directory, options)?)
    }

    /// Begins a journal in a new directory, behind a position in the chain. The directory is a ledger only after the
    /// state at that position is in it as a snapshot.
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        directory: &Path,
        base: &Base,
        options: Options,
    ) -> Result<(Self, FileReader, Recovery), Error> {
        Self::from_opened(recovery::begin(disk, directory, base, options)?)
    }

    fn from_opened(opened: Opened) -> Result<(Self, FileReader, Recovery), Error> {
        let store = Arc::new(opened.store);
        if !store.has_segment() {
            store.prepare_segment();
        }
        let maintenance = Maintenance::start(&store)?;
        store.signal.prepare();
        store.signal.flush_now();
        let reader = FileReader::new(Arc::clone(&store));
        let journal = Self { maintenance, store, unflushed: 0, _lock: opened.lock };
        Ok((journal, reader, opened.recovery))
    }

    /// Does one step of the work of the background threads. Returns whether there was anything to do.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    pub fn work(&self) -> Result<bool, Error> {
        let prepared = self.store.prepare_segment();
        Ok(self.store.flush_some(0)? || prepared)
    }

    /// Stops cleanly: everything durable, flushed into sled, and closed.
    ///
    /// # Errors
    /// As [`Journal::sync`]. The journal is closed in any case. Readers can read nothing afterwards.
    pub fn close(mut self) -> Result<Durable, Error> {
        let durable = self.sync()?;
        self.maintenance.stop();
        self.store.flush_all()?;
        self.store.write.sync_anchor()?;
        Ok(durable)
    }
}

impl Journal for FileJournal {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.store.append(&batch)
    }

    fn sync(&mut self) -> Result<Durable, Error> {
        self.commit(true)
    }

    fn write(&mut self) -> Result<Durable, Error> {
        self.commit(false)
    }
}

impl FileJournal {
    fn commit(&mut self, syncs: bool) -> Result<Durable, Error> {
        let (durable, bytes) = self.store.commit(syncs)?;
        self.unflushed = self.unflushed.saturating_add(bytes);
        if self.unflushed >= FLUSH_BYTES {
            self.unflushed = 0;
            self.store.signal.flush_now();
        }
        Ok(durable)
    }
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        self.maintenance.stop();
        self.store.close();
    }
}

impl FileReader {
    pub(super) const fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Reads from the batch that holds the entry `from`, as [`Reader::read`] does, but can lend batches.
    pub fn batches(&self, from: u64) -> BatchReader {
        BatchReader::new(Arc::clone(&self.store) as Arc<_>, from)
    }

    /// Whether this ledger has a position: the chain has this hash behind this entry.
    ///
    /// # Errors
    /// [`Error::Compacted`]: the entry is no longer kept; [`Error::Damaged`], [`Error::Io`].
    pub fn has(&self, position: &Durable) -> Result<bool, Error> {
        let ends = [Durable::NOTHING, self.store.base_position(), self.store.durable()];
        if let Some(end) = ends.iter().find(|end| end.sequence == position.sequence) {
            return Ok(end.hash == position.hash);
        }
        match self.batches(position.sequence).next_batch() {
            Some(batch) => batch.map(|batch| {
                batch.last_sequence() == position.sequence && batch.hash == position.hash
            }),
            None => Ok(false),
        }
    }

    /// The snapshots.
    pub fn snapshots(&self) -> Snapshots {
        self.store.snapshots.clone()
    }

    /// The newest snapshot of less than `before` entries that is valid and agrees with the chain, and the damage to others.
    ///
    /// # Errors
    /// [`Error::Damaged`] if there is none and the first entries are not kept, [`Error::Io`].
    pub fn snapshot_before(
        &self,
        before: u64,
    ) -> Result<(Option<SnapshotInfo>, Vec<Damage>), Error> {
        crate::recovery::choose(&self.store, before)
    }

    /// Removes everything outside `retention`: whole epochs, archived first if there is an archive, and the snapshots
    /// before the kept entries. Entries needed for a replay from the second newest snapshot stay. Entries in the
    /// current epoch are removed at a later call, and so is everything while a backup is made or another compaction runs.
    ///
    /// # Errors
    /// [`Error::Damaged`] if an epoch to be archived is damaged, [`Error::Io`]; then the epochs before it are removed.
    pub fn compact(
        &self,
        now: quota_semantics::Timestamp,
        retention: &Retention,
    ) -> Result<Compaction, Error> {
        self.store.lifecycle.check()?;
        compaction::compact(&self.store, now, retention)
    }

    /// The position up to which the write-ahead log is synced: all of it, except for batches that were only
    /// [written](Journal::write).
    pub fn synced(&self) -> Durable {
        self.store.write.synced()
    }

    /// Makes the written batches durable, and returns the position.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    pub fn sync(&self) -> Result<Durable, Error> {
        self.store.sync_written()?;
        Ok(self.synced())
    }

    /// Figures for metrics.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.store.stats()
    }

    /// The first sequence in the data directory: 1 until compaction removes entries.
    pub fn kept_from(&self) -> u64 {
        self.store.base_position().sequence.saturating_add(1)
    }

    /// The base position of the data directory.
    pub(super) fn base(&self) -> Base {
        self.store.base()
    }

    /// Waits for a running compaction, and prevents others while the result is held.
    pub(super) fn hold_compaction(&self) -> RwLockReadGuard<'_, ()> {
        self.store.compaction.read()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.store.directory
    }

    /// The error that ended the journal, if there was one.
    pub fn poisoned(&self) -> Option<Arc<Error>> {
        self.store.lifecycle.poisoned()
    }
}

impl Reader for FileReader {
    fn read(&self, from: u64) -> Batches {
        Box::new(self.batches(from))
    }

    fn first_sequence(&self) -> u64 {
        self.store.first_sequence()
    }

    fn durable(&self) -> Durable {
        self.store.durable()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::SimDisk;

    fn append(journal: &mut FileJournal, first_sequence: u64) {
        let batch = Batch {
            first_sequence,
            count: 1,
            time: quota_semantics::Timestamp::EPOCH,
            payload: vec![7; 60_000],
        };
        journal.append(batch).unwrap();
        journal.sync().unwrap();
    }

    #[test]
    fn little_is_moved_only_at_the_end_of_its_segment() {
        let options =
            Options { segment_bytes: 3 * FLUSH_BYTES, background: false, ..Options::default() };
        let directory = Path::new("/data");
        let disk = Arc::new(SimDisk::new(1));
        let (mut journal, reader, _) = FileJournal::open(disk, directory, options).unwrap();
        let store = Arc::clone(&journal.store);
        let flushed = || store.epochs.current().flushed.sequence;
        append(&mut journal, 1);
        assert!(!store.flush_some(FLUSH_BYTES / 2).unwrap());
        for sequence in 2..=12 {
            append(&mut journal, sequence);
        }
        assert!(store.flush_some(FLUSH_BYTES / 2).unwrap());
        assert_eq!(flushed(), 12);
        append(&mut journal, 13);
        assert!(!store.flush_some(FLUSH_BYTES / 2).unwrap());
        store.roll().unwrap();
        assert!(store.flush_some(FLUSH_BYTES / 2).unwrap());
        assert_eq!(flushed(), 13);
        assert_eq!(reader.read(1).map(Result::unwrap).count(), 13);
    }

    #[test]
    fn what_is_written_and_not_synced_is_not_flushed() {
        let options = Options { background: false, ..Options::default() };
        let disk = Arc::new(SimDisk::new(1));
        let (mut journal, reader, _) =
            FileJournal::open(disk, Path::new("/data"), options).unwrap();
        let flushed = || reader.stats().unwrap().flushed;
        append(&mut journal, 1);
        for first_sequence in [2, 3] {
            let batch = Batch {
                first_sequence,
                count: 1,
                time: quota_semantics::Timestamp::EPOCH,
                payload: vec![7],
            };
            journal.append(batch).unwrap();
            journal.write().unwrap();
        }
        assert!(journal.work().unwrap());
        while journal.work().unwrap() {}
        assert_eq!((reader.durable().sequence, flushed()), (3, 1));
        reader.sync().unwrap();
        while journal.work().unwrap() {}
        assert_eq!(flushed(), 3);
    }
}
