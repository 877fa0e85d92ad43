//! The ack path of an open ledger: the group that is gathered, and how far it is durable.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::Store;
use crate::{
    Batch, Durable, Error,
    wal::{
        Writer,
        prepare::{self, Prepared},
    },
    watermark::DurableWatermark,
};

/// How long the writer waits for room before it looks again.
const ROOM_EVERY: Duration = Duration::from_secs(1);

/// What appending takes. The writer's lock is held throughout a sync and taken first; the others guard one value each.
pub(crate) struct WritePath {
    writer: Mutex<Writer>,
    /// The next segment, once it is filled with zeros.
    prepared: Mutex<Option<Prepared>>,
    durable: RwLock<Durable>,
    watermark: Mutex<DurableWatermark>,
}

impl WritePath {
    pub(crate) fn new(writer: Writer, durable: Durable, watermark: DurableWatermark) -> Self {
        Self {
            writer: Mutex::new(writer),
            prepared: Mutex::new(None),
            durable: RwLock::new(durable),
            watermark: Mutex::new(watermark),
        }
    }

    pub(crate) fn durable(&self) -> Durable {
        *self.durable.read()
    }

    /// Makes the note of the durable position durable itself.
    pub(crate) fn sync_watermark(&self) -> Result<(), Error> {
        self.watermark.lock().sync()
    }
}

impl Store {
    /// Takes a batch into the group.
    pub(crate) fn append(&self, batch: &Batch) -> Result<(), Error> {
        self.lifecycle.check()?;
        self.write.writer.lock().append(batch)
    }

    /// Makes the group durable. Gives the position behind it, and the bytes of its frames.
    ///
    /// After an error the journal is poisoned.
    pub(crate) fn sync(&self) -> Result<(Durable, u64), Error> {
        self.lifecycle.check()?;
        let mut writer = self.write.writer.lock();
        if writer.is_idle() {
            return Ok((self.durable(), 0));
        }
        let bytes = writer.group_bytes();
        let durable = self
            .commit(&mut writer)
            // Before anybody else gets at the writer.
            .inspect_err(|error| self.lifecycle.poison(error))?;
        Ok((durable, bytes))
    }

    fn commit(&self, writer: &mut Writer) -> Result<Durable, Error> {
        if writer.needs_segment() {
            self.wait_for_room();
            self.lifecycle.check()?;
            self.rotate(writer)?;
            self.signal.flush_now();
        }
        let durable = writer.commit(|durable| *self.write.durable.write() = durable)?;
        self.write.watermark.lock().note(&durable)?;
        Ok(durable)
    }

    /// Waits while the log is full, so that the ledger is not written faster than it can be put to rest.
    fn wait_for_room(&self) {
        if self.options.background {
            self.signal.flush_while(ROOM_EVERY, || {
                self.wal_is_full() && self.lifecycle.poisoned().is_none()
            });
        }
    }

    /// Ends the segment that is written to; the next one begins at the durable position.
    fn rotate(&self, writer: &mut Writer) -> Result<(), Error> {
        self.write.sync_watermark()?;
        let prepared = self.write.prepared.lock().take();
        writer.rotate(self.disk.as_ref(), &self.wal, prepared, self.durable())?;
        self.signal.prepare();
        Ok(())
    }

    /// Ends the current segment, if it holds anything, so that its epoch can be sealed.
    pub(crate) fn roll(&self) -> Result<(), Error> {
        let mut writer: MutexGuard<'_, Writer> = self.write.writer.lock();
        self.lifecycle.check()?;
        if !writer.has_frames() {
            return Ok(());
        }
        // What is in the group waits for its sync; it goes to the new segment.
        self.rotate(&mut writer)
            .inspect_err(|error| self.lifecycle.poison(error))?;
        self.epochs.request_seal(self.durable().sequence);
        self.signal.flush_now();
        Ok(())
    }

    /// Whether there is a segment to write to.
    pub(crate) fn has_segment(&self) -> bool {
        self.write.writer.lock().has_segment()
    }

    /// Makes the next segment, if there is none and room for two. That it cannot be made is no failure: the
    /// log goes on in a segment that was not prepared. Gives whether one was made.
    pub(crate) fn prepare_segment(&self) -> bool {
        if self.write.prepared.lock().is_some() {
            return false;
        }
        let size = self.options.segment_bytes;
        // What it takes must not be what the segment that is written to needs meanwhile.
        let free = self.disk.free_space(self.wal.directory());
        let has_room = free.is_ok_and(|free| free / 2 >= size);
        let prepare = || prepare::prepare(self.disk.as_ref(), self.wal.directory(), size).ok();
        let prepared = has_room.then(prepare).flatten();
        let made = prepared.is_some();
        *self.write.prepared.lock() = prepared;
        made
    }
}
