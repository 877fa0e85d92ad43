//! Everything that the open journal's hands share: the parts of the ledger, and where each sequence is.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLock,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
};

use super::{
    Durable, Error, Options, Stats,
    anchor::Anchor,
    archive::Archive,
    disk::Disk,
    epoch::{self, Epoch, Seal},
    keeper::Signal,
    log::{self, CHUNK_BYTES, Log, Writer, prepare::Prepared},
    origin::{self, Origin},
    reader::{Chunk, Source},
    snapshot::Snapshots,
};

/// Databases of sealed epochs that are open at once; each has a cache.
const OPEN_EPOCHS: usize = 3;

/// A sealed epoch.
#[derive(Clone)]
pub(super) struct Sealed {
    pub(super) seal: Seal,
    pub(super) epoch: Arc<Epoch>,
}

/// The epoch that is being filled.
#[derive(Clone)]
pub(super) struct Current {
    pub(super) epoch: Arc<Epoch>,
    /// How far it holds what the commit log holds.
    pub(super) moved: Durable,
}

/// The parts of an open ledger.
pub(super) struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    pub(super) log: Log,
    pub(super) prepared: Mutex<Option<Prepared>>,
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) snapshots: Snapshots,
    pub(super) writer: Mutex<Writer>,
    pub(super) signal: Signal,
    /// Closed segments up to here are to be sealed, whatever their size.
    seal_through: AtomicU64,
    origin: RwLock<Origin>,
    sealed: RwLock<Vec<Sealed>>,
    current: RwLock<Current>,
    recent: Mutex<VecDeque<Arc<Epoch>>>,
    durable: RwLock<Durable>,
    anchor: Mutex<Anchor>,
    poison: OnceLock<String>,
    closed: AtomicBool,
    compacting: Mutex<()>,
    /// How many want everything to be kept.
    kept_by: AtomicUsize,
}

/// Holds compaction off until it is dropped.
pub(super) struct Keep(Arc<Store>);

impl Drop for Keep {
    fn drop(&mut self) {
        self.0.kept_by.fetch_sub(1, Ordering::AcqRel);
    }
}

/// What recovery found.
pub(super) struct Parts {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    pub(super) log: Log,
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) snapshots: Snapshots,
    pub(super) origin: Origin,
    pub(super) sealed: Vec<Sealed>,
    pub(super) current: Current,
    pub(super) durable: Durable,
    pub(super) anchor: Anchor,
    pub(super) writer: Writer,
}

impl Store {
    pub(super) fn new(parts: Parts) -> Self {
        Self {
            disk: parts.disk,
            directory: parts.directory,
            options: parts.options,
            log: parts.log,
            prepared: Mutex::new(None),
            archive: parts.archive,
            snapshots: parts.snapshots,
            writer: Mutex::new(parts.writer),
            signal: Signal::default(),
            seal_through: AtomicU64::new(0),
            origin: RwLock::new(parts.origin),
            sealed: RwLock::new(parts.sealed),
            current: RwLock::new(parts.current),
            recent: Mutex::new(VecDeque::new()),
            durable: RwLock::new(parts.durable),
            anchor: Mutex::new(parts.anchor),
            poison: OnceLock::new(),
            closed: AtomicBool::new(false),
            compacting: Mutex::new(()),
            kept_by: AtomicUsize::new(0),
        }
    }

    pub(super) fn epochs_directory(&self) -> PathBuf {
        self.directory.join(epoch::DIRECTORY)
    }

    pub(super) fn durable(&self) -> Durable {
        *self.durable.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_durable(&self, durable: Durable) {
        *self.durable.write().unwrap_or_else(PoisonError::into_inner) = durable;
    }

    pub(super) fn anchor(&self) -> MutexGuard<'_, Anchor> {
        self.anchor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held by the one compaction that runs.
    pub(super) fn compacting(&self) -> MutexGuard<'_, ()> {
        self.compacting
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a compaction that runs; no other begins as long as the result is held.
    pub(super) fn keep_everything(self: &Arc<Self>) -> Keep {
        let _alone = self.compacting();
        self.kept_by.fetch_add(1, Ordering::AcqRel);
        Keep(Arc::clone(self))
    }

    /// Whether nothing may be compacted now. To be asked by whom [`Store::compacting`] is held.
    pub(super) fn keeps_everything(&self) -> bool {
        self.kept_by.load(Ordering::Acquire) > 0
    }

    pub(super) fn origin(&self) -> Durable {
        self.beginning().position
    }

    pub(super) fn beginning(&self) -> Origin {
        *self.origin.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn current(&self) -> Current {
        self.current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn set_current(&self, current: Current) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    pub(super) fn sealed(&self) -> Vec<Sealed> {
        self.sealed
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Takes the current epoch, now sealed, among the sealed ones, and begins the next.
    pub(super) fn push_sealed(&self, sealed: Sealed) {
        let last = sealed.seal.last;
        self.touch(&sealed.epoch);
        self.sealed
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .push(sealed);
        self.set_current(Current {
            epoch: Arc::new(Epoch::new(&self.epochs_directory(), last)),
            moved: last,
        });
    }

    /// Moves the beginning of the ledger forward, durably; gives the epochs that lie before it, which
    /// are to be removed, and were archived if there is an archive.
    pub(super) fn advance_origin(&self, to: Durable) -> Result<Vec<Sealed>, Error> {
        let archived_from = self.archive.as_ref().and_then(|archive| {
            // What it held once it has to hold for ever.
            let known = self.beginning().archived_from;
            known.or_else(|| archive.reaches_back_to(to.sequence))
        });
        let advanced = Origin {
            position: to,
            archived_from,
        };
        let written = origin::write(self.disk.as_ref(), &self.directory, &advanced);
        // It may have got its name, or not: nobody knows before it is read again.
        if let Err(error @ Error::Io { operation, .. }) = &written
            && ["rename", "fsync"].contains(operation)
        {
            self.poison(error);
        }
        written?;
        let mut sealed = self.sealed.write().unwrap_or_else(PoisonError::into_inner);
        let kept = sealed.partition_point(|sealed| sealed.seal.last.sequence <= to.sequence);
        let removed = sealed.drain(..kept).collect();
        *self.origin.write().unwrap_or_else(PoisonError::into_inner) = advanced;
        Ok(removed)
    }

    /// Keeps few databases open: those that were used last.
    fn touch(&self, epoch: &Arc<Epoch>) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        if recent
            .front()
            .is_some_and(|front| Arc::ptr_eq(front, epoch))
        {
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

    /// Closes every database, for good: from now on there is nothing to read, since another process may
    /// open the directory.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        for sealed in self.sealed() {
            sealed.epoch.close();
        }
        self.current().epoch.close();
    }

    /// Fails if an earlier error ended this journal.
    pub(super) fn check(&self) -> Result<(), Error> {
        match self.poison.get() {
            Some(why) => Err(Error::Poisoned { why: why.clone() }),
            None => Ok(()),
        }
    }

    /// Ends this journal: nothing more is written.
    pub(super) fn poison(&self, error: &Error) {
        let _ = self.poison.set(error.to_string());
    }

    pub(super) fn poisoned(&self) -> Option<String> {
        self.poison.get().cloned()
    }

    /// The first sequence that can be read.
    pub(super) fn first_sequence(&self) -> u64 {
        let origin = self.origin().sequence;
        self.archive
            .as_ref()
            .and_then(|archive| archive.reaches_back_to(origin))
            .unwrap_or(origin.saturating_add(1))
    }

    pub(super) fn stats(&self) -> Result<Stats, Error> {
        let sealed = self.sealed();
        let current = self.current();
        let segments = self.log.segments();
        let (snapshots, _) = self.snapshots.list()?;
        let file_bytes = |directory: &Path| epoch::stored_bytes(self.disk.as_ref(), directory);
        Ok(Stats {
            durable: self.durable(),
            first_sequence: self.first_sequence(),
            kept_from: self.origin().sequence.saturating_add(1),
            moved: current.moved.sequence,
            log_bytes: file_bytes(&self.directory.join(log::DIRECTORY))?,
            log_segments: segments.len(),
            epochs_bytes: sealed
                .iter()
                .fold(file_bytes(current.epoch.directory())?, |sum, sealed| {
                    sum.saturating_add(sealed.seal.stored_bytes)
                }),
            sealed_epochs: sealed.len(),
            snapshot_bytes: snapshots.iter().map(|info| info.bytes).sum(),
            snapshots,
            archive_bytes: self.archive.as_ref().map_or(0, |archive| {
                archive.files().iter().map(|file| file.bytes).sum()
            }),
            free_bytes: self.disk.free_space(&self.directory)?,
        })
    }

    /// Whether so much waits to be moved that the writer should wait too.
    pub(super) fn log_is_full(&self) -> bool {
        self.waiting_bytes() > self.options.log_limit_bytes
    }

    /// Bytes of frames in segments that are not moved as a whole.
    pub(super) fn waiting_bytes(&self) -> u64 {
        let moved = self.current().moved.sequence;
        self.log.segments().iter().fold(0u64, |sum, segment| {
            if segment.extent().last.sequence > moved {
                sum.saturating_add(segment.frame_bytes())
            } else {
                sum
            }
        })
    }

    /// Asks for the segments up to `last` to be sealed at the next end of a segment.
    pub(super) fn request_seal(&self, last: u64) {
        self.seal_through.fetch_max(last, Ordering::AcqRel);
        self.signal.move_now();
    }

    /// Whether that was asked for the epoch that begins behind `before`.
    pub(super) fn seal_requested(&self, before: &Durable) -> bool {
        before.sequence < self.seal_through.load(Ordering::Acquire)
    }

    fn sealed_with(&self, sequence: u64) -> Option<Sealed> {
        let sealed = self.sealed.read().unwrap_or_else(PoisonError::into_inner);
        let at = sealed.partition_point(|sealed| sealed.seal.last.sequence < sequence);
        sealed
            .get(at)
            .filter(|sealed| sealed.seal.before.sequence < sequence)
            .cloned()
    }
}

impl Source for Store {
    fn chunk(&self, from: u64) -> Result<Chunk, Error> {
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Poisoned {
                why: "it was closed".to_owned(),
            });
        }
        if from > self.durable().sequence {
            return Ok(Chunk::empty(self.durable(), &self.directory));
        }
        if from <= self.origin().sequence {
            if from >= self.first_sequence()
                && let Some(archive) = &self.archive
            {
                return archive.chunk(from);
            }
            return Err(Error::Compacted {
                first: self.first_sequence(),
            });
        }
        let current = self.current();
        if from > current.epoch.before.sequence {
            // What has been moved is read from sled, the rest from the log. The epoch may be sealed
            // between the two looks; then it is found below.
            if from <= current.moved.sequence {
                return current.epoch.chunk(self.disk.as_ref(), from);
            }
            if let Some(chunk) = self.log.chunk(from, CHUNK_BYTES)? {
                return Ok(chunk);
            }
        }
        match self.sealed_with(from) {
            Some(sealed) => {
                self.touch(&sealed.epoch);
                let chunk = sealed.epoch.chunk(self.disk.as_ref(), from);
                match chunk {
                    // Removed while it was asked.
                    Err(Error::Compacted { .. }) => self.chunk(from),
                    chunk => chunk,
                }
            }
            None => self.log.chunk(from, CHUNK_BYTES)?.ok_or(Error::Compacted {
                first: self.first_sequence(),
            }),
        }
    }
}
