//! The state shared by all users of an open journal: the parts of the ledger, and the place of each sequence.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};

use crate::{
    Batch, Durable, Error,
    archive::Archive,
    disk::{Disk, File},
    epoch::{self, Epoch, Seal},
    journal::{Options, Stats},
    positions::{self, Anchor, Base},
    reader::{Chunk, Source},
    snapshot::Snapshots,
    wal::{self, CHUNK_BYTES, Prepared, Wal, Writer},
};

/// The parts of an open ledger, each with its own lock.
pub(super) struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    pub(super) wal: Wal,
    pub(super) write: WritePath,
    pub(super) epochs: Epochs,
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) snapshots: Snapshots,
    /// Held for writing by a compaction, and for reading by backups.
    pub(super) compaction: RwLock<()>,
    pub(super) lifecycle: Lifecycle,
    pub(super) signal: Signal,
    /// The base position, which compaction moves.
    pub(super) base: RwLock<Base>,
}

impl Store {
    pub(super) fn epochs_directory(&self) -> PathBuf {
        self.directory.join(epoch::DIRECTORY)
    }

    pub(super) fn durable(&self) -> Durable {
        self.write.durable()
    }

    pub(super) fn base_position(&self) -> Durable {
        self.base().position
    }

    pub(super) fn base(&self) -> Base {
        *self.base.read()
    }

    /// Moves the base position forward, durably. Returns the epochs before it, which are to be removed, and were
    /// archived if there is an archive.
    pub(super) fn advance_base(&self, to: Durable) -> Result<Vec<Sealed>, Error> {
        let archived_from = self.archive.as_ref().and_then(|archive| {
            // Once recorded, the first archived sequence stays for ever.
            let recorded = self.base().archived_from;
            recorded.or_else(|| archive.reaches_back_to(to.sequence))
        });
        let advanced = Base { position: to, archived_from };
        positions::stage_base(self.disk.as_ref(), &self.directory, &advanced)?;
        // After an error either file may be on disk, until the directory is read again.
        positions::install_base(self.disk.as_ref(), &self.directory)
            .inspect_err(|error| self.lifecycle.poison(error))?;
        // First, so that no reader looks for a removed epoch.
        *self.base.write() = advanced;
        Ok(self.epochs.take_through(to.sequence))
    }

    /// Closes every database, finally: from now on nothing can be read, since another process may open the directory.
    pub(super) fn close(&self) {
        self.lifecycle.close();
        self.epochs.close();
    }

    /// The first sequence that can be read.
    pub(super) fn first_sequence(&self) -> u64 {
        let base = self.base_position().sequence;
        self.archive
            .as_ref()
            .and_then(|archive| archive.reaches_back_to(base))
            .unwrap_or(base.saturating_add(1))
    }

    pub(super) fn stats(&self) -> Result<Stats, Error> {
        let sealed = self.epochs.sealed();
        let current = self.epochs.current();
        let segments = self.wal.segments();
        let (snapshots, _) = self.snapshots.list()?;
        let file_bytes = |directory: &Path| epoch::stored_bytes(self.disk.as_ref(), directory);
        Ok(Stats {
            durable: self.durable(),
            first_sequence: self.first_sequence(),
            kept_from: self.base_position().sequence.saturating_add(1),
            flushed: current.flushed.sequence,
            wal_bytes: file_bytes(&self.directory.join(wal::DIRECTORY))?,
            wal_segments: segments.len(),
            epochs_bytes: sealed
                .iter()
                .fold(file_bytes(current.epoch.directory())?, |sum, sealed| {
                    sum.saturating_add(sealed.seal.stored_bytes)
                }),
            sealed_epochs: sealed.len(),
            snapshot_bytes: snapshots.iter().map(|info| info.bytes).sum(),
            snapshots,
            archive_bytes: self
                .archive
                .as_ref()
                .map_or(0, |archive| archive.files().iter().map(|file| file.bytes).sum()),
            free_bytes: self.disk.free_space(&self.directory)?,
        })
    }

    /// Whether so many bytes wait to be flushed that the writer should wait, too.
    pub(super) fn wal_is_full(&self) -> bool {
        self.waiting_bytes() > self.options.wal_limit_bytes
    }

    /// Bytes of frames in segments that are not completely flushed.
    pub(super) fn waiting_bytes(&self) -> u64 {
        let flushed = self.epochs.current().flushed.sequence;
        self.wal.segments().iter().fold(0u64, |sum, segment| {
            if segment.extent.read().last.sequence > flushed {
                sum.saturating_add(segment.frame_bytes())
            } else {
                sum
            }
        })
    }
}

impl Source for Store {
    fn chunk(&self, from: u64) -> Result<Chunk, Error> {
        self.lifecycle.check_open()?;
        if from > self.durable().sequence {
            return Ok(Chunk::empty(self.durable(), &self.directory));
        }
        if from <= self.base_position().sequence {
            if from >= self.first_sequence()
                && let Some(archive) = &self.archive
            {
                return archive.chunk(from);
            }
            return Err(Error::Compacted { first: self.first_sequence() });
        }
        let current = self.epochs.current();
        if from > current.epoch.before.sequence {
            // Flushed entries are read from sled, the others from the log. The epoch may be sealed between the two
            // reads; then it is found below.
            if from <= current.flushed.sequence {
                let chunk = current.epoch.chunk(self.disk.as_ref(), from)?;
                // A database that is being rebuilt has nothing yet; the log has everything.
                if !chunk.bytes.is_empty() {
                    return Ok(chunk);
                }
            }
            if let Some(chunk) = self.wal.chunk(from, CHUNK_BYTES)? {
                return Ok(chunk);
            }
        }
        match self.epochs.sealed_with(from) {
            Some(sealed) => {
                let chunk = sealed.epoch.chunk(self.disk.as_ref(), from);
                match chunk {
                    // Compacted between the two reads.
                    Err(Error::Compacted { .. }) => self.chunk(from),
                    chunk => chunk,
                }
            }
            None => self
                .wal
                .chunk(from, CHUNK_BYTES)?
                .ok_or(Error::Compacted { first: self.first_sequence() }),
        }
    }
}

/// The end of a journal: its first error, or its close. Neither is ever undone.
#[derive(Default)]
pub(crate) struct Lifecycle {
    poison: OnceLock<Arc<Error>>,
    closed: AtomicBool,
}

impl Lifecycle {
    /// Ends all writing. The first error is kept.
    pub(crate) fn poison(&self, error: &Error) {
        self.poison.get_or_init(|| match error {
            Error::Poisoned { cause } => Arc::clone(cause),
            error => Arc::new(error.clone()),
        });
    }

    /// The error that ended all writing.
    pub(crate) fn poisoned(&self) -> Option<Arc<Error>> {
        self.poison.get().cloned()
    }

    /// Fails if an earlier error ended all writing.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.poisoned().map_or(Ok(()), |cause| Err(Error::Poisoned { cause }))
    }

    /// Ends all reading: from now on another process may open the directory.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Fails once the journal was closed.
    pub(crate) fn check_open(&self) -> Result<(), Error> {
        match self.closed.load(Ordering::Acquire) {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}

/// Most databases of sealed epochs that are open at once; each has a small cache. As many as there are readers: opening
/// one reads all its files, and readers must not close each other's.
const OPEN_EPOCHS: usize = 8;

/// A sealed epoch.
#[derive(Clone)]
pub(crate) struct Sealed {
    pub(crate) seal: Seal,
    pub(crate) epoch: Arc<Epoch>,
}

/// The epoch that is being filled.
#[derive(Clone)]
pub(crate) struct Current {
    pub(crate) epoch: Arc<Epoch>,
    /// The position up to which it holds the entries of the write-ahead log.
    pub(crate) flushed: Durable,
}

/// All epochs, oldest first. Each lock guards one list or value, and no two are held at once.
pub(crate) struct Epochs {
    directory: PathBuf,
    sealed: RwLock<Vec<Sealed>>,
    current: RwLock<Current>,
    /// The sealed ones with an open database, most recently used first.
    recent: Mutex<VecDeque<Arc<Epoch>>>,
    /// Closed segments up to this sequence are to be sealed, whatever their size.
    seal_through: AtomicU64,
}

impl Epochs {
    pub(crate) fn new(directory: PathBuf, sealed: Vec<Sealed>, current: Current) -> Self {
        Self {
            directory,
            sealed: RwLock::new(sealed),
            current: RwLock::new(current),
            recent: Mutex::default(),
            seal_through: AtomicU64::new(0),
        }
    }

    /// The one that is being filled.
    pub(crate) fn current(&self) -> Current {
        self.current.read().clone()
    }

    pub(crate) fn set_current(&self, current: Current) {
        *self.current.write() = current;
    }

    /// The sealed ones.
    pub(crate) fn sealed(&self) -> Vec<Sealed> {
        self.sealed.read().clone()
    }

    /// The sealed epoch that holds a sequence. Its database becomes the most recently used one.
    pub(crate) fn sealed_with(&self, sequence: u64) -> Option<Sealed> {
        let found = {
            let sealed = self.sealed.read();
            let at = sealed.partition_point(|sealed| sealed.seal.last.sequence < sequence);
            sealed.get(at).filter(|sealed| sealed.seal.before.sequence < sequence).cloned()
        };
        found.inspect(|sealed| self.touch(&sealed.epoch))
    }

    /// Moves the current epoch, now sealed, to the sealed ones, and begins the next.
    pub(crate) fn push_sealed(&self, sealed: Sealed) {
        let last = sealed.seal.last;
        self.touch(&sealed.epoch);
        self.sealed.write().push(sealed);
        self.set_current(Current {
            epoch: Arc::new(Epoch::new(&self.directory, last)),
            flushed: last,
        });
    }

    /// Removes the sealed ones that end at a sequence or before from the list.
    pub(crate) fn take_through(&self, sequence: u64) -> Vec<Sealed> {
        let mut sealed = self.sealed.write();
        let kept = sealed.partition_point(|sealed| sealed.seal.last.sequence <= sequence);
        sealed.drain(..kept).collect()
    }

    /// Requests that the segments up to `last` are sealed at the next end of a segment.
    pub(crate) fn request_seal(&self, last: u64) {
        self.seal_through.fetch_max(last, Ordering::AcqRel);
    }

    /// Whether sealing was requested for the epoch that begins behind `before`.
    pub(crate) fn seal_requested(&self, before: &Durable) -> bool {
        before.sequence < self.seal_through.load(Ordering::Acquire)
    }

    /// Closes every database.
    pub(crate) fn close(&self) {
        for sealed in self.sealed() {
            sealed.epoch.close();
        }
        self.current().epoch.close();
    }

    /// Limits the number of open databases to the most recently used ones.
    fn touch(&self, epoch: &Arc<Epoch>) {
        let mut recent = self.recent.lock();
        if recent.front().is_some_and(|front| Arc::ptr_eq(front, epoch)) {
            return;
        }
        recent.retain(|other| !Arc::ptr_eq(other, epoch));
        recent.push_front(Arc::clone(epoch));
        let kept = recent.len().min(OPEN_EPOCHS);
        let surplus = recent.split_off(kept);
        drop(recent);
        for epoch in surplus {
            epoch.close();
        }
    }
}

/// Requests to the background threads. The lock protects the requests alone; no I/O happens under it.
#[derive(Default)]
pub(crate) struct Signal {
    requests: Mutex<Requests>,
    changed: Condvar,
}

#[derive(Default)]
struct Requests {
    stop: bool,
    prepare: bool,
    flush_now: bool,
    sync_soon: bool,
    sync_now: bool,
}

impl Signal {
    fn request(&self, set: impl FnOnce(&mut Requests)) {
        set(&mut self.requests.lock());
        self.changed.notify_all();
    }

    /// Requests the next segment.
    pub(crate) fn prepare(&self) {
        self.request(|requests| requests.prepare = true);
    }

    /// Requests that all durable frames are flushed now.
    pub(crate) fn flush_now(&self) {
        self.request(|requests| requests.flush_now = true);
    }

    /// Requests that written frames are synced soon.
    pub(crate) fn sync_soon(&self) {
        self.request(|requests| requests.sync_soon = true);
    }

    /// Requests that written frames are synced now.
    pub(crate) fn sync_now(&self) {
        self.request(|requests| requests.sync_now = true);
    }

    pub(crate) fn stop(&self) {
        self.request(|requests| requests.stop = true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.requests.lock().stop
    }

    /// Wakes the threads that wait for room.
    pub(crate) fn has_flushed(&self) {
        self.changed.notify_all();
    }

    /// Waits until a segment has to be prepared; false at the stop.
    pub(crate) fn wait_to_prepare(&self) -> bool {
        let mut requests = self.wait_until(|requests| requests.prepare);
        requests.prepare = false;
        !requests.stop
    }

    /// Waits until frames have to be flushed; false at the stop.
    pub(crate) fn wait_to_flush(&self) -> bool {
        let mut requests = self.wait_until(|requests| requests.flush_now);
        requests.flush_now = false;
        !requests.stop
    }

    /// Waits until written frames have to be synced: at the latest `soon` after the request. False at the stop.
    pub(crate) fn wait_to_sync(&self, soon: Duration) -> bool {
        let mut requests = self.wait_until(|requests| requests.sync_soon || requests.sync_now);
        let goes_on = |requests: &mut Requests| !requests.stop && !requests.sync_now;
        self.changed.wait_while_for(&mut requests, goes_on, soon);
        (requests.sync_soon, requests.sync_now) = (false, false);
        !requests.stop
    }

    fn wait_until(&self, is_requested: impl Fn(&Requests) -> bool) -> MutexGuard<'_, Requests> {
        let mut requests = self.requests.lock();
        self.changed
            .wait_while(&mut requests, |requests| !requests.stop && !is_requested(requests));
        requests
    }

    /// Requests flushes while a condition holds. The condition is checked after each flush, and at this interval.
    pub(crate) fn flush_while(&self, interval: Duration, mut condition: impl FnMut() -> bool) {
        let mut requests = self.requests.lock();
        while condition() {
            requests.flush_now = true;
            self.changed.notify_all();
            self.changed.wait_for(&mut requests, interval);
        }
    }
}

// The ack path of an open ledger: the group being gathered, and the durable position.

/// How long the writer waits for room before it checks again.
const ROOM_EVERY: Duration = Duration::from_secs(1);

/// Written bytes from which on a sync is not delayed any more.
const UNSYNCED_BYTES: u64 = 4 * 1024 * 1024;

/// The state of appending. The writer's lock is taken first, and held during a sync of the frames that it writes;
/// `syncing` is next; the others protect one value each.
pub(crate) struct WritePath {
    writer: Mutex<Writer>,
    /// The next segment, once it is filled with zeros.
    prepared: Mutex<Option<Prepared>>,
    /// The readable position: the synced or the written one, as the writer chooses.
    durable: RwLock<Durable>,
    synced: RwLock<Durable>,
    unsynced: Mutex<Option<Unsynced>>,
    /// One sync of the log at a time: an error is reported once, and must not be attributed to another sync.
    syncing: Mutex<()>,
    anchor: Mutex<Anchor>,
}

/// Frames that are written and not synced. All of them are in the active segment.
#[derive(Clone)]
struct Unsynced {
    file: Arc<dyn File>,
    /// The chain behind the last frame.
    end: Durable,
    bytes: u64,
}

impl WritePath {
    pub(crate) fn new(writer: Writer, durable: Durable, anchor: Anchor) -> Self {
        Self {
            writer: Mutex::new(writer),
            prepared: Mutex::new(None),
            durable: RwLock::new(durable),
            synced: RwLock::new(durable),
            unsynced: Mutex::new(None),
            syncing: Mutex::new(()),
            anchor: Mutex::new(anchor),
        }
    }

    pub(crate) fn durable(&self) -> Durable {
        *self.durable.read()
    }

    /// The position up to which the log is synced.
    pub(crate) fn synced(&self) -> Durable {
        *self.synced.read()
    }

    /// Syncs the anchor file.
    pub(crate) fn sync_anchor(&self) -> Result<(), Error> {
        self.anchor.lock().sync()
    }
}

impl Store {
    /// Adds a batch to the group.
    pub(crate) fn append(&self, batch: &Batch) -> Result<(), Error> {
        self.lifecycle.check()?;
        let mut writer = self.write.writer.lock();
        let is_synced = self.write.unsynced.lock().is_none();
        writer.append(batch, is_synced)
    }

    /// Writes the group, and makes it durable if `syncs`, with all earlier writes. Returns the position behind it, and
    /// the bytes of its frames.
    ///
    /// After an error the journal is poisoned.
    pub(crate) fn commit(&self, syncs: bool) -> Result<(Durable, u64), Error> {
        self.lifecycle.check()?;
        let mut writer = self.write.writer.lock();
        let bytes = writer.group_bytes();
        let committed = match writer.is_idle() {
            true if syncs => self.sync_written(),
            true => Ok(()),
            false => self.commit_group(&mut writer, syncs),
        };
        // Before any other thread gets the writer.
        committed.inspect_err(|error| self.lifecycle.poison(error))?;
        Ok((self.durable(), bytes))
    }

    fn commit_group(&self, writer: &mut Writer, syncs: bool) -> Result<(), Error> {
        if writer.needs_segment() {
            self.wait_for_room();
            self.lifecycle.check()?;
            self.rotate(writer)?;
            self.signal.flush_now();
        }
        if writer.holds_frames() {
            let _syncing = self.write.syncing.lock();
            self.lifecycle.check()?;
            writer.write_headers()?;
        }
        let publish = |end| *self.write.durable.write() = end;
        if syncs {
            let _syncing = self.write.syncing.lock();
            self.lifecycle.check()?;
            let end = writer.commit(true, publish)?;
            *self.write.unsynced.lock() = None;
            *self.write.synced.write() = end;
            return self.write.anchor.lock().note(&end);
        }
        let bytes = writer.group_bytes();
        let end = writer.commit(false, publish)?;
        if let Some(file) = writer.file() {
            self.has_written(file, end, bytes);
        }
        Ok(())
    }

    fn has_written(&self, file: Arc<dyn File>, end: Durable, bytes: u64) {
        let mut unsynced = self.write.unsynced.lock();
        let before = unsynced.as_ref().map(|unsynced| unsynced.bytes);
        let bytes = before.unwrap_or(0).saturating_add(bytes);
        *unsynced = Some(Unsynced { file, end, bytes });
        drop(unsynced);
        if before.is_none() {
            self.signal.sync_soon();
        }
        if before.unwrap_or(0) < UNSYNCED_BYTES && bytes >= UNSYNCED_BYTES {
            self.signal.sync_now();
        }
    }

    /// Makes written frames durable, while others are being written.
    ///
    /// After an error the journal is poisoned.
    pub(crate) fn sync_written(&self) -> Result<(), Error> {
        let _syncing = self.write.syncing.lock();
        self.lifecycle.check()?;
        let unsynced = self.write.unsynced.lock().clone();
        match unsynced {
            // Before another sync takes frames for durable that may be lost.
            Some(unsynced) => {
                self.sync_up_to(&unsynced).inspect_err(|error| self.lifecycle.poison(error))
            }
            None => Ok(()),
        }
    }

    fn sync_up_to(&self, Unsynced { file, end, .. }: &Unsynced) -> Result<(), Error> {
        file.sync()?;
        let mut anchor = self.write.anchor.lock();
        anchor.note(end)?;
        // Rare enough to cost a sync: frames before the note are never taken for a torn write.
        anchor.sync()?;
        drop(anchor);
        *self.write.synced.write() = *end;
        let mut unsynced = self.write.unsynced.lock();
        let left = unsynced.take().filter(|unsynced| unsynced.end != *end);
        if let Some(left) = left {
            *unsynced = Some(Unsynced { bytes: 0, ..left });
            self.signal.sync_soon();
        }
        Ok(())
    }

    /// Waits while the log is full, so that the ledger is not written faster than it can be flushed.
    fn wait_for_room(&self) {
        if self.options.background {
            self.signal.flush_while(ROOM_EVERY, || {
                self.wal_is_full() && self.lifecycle.poisoned().is_none()
            });
        }
    }

    /// Ends the active segment; the next one begins at the durable position.
    fn rotate(&self, writer: &mut Writer) -> Result<(), Error> {
        self.sync_written()?;
        self.write.sync_anchor()?;
        // The lock is held until the prepared file has its final name: otherwise another one could be prepared under
        // the same temporary name, and its zeros would end up in this segment.
        let mut prepared = self.write.prepared.lock();
        let file = prepared.take();
        writer.rotate(self.disk.as_ref(), &self.wal, file, self.durable())?;
        drop(prepared);
        self.signal.prepare();
        Ok(())
    }

    /// Ends the active segment, if it holds any frames, so that its epoch can be sealed.
    pub(crate) fn roll(&self) -> Result<(), Error> {
        let mut writer: MutexGuard<'_, Writer> = self.write.writer.lock();
        self.lifecycle.check()?;
        if !writer.has_frames() {
            return Ok(());
        }
        // The frames in the group wait for their sync; they go to the new segment.
        self.rotate(&mut writer).inspect_err(|error| self.lifecycle.poison(error))?;
        self.epochs.request_seal(self.durable().sequence);
        self.signal.flush_now();
        Ok(())
    }

    /// Whether there is an active segment.
    pub(crate) fn has_segment(&self) -> bool {
        self.write.writer.lock().has_segment()
    }

    /// Prepares the next segment, if none is prepared and there is room for two. If it cannot be prepared, that is not
    /// an error: the log continues in a segment that grows. Returns whether one was prepared.
    pub(crate) fn prepare_segment(&self) -> bool {
        if self.write.prepared.lock().is_some() {
            return false;
        }
        let size = self.options.segment_bytes;
        // The prepared segment must not take the space that the active one needs meanwhile.
        let free = self.disk.free_space(self.wal.directory());
        let has_room = free.is_ok_and(|free| free / 2 >= size);
        let prepare = || wal::prepare(self.disk.as_ref(), self.wal.directory(), size).ok();
        let prepared = has_room.then(prepare).flatten();
        let made = prepared.is_some();
        *self.write.prepared.lock() = prepared;
        made
    }
}
