//! The state shared by all users of an open journal: the parts of the ledger, and the place of each sequence.

mod epochs;
mod signal;
mod write;

pub(super) use epochs::{Current, Epochs, Sealed};
pub(super) use signal::Signal;
pub(super) use write::WritePath;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
};

use parking_lot::RwLock;

use crate::{
    Durable, Error,
    archive::Archive,
    base::{self, Base},
    disk::Disk,
    epoch,
    journal::Options,
    journal::Stats,
    reader::{Chunk, Source},
    snapshot::Snapshots,
    wal::{self, CHUNK_BYTES, Wal},
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
        base::stage(self.disk.as_ref(), &self.directory, &advanced)?;
        // After an error either file may be on disk, until the directory is read again.
        base::install(self.disk.as_ref(), &self.directory)
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
