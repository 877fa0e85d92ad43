//! What goes on behind the ack path: the next segment is prepared, durable frames are moved into sled,
//! full epochs are sealed. Two threads do it; each step is a function that tests call themselves.

use std::{sync::Arc, thread::JoinHandle};

use super::{
    Durable, Error, Operation,
    pauses::Pauses,
    store::{Current, Sealed, Store},
};

/// How much is moved at a time, in bytes of frames. The less often, the fewer pages of sled are written twice.
pub(super) const MOVE_BYTES: u64 = 1024 * 1024;

/// The mover does not pause when this part of what may wait for it does.
const HURRY_PART: u64 = 16;

impl Store {
    /// Moves some frames into the current epoch, or seals it: at least so many bytes of them, unless they are the
    /// last of their segment. Gives whether there was anything to do.
    ///
    /// After an error the journal is poisoned.
    pub(super) fn move_some(&self, least: u64) -> Result<bool, Error> {
        self.lifecycle.check()?;
        let moved = self.seal_if_due().and_then(|sealed| {
            if sealed {
                Ok(true)
            } else {
                self.move_chunk(least)
            }
        });
        moved.inspect_err(|error| self.lifecycle.poison(error))
    }

    fn move_chunk(&self, least: u64) -> Result<bool, Error> {
        let Current { epoch, moved } = self.epochs.current();
        if moved.sequence >= self.durable().sequence {
            return Ok(false);
        }
        let from = moved.sequence.saturating_add(1);
        let Some(chunk) = self.log.chunk(from, MOVE_BYTES)? else {
            return Ok(false);
        };
        let (frames, end) = chunk.behind(&moved)?;
        let is_enough = frames.len() as u64 >= least || self.log.has_segment_end(&end);
        if frames.is_empty() || !is_enough {
            return Ok(false);
        }
        let pauses = self.pauses();
        pauses.pause();
        epoch.put(self.disk.as_ref(), &moved, frames, &pauses)?;
        pauses.pause();
        self.epochs.set_current(Current { epoch, moved: end });
        Ok(true)
    }

    /// Seals the current epoch, if it ends with a segment and is large enough or was asked for.
    fn seal_if_due(&self) -> Result<bool, Error> {
        let Current { epoch, moved } = self.epochs.current();
        if moved.sequence == epoch.before.sequence {
            return Ok(false);
        }
        let mut bytes = 0u64;
        let mut ends_here = false;
        for segment in self.log.segments() {
            let end = segment.closed_at();
            if let Some(end) = end.filter(|end| end.sequence <= moved.sequence) {
                bytes = bytes.saturating_add(segment.frame_bytes());
                ends_here = end == moved;
            }
        }
        let large = bytes >= self.options.epoch_bytes;
        if !ends_here || !(large || self.epochs.seal_requested(&epoch.before)) {
            return Ok(false);
        }
        let pauses = self.pauses();
        let seal = match epoch.seal(self.disk.as_ref(), &moved, &pauses) {
            Ok(seal) => seal,
            Err(Error::Damaged(_)) => {
                // The log still has every frame: make the database again, once.
                self.rebuild(&moved)?;
                epoch.seal(self.disk.as_ref(), &moved, &pauses)?
            }
            Err(error) => return Err(error),
        };
        self.epochs.push_sealed(Sealed { seal, epoch });
        self.log.release(self.disk.as_ref(), seal.last.sequence)?;
        Ok(true)
    }

    /// None while much waits to be moved.
    fn pauses(&self) -> Pauses {
        match self.waiting_bytes() > self.options.log_limit_bytes / HURRY_PART {
            true => Pauses::default(),
            false => self.options.pauses.clone(),
        }
    }

    /// Makes the current epoch's database again from the log, up to a position.
    fn rebuild(&self, to: &Durable) -> Result<(), Error> {
        let epoch = self.epochs.current().epoch;
        epoch.reset(self.disk.as_ref())?;
        self.epochs.set_current(Current {
            moved: epoch.before,
            epoch,
        });
        while self.epochs.current().moved.sequence < to.sequence {
            if !self.move_chunk(0)? {
                break;
            }
        }
        Ok(())
    }

    /// Moves all that is durable, and closes the current database cleanly.
    pub(super) fn move_all(&self) -> Result<(), Error> {
        while self.move_some(0)? {}
        let Current { epoch, moved } = self.epochs.current();
        epoch.close_at(self.disk.as_ref(), &moved)
    }
}

/// The threads of an open journal; dropped, they stop behind the step that they are in.
pub(super) struct Keeper {
    store: Arc<Store>,
    threads: Vec<JoinHandle<()>>,
}

impl Keeper {
    /// Starts the threads; none at all if the options say so.
    pub(super) fn start(store: &Arc<Store>) -> Result<Self, Error> {
        let mut keeper = Self {
            store: Arc::clone(store),
            threads: Vec::new(),
        };
        if store.options.background {
            keeper.spawn("journal-prepare", |store| {
                while store.signal.wait_to_prepare() {
                    store.prepare_segment();
                }
            })?;
            keeper.spawn("journal-move", |store| {
                while store.signal.wait_to_move() {
                    // An error has poisoned the journal: the writer finds it at its next step.
                    let goes_on = || store.move_some(MOVE_BYTES / 2).unwrap_or(false);
                    while !store.signal.is_stopping() && goes_on() {
                        store.signal.has_moved();
                    }
                }
            })?;
        }
        Ok(keeper)
    }

    fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce(&Store) + Send + 'static,
    ) -> Result<(), Error> {
        let store = Arc::clone(&self.store);
        let thread = std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || run(&store))
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

impl Drop for Keeper {
    fn drop(&mut self) {
        self.stop();
    }
}
