//! Background work of an open journal: prepare the next segment, sync written batches, flush frames into the current
//! epoch, seal full epochs. Threads run it; each step is a function that tests call directly.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    thread::JoinHandle,
    time::Duration,
};

use crate::{
    Durable, Error, Operation,
    journal::Throttle,
    reader::through,
    store::{Current, Sealed, Store},
};

/// Bytes of frames that are flushed at a time. With larger steps, fewer pages of sled are written twice.
pub(super) const FLUSH_BYTES: u64 = 1024 * 1024;

/// The delay of the sync after a write. One sync covers everything written meanwhile.
const SYNC_AFTER: Duration = Duration::from_millis(500);

/// Flushing is not throttled when more than this fraction of `wal_limit_bytes` waits for it.
const HURRY_PART: u64 = 16;

impl Store {
    /// Flushes frames into the current epoch, or seals it: at least this many bytes of them, unless they are the last
    /// of their segment. Returns whether there was anything to do.
    ///
    /// After an error the journal is poisoned.
    pub(super) fn flush_some(&self, least: u64) -> Result<bool, Error> {
        self.lifecycle.check()?;
        let flushed = self
            .seal_if_due()
            .and_then(|sealed| if sealed { Ok(true) } else { self.flush_chunk(least) });
        flushed.inspect_err(|error| self.lifecycle.poison(error))
    }

    fn flush_chunk(&self, least: u64) -> Result<bool, Error> {
        let Current { epoch, flushed } = self.epochs.current();
        // sled may sync its file before the log is synced: after a power loss it would have entries that the log lacks.
        let synced = self.write.synced().sequence;
        if flushed.sequence >= synced {
            return Ok(false);
        }
        let from = flushed.sequence.saturating_add(1);
        let Some(chunk) = self.wal.chunk(from, FLUSH_BYTES)? else {
            return Ok(false);
        };
        let (frames, _) = chunk.behind(&flushed)?;
        let (frames, end) = through(frames, &flushed, synced);
        let is_enough = frames.len() as u64 >= least || self.wal.has_segment_end(&end);
        if frames.is_empty() || !is_enough {
            return Ok(false);
        }
        let throttle = self.throttle();
        throttle.pause();
        epoch.put(self.disk.as_ref(), &flushed, frames, &throttle)?;
        throttle.pause();
        self.epochs.set_current(Current { epoch, flushed: end });
        Ok(true)
    }

    /// Seals the current epoch, if its end is the end of a segment and it is large enough or sealing was requested.
    fn seal_if_due(&self) -> Result<bool, Error> {
        let Current { epoch, flushed } = self.epochs.current();
        if flushed.sequence == epoch.before.sequence {
            return Ok(false);
        }
        let mut bytes = 0u64;
        let mut ends_here = false;
        for segment in self.wal.segments() {
            let end = segment.closed_at();
            if let Some(end) = end.filter(|end| end.sequence <= flushed.sequence) {
                bytes = bytes.saturating_add(segment.frame_bytes());
                ends_here = end == flushed;
            }
        }
        let large = bytes >= self.options.epoch_bytes;
        if !ends_here || !(large || self.epochs.seal_requested(&epoch.before)) {
            return Ok(false);
        }
        let throttle = self.throttle();
        let seal = match epoch.seal(self.disk.as_ref(), &flushed, &throttle) {
            Ok(seal) => seal,
            Err(Error::Damaged(_)) => {
                // The log still has every frame: rebuild the database, once.
                self.rebuild(&flushed)?;
                epoch.seal(self.disk.as_ref(), &flushed, &throttle)?
            }
            Err(error) => return Err(error),
        };
        self.epochs.push_sealed(Sealed { seal, epoch });
        self.wal.release(self.disk.as_ref(), seal.last.sequence)?;
        Ok(true)
    }

    /// No throttling while many bytes wait to be flushed.
    fn throttle(&self) -> Throttle {
        match self.waiting_bytes() > self.options.wal_limit_bytes / HURRY_PART {
            true => Throttle::default(),
            false => self.options.throttle.clone(),
        }
    }

    /// Rebuilds the current epoch's database from the log, up to a position.
    fn rebuild(&self, to: &Durable) -> Result<(), Error> {
        let epoch = self.epochs.current().epoch;
        epoch.reset(self.disk.as_ref())?;
        self.epochs.set_current(Current { flushed: epoch.before, epoch });
        while self.epochs.current().flushed.sequence < to.sequence {
            if !self.flush_chunk(0)? {
                break;
            }
        }
        Ok(())
    }

    /// Flushes all synced frames, and closes the current database cleanly.
    pub(super) fn flush_all(&self) -> Result<(), Error> {
        while self.flush_some(0)? {}
        let Current { epoch, flushed } = self.epochs.current();
        epoch.close_at(self.disk.as_ref(), &flushed)
    }
}

/// The threads of an open journal. When dropped, they stop after their present step.
pub(super) struct Maintenance {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Maintenance {
    /// Starts the threads, unless the options disable them.
    pub(super) fn start(store: &Arc<Store>) -> Result<Self, Error> {
        let mut maintenance = Self { store: Arc::clone(store), threads: Vec::new() };
        if store.options.background {
            maintenance.spawn("journal-prepare", |store| {
                while store.signal.wait_to_prepare() {
                    store.prepare_segment();
                }
            })?;
            maintenance.spawn("journal-sync", |store| {
                while store.signal.wait_to_sync(SYNC_AFTER) {
                    // An error has poisoned the journal: the writer sees it at its next step.
                    let _ = store.sync_written();
                }
            })?;
            maintenance.spawn("journal-flush", |store| {
                while store.signal.wait_to_flush() {
                    // An error has poisoned the journal: the writer sees it at its next step.
                    let goes_on = || store.flush_some(FLUSH_BYTES / 2).unwrap_or(false);
                    while !store.signal.is_stopping() && goes_on() {
                        store.signal.has_flushed();
                    }
                }
            })?;
        }
        Ok(maintenance)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(&Store) + Send + 'static,
    ) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // Without this thread the writer would wait for it for ever.
                if catch_unwind(AssertUnwindSafe(|| run(&store))).is_err() {
                    let panicked = std::io::Error::other("a background thread panicked");
                    let error = Error::io(&store.directory, Operation::Flush, panicked);
                    store.lifecycle.poison(&error);
                }
            })
            .map_err(|source| Error::io(&self.store.directory, Operation::StartThread, source))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Stops the threads.
    pub(super) fn stop(&mut self) {
        self.store.signal.stop();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.stop();
    }
}
