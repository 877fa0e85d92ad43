//! The ack path of an open ledger: the group being gathered, and the durable position.

use std::{sync::Arc, time::Duration};

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::Store;
use crate::{
    Batch, Durable, Error,
    anchor::Anchor,
    disk::File,
    wal::{
        Writer,
        writer::{self, Prepared},
    },
};

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
        let prepare = || writer::prepare(self.disk.as_ref(), self.wal.directory(), size).ok();
        let prepared = has_room.then(prepare).flatten();
        let made = prepared.is_some();
        *self.write.prepared.lock() = prepared;
        made
    }
}
