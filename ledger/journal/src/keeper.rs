//! What goes on behind the ack path: the next segment is prepared, durable frames are moved into sled,
//! full epochs are sealed. Two threads do it; each step is a function that tests call themselves.

use std::{
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::JoinHandle,
    time::Duration,
};

use super::{
    Durable, Error,
    log::prepare,
    pauses::Pauses,
    store::{Current, Sealed, Store},
};

/// How much is moved at a time, in bytes of frames. The less often, the fewer pages of sled are written twice.
pub(super) const MOVE_BYTES: u64 = 1024 * 1024;

/// The mover does not pause when this part of what may wait for it does.
const HURRY_PART: u64 = 16;

/// How long the writer waits for room before it looks again.
const ROOM_EVERY: Duration = Duration::from_secs(1);

impl Store {
    /// Makes the next segment, if there is none and room for two. That it cannot be made is no failure: the
    /// log goes on in a segment that was not prepared. Gives whether one was made.
    pub(super) fn prepare_segment(&self) -> bool {
        let slot = || self.prepared.lock().unwrap_or_else(PoisonError::into_inner);
        if slot().is_some() {
            return false;
        }
        let size = self.options.segment_bytes;
        // What it takes must not be what the segment that is written to needs meanwhile.
        let free = self.disk.free_space(self.log.directory());
        let has_room = free.is_ok_and(|free| free / 2 >= size);
        let prepare = || prepare::prepare(self.disk.as_ref(), self.log.directory(), size).ok();
        let prepared = has_room.then(prepare).flatten();
        let made = prepared.is_some();
        *slot() = prepared;
        made
    }

    /// Moves some frames into the current epoch, or seals it: at least so many bytes of them, unless they are the
    /// last of their segment. Gives whether there was anything to do.
    ///
    /// After an error the journal is poisoned.
    pub(super) fn move_some(&self, least: u64) -> Result<bool, Error> {
        self.check()?;
        let moved = self.seal_if_due().and_then(|sealed| {
            if sealed {
                Ok(true)
            } else {
                self.move_chunk(least)
            }
        });
        moved.inspect_err(|error| self.poison(error))
    }

    fn move_chunk(&self, least: u64) -> Result<bool, Error> {
        let Current { epoch, moved } = self.current();
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
        self.set_current(Current { epoch, moved: end });
        Ok(true)
    }

    /// Seals the current epoch, if it ends with a segment and is large enough or was asked for.
    fn seal_if_due(&self) -> Result<bool, Error> {
        let Current { epoch, moved } = self.current();
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
        if !ends_here || !(large || self.seal_requested(&epoch.before)) {
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
        self.push_sealed(Sealed { seal, epoch });
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
        let epoch = self.current().epoch;
        epoch.reset(self.disk.as_ref())?;
        self.set_current(Current {
            moved: epoch.before,
            epoch,
        });
        while self.current().moved.sequence < to.sequence {
            if !self.move_chunk(0)? {
                break;
            }
        }
        Ok(())
    }

    /// Moves all that is durable, and closes the current database cleanly.
    pub(super) fn move_all(&self) -> Result<(), Error> {
        while self.move_some(0)? {}
        let Current { epoch, moved } = self.current();
        epoch.close_at(self.disk.as_ref(), &moved)
    }
}

/// Wishes to the threads.
#[derive(Default)]
pub(super) struct Signal {
    wishes: Mutex<Wishes>,
    changed: Condvar,
}

#[derive(Default)]
struct Wishes {
    stop: bool,
    prepare: bool,
    move_now: bool,
}

impl Signal {
    fn wishes(&self) -> MutexGuard<'_, Wishes> {
        self.wishes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for the next segment.
    pub(super) fn prepare(&self) {
        self.wishes().prepare = true;
        self.changed.notify_all();
    }

    /// Asks for what is durable to be moved now.
    pub(super) fn move_now(&self) {
        self.wishes().move_now = true;
        self.changed.notify_all();
    }

    fn stop(&self) {
        self.wishes().stop = true;
        self.changed.notify_all();
    }

    /// Waits until there is something to prepare; false when it is time to stop.
    fn wait_to_prepare(&self) -> bool {
        let mut wishes = self
            .changed
            .wait_while(self.wishes(), |wishes| !wishes.stop && !wishes.prepare)
            .unwrap_or_else(PoisonError::into_inner);
        wishes.prepare = false;
        !wishes.stop
    }

    /// Waits until it is time to move something; false when it is time to stop.
    fn wait_to_move(&self) -> bool {
        let mut wishes = self
            .changed
            .wait_while(self.wishes(), |wishes| !wishes.stop && !wishes.move_now)
            .unwrap_or_else(PoisonError::into_inner);
        wishes.move_now = false;
        !wishes.stop
    }

    fn is_stopping(&self) -> bool {
        self.wishes().stop
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
                        store.signal.changed.notify_all();
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
            .map_err(|source| Error::io(&self.store.directory, "start a thread for", source))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Waits while the log is full, so that the ledger is not written faster than it can be put to rest.
    pub(super) fn wait_for_room(&self) {
        if self.threads.is_empty() {
            return;
        }
        let mut wishes = self.store.signal.wishes();
        while self.store.log_is_full() && self.store.poisoned().is_none() {
            wishes.move_now = true;
            self.store.signal.changed.notify_all();
            wishes = self
                .store
                .signal
                .changed
                .wait_timeout(wishes, ROOM_EVERY)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
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
