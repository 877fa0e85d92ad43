//! The journal on this machine's disk.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, MutexGuard, PoisonError},
};

use super::{
    Batch, Batches, Durable, Error, Journal, Reader,
    compact::{Compaction, Retention},
    disk::{Disk, Lock},
    keeper::{Keeper, MOVE_BYTES},
    log::Writer,
    origin::Origin,
    pauses::Pauses,
    reader::BatchReader,
    recovery::{self, Opened, Recovery},
    snapshot::{SnapshotInfo, Snapshots},
    store::{Keep, Store},
};

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct Options {
    /// Size of a commit log segment, in bytes.
    pub segment_bytes: u64,
    /// An epoch is sealed at the end of the segment with which its frames have so many bytes.
    pub epoch_bytes: u64,
    /// The writer waits while the commit log holds more bytes of frames than this that have not been
    /// moved into sled yet.
    pub log_limit_bytes: u64,
    /// Sealed epochs are read and checked when the journal is opened, newest first, until so many bytes
    /// of frames have been read. The others are checked when they are read.
    pub check_bytes: u64,
    /// Whether damage to sealed epochs is no reason not to open: what of them cannot be read is not served.
    pub start_with_damage: bool,
    /// Directory that receives epochs before compaction removes them; none: they are gone.
    pub archive: Option<PathBuf>,
    /// Whether threads prepare segments and fill epochs. Without them [`FileJournal::work`] has to be
    /// called, as tests do that want each step in its place.
    pub background: bool,
    /// Between the steps of what goes on behind the ack path: in the threads, in compaction, in snapshots.
    pub pauses: Pauses,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            segment_bytes: 16 * 1024 * 1024,
            epoch_bytes: 64 * 1024 * 1024,
            log_limit_bytes: 1024 * 1024 * 1024,
            check_bytes: 1024 * 1024 * 1024,
            start_with_damage: false,
            archive: None,
            background: true,
            pauses: Pauses::default(),
        }
    }
}

/// How much there is of everything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stats {
    /// How far the journal is durable.
    pub durable: Durable,
    /// The first sequence that can be read, from the archive if need be.
    pub first_sequence: u64,
    /// The first sequence in the data directory.
    pub kept_from: u64,
    /// How far entries have been moved into sled.
    pub moved: u64,
    /// Bytes of the commit log's files.
    pub log_bytes: u64,
    /// Segments of the commit log.
    pub log_segments: usize,
    /// Bytes of the epochs' files.
    pub epochs_bytes: u64,
    /// Epochs that are sealed.
    pub sealed_epochs: usize,
    /// Bytes of the snapshots.
    pub snapshot_bytes: u64,
    /// The snapshots, oldest first.
    pub snapshots: Vec<SnapshotInfo>,
    /// Bytes of the archive's files.
    pub archive_bytes: u64,
    /// Bytes that are free where the data directory is.
    pub free_bytes: u64,
}

/// The writing side of an open journal. It holds the lock of the data directory.
pub struct FileJournal {
    keeper: Keeper,
    store: Arc<Store>,
    unmoved: u64,
    _lock: Box<dyn Lock>,
}

/// The reading side of an open journal, and its upkeep: snapshots, compaction, figures. Cheap to clone;
/// usable from any thread.
#[derive(Clone)]
pub struct FileReader {
    store: Arc<Store>,
}

impl FileJournal {
    /// Opens the journal in a data directory, or begins one: takes the lock, repairs what a killed
    /// process leaves behind, checks everything against the chain, and makes durable what it read.
    ///
    /// # Errors
    /// [`Error::Locked`], [`Error::Damaged`], [`Error::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        options: Options,
    ) -> Result<(Self, FileReader, Recovery), Error> {
        Self::of(recovery::open(disk, directory, options)?)
    }

    /// Begins a journal in a directory of its own, behind a position in the chain. It is no ledger before the
    /// state there is in it as a snapshot.
    pub(super) fn begin(
        disk: Arc<dyn Disk>,
        directory: &Path,
        origin: &Origin,
        options: Options,
    ) -> Result<(Self, FileReader, Recovery), Error> {
        Self::of(recovery::begin(disk, directory, origin, options)?)
    }

    fn of(opened: Opened) -> Result<(Self, FileReader, Recovery), Error> {
        let store = Arc::new(opened.store);
        if !writer(&store).has_segment() {
            store.prepare_segment();
        }
        let keeper = Keeper::start(&store)?;
        store.signal.prepare();
        store.signal.move_now();
        let reader = FileReader::new(Arc::clone(&store));
        let journal = Self {
            keeper,
            store,
            unmoved: 0,
            _lock: opened.lock,
        };
        Ok((journal, reader, opened.recovery))
    }

    /// Does one step of what the threads do otherwise; gives whether there was anything to do.
    ///
    /// # Errors
    /// As [`Journal::sync`].
    pub fn work(&self) -> Result<bool, Error> {
        let prepared = self.store.prepare_segment();
        Ok(self.store.move_some(0)? || prepared)
    }

    /// Stops cleanly: everything durable, moved into sled, and closed.
    ///
    /// # Errors
    /// As [`Journal::sync`]. The journal is closed in any case. Readers have nothing to read any more.
    pub fn close(mut self) -> Result<Durable, Error> {
        let durable = self.sync()?;
        self.keeper.stop();
        self.store.move_all()?;
        self.store.anchor().sync()?;
        Ok(durable)
    }
}

fn writer(store: &Store) -> MutexGuard<'_, Writer> {
    store.writer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Ends the segment that is written to; the next one begins at the durable position.
fn rotate(store: &Store, writer: &mut Writer) -> Result<(), Error> {
    store.anchor().sync()?;
    let prepared = store
        .prepared
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take();
    writer.rotate(store.disk.as_ref(), &store.log, prepared, store.durable())?;
    store.signal.prepare();
    Ok(())
}

impl Journal for FileJournal {
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        self.store.check()?;
        writer(&self.store).append(&batch)
    }

    fn sync(&mut self) -> Result<Durable, Error> {
        self.store.check()?;
        let mut writer = writer(&self.store);
        if writer.is_idle() {
            return Ok(self.store.durable());
        }
        let bytes = writer.group_bytes();
        let durable = commit(&self.store, &self.keeper, &mut writer)
            // Before anybody else gets at the writer.
            .inspect_err(|error| self.store.poison(error))?;
        drop(writer);
        self.unmoved = self.unmoved.saturating_add(bytes);
        if self.unmoved >= MOVE_BYTES {
            self.unmoved = 0;
            self.store.signal.move_now();
        }
        Ok(durable)
    }
}

fn commit(store: &Store, keeper: &Keeper, writer: &mut Writer) -> Result<Durable, Error> {
    if writer.needs_segment() {
        keeper.wait_for_room();
        store.check()?;
        rotate(store, writer)?;
        store.signal.move_now();
    }
    let durable = writer.commit(|durable| store.set_durable(durable))?;
    store.anchor().note(&durable)?;
    Ok(durable)
}

impl Drop for FileJournal {
    fn drop(&mut self) {
        self.keeper.stop();
        self.store.close();
    }
}

impl FileReader {
    pub(super) const fn new(store: Arc<Store>) -> Self {
        Self { store }
    }

    /// Reads from the batch that holds the entry `from` on, as [`Reader::read`] does, but with the choice
    /// to borrow the batches.
    #[must_use]
    pub fn batches(&self, from: u64) -> BatchReader {
        BatchReader::new(Arc::clone(&self.store) as Arc<_>, from)
    }

    /// The snapshots.
    #[must_use]
    pub fn snapshots(&self) -> Snapshots {
        self.store.snapshots.clone()
    }

    /// Removes what `retention` does not keep: whole epochs, archived first if there is an archive, and
    /// the snapshots from before what is kept. Never more than the second newest snapshot makes up for.
    /// What is to go but is still in the epoch being filled goes at a later call, and so does everything while a
    /// backup is made.
    ///
    /// # Errors
    /// [`Error::Damaged`] if what is to be archived is not right, [`Error::Io`]; then nothing was
    /// removed.
    pub fn compact(
        &self,
        now: quota_semantics::Timestamp,
        retention: &Retention,
    ) -> Result<Compaction, Error> {
        self.store.check()?;
        super::compact::compact(&self.store, now, retention)
    }

    /// Figures for metrics.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn stats(&self) -> Result<Stats, Error> {
        self.store.stats()
    }

    /// The first sequence in the data directory: 1 until compaction removes entries.
    #[must_use]
    pub fn kept_from(&self) -> u64 {
        self.store.origin().sequence.saturating_add(1)
    }

    /// Where the data directory begins.
    pub(super) fn origin(&self) -> Origin {
        self.store.beginning()
    }

    /// Nothing is compacted as long as this is held.
    pub(super) fn keep_everything(&self) -> Keep {
        self.store.keep_everything()
    }

    pub(super) fn directory(&self) -> &Path {
        &self.store.directory
    }

    /// Why the journal has stopped, if it has.
    #[must_use]
    pub fn poisoned(&self) -> Option<String> {
        self.store.poisoned()
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

/// Ends the current segment, if it holds anything, so that its epoch can be sealed.
pub(super) fn roll(store: &Store) -> Result<(), Error> {
    let mut writer = writer(store);
    store.check()?;
    if !writer.has_frames() {
        return Ok(());
    }
    // What is in the group waits for its sync; it goes to the new segment.
    let rotated = rotate(store, &mut writer);
    if let Err(error) = &rotated {
        store.poison(error);
    } else {
        store.request_seal(store.durable().sequence);
    }
    rotated
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::SimDisk;

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
        let options = Options {
            segment_bytes: 3 * MOVE_BYTES,
            background: false,
            ..Options::default()
        };
        let directory = Path::new("/data");
        let disk = Arc::new(SimDisk::new(1));
        let (mut journal, reader, _) = FileJournal::open(disk, directory, options).unwrap();
        let store = Arc::clone(&journal.store);
        let moved = || store.current().moved.sequence;
        append(&mut journal, 1);
        assert!(!store.move_some(MOVE_BYTES / 2).unwrap());
        for sequence in 2..=12 {
            append(&mut journal, sequence);
        }
        assert!(store.move_some(MOVE_BYTES / 2).unwrap());
        assert_eq!(moved(), 12);
        append(&mut journal, 13);
        assert!(!store.move_some(MOVE_BYTES / 2).unwrap());
        roll(&store).unwrap();
        assert!(store.move_some(MOVE_BYTES / 2).unwrap());
        assert_eq!(moved(), 13);
        assert_eq!(reader.read(1).map(Result::unwrap).count(), 13);
    }
}
