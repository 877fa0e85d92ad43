//! What all users of an open journal share: the parts of the ledger, and where each sequence is.

mod epochs;
mod gate;
mod lifecycle;
mod signal;
mod write;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use super::{
    Durable, Error,
    anchor::Anchor,
    archive::Archive,
    disk::Disk,
    epoch,
    log::{self, CHUNK_BYTES, Log, Writer},
    options::Options,
    origin::{self, Origin},
    reader::{Chunk, Source},
    snapshot::Snapshots,
    stats::Stats,
};

pub(super) use epochs::{Current, Epochs, Sealed};
pub(super) use gate::{CompactionGate, CompactionHold};
pub(super) use lifecycle::Lifecycle;
pub(super) use signal::Signal;
pub(super) use write::WritePath;

/// The parts of an open ledger. Each guards itself.
pub(super) struct Store {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) directory: PathBuf,
    pub(super) options: Options,
    pub(super) log: Log,
    pub(super) write: WritePath,
    pub(super) epochs: Epochs,
    pub(super) archive: Option<Arc<Archive>>,
    pub(super) snapshots: Snapshots,
    pub(super) gate: Arc<CompactionGate>,
    pub(super) lifecycle: Lifecycle,
    pub(super) signal: Signal,
    /// Where the ledger begins; compaction moves it.
    origin: RwLock<Origin>,
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
        let epochs = parts.directory.join(epoch::DIRECTORY);
        Self {
            write: WritePath::new(parts.writer, parts.durable, parts.anchor),
            epochs: Epochs::new(epochs, parts.sealed, parts.current),
            disk: parts.disk,
            directory: parts.directory,
            options: parts.options,
            log: parts.log,
            archive: parts.archive,
            snapshots: parts.snapshots,
            gate: Arc::default(),
            lifecycle: Lifecycle::default(),
            signal: Signal::default(),
            origin: RwLock::new(parts.origin),
        }
    }

    pub(super) fn epochs_directory(&self) -> PathBuf {
        self.directory.join(epoch::DIRECTORY)
    }

    pub(super) fn durable(&self) -> Durable {
        self.write.durable()
    }

    pub(super) fn origin(&self) -> Durable {
        self.beginning().position
    }

    pub(super) fn beginning(&self) -> Origin {
        *self.origin.read()
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
        origin::stage(self.disk.as_ref(), &self.directory, &advanced)?;
        // It may have got its name, or not: nobody knows before it is read again.
        origin::install(self.disk.as_ref(), &self.directory)
            .inspect_err(|error| self.lifecycle.poison(error))?;
        // First, so that nobody looks among the epochs for what is no longer there.
        *self.origin.write() = advanced;
        Ok(self.epochs.take_through(to.sequence))
    }

    /// Closes every database, for good: from now on there is nothing to read, since another process may
    /// open the directory.
    pub(super) fn close(&self) {
        self.lifecycle.close();
        self.epochs.close();
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
        let sealed = self.epochs.sealed();
        let current = self.epochs.current();
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
        let moved = self.epochs.current().moved.sequence;
        self.log.segments().iter().fold(0u64, |sum, segment| {
            if segment.extent().last.sequence > moved {
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
        let current = self.epochs.current();
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
        match self.epochs.sealed_with(from) {
            Some(sealed) => {
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
