//! Opening a data directory: clean up after a kill, compare every part with the chain and with the others, repair parts
//! that were never acknowledged, refuse damage to acknowledged ones; then make durable everything that was read, since
//! after a kill it may never have reached the disk, before new entries depend on it.

mod epochs;
mod segments;
pub(super) mod snapshots;

use parking_lot::RwLock;
use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    DIRECTORIES, Damage, Durable, Error, Operation, Options, SnapshotInfo,
    anchor::{self, Anchor},
    archive::Archive,
    base::{self, Base},
    disk::{Disk, Lock, TEMPORARY},
    epoch::{self, Epoch},
    snapshot::Snapshots,
    store::{Current, Epochs, Lifecycle, Signal, Store, WritePath},
    wal::{self, Wal, Writer},
};

/// Name of the lock file in the data directory. The file exists, and is not replaced, as long as the ledger is open.
pub const LOCK: &str = "LOCK";

/// The result of opening.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Descriptions of the repairs.
    pub repaired: Vec<String>,
    /// The first sequence that can be read, including the archive.
    pub first_sequence: u64,
    /// The durable position.
    pub durable: Durable,
    /// The newest snapshot that is valid and agrees with the chain.
    pub snapshot: Option<SnapshotInfo>,
    /// Damaged snapshots, which are not used.
    pub damaged_snapshots: Vec<Damage>,
    /// Damaged sealed epochs. Unreadable parts of them are not served.
    pub damaged_epochs: Vec<Damage>,
    /// Archived entries that are missing from the archive.
    pub missing_archive: Option<Damage>,
    /// Bytes of frames in sealed epochs that were checked; the others are checked when they are read.
    pub checked_bytes: u64,
}

pub(super) struct Opened {
    pub(super) store: Store,
    pub(super) lock: Box<dyn Lock>,
    pub(super) recovery: Recovery,
}

pub(super) fn open(
    disk: Arc<dyn Disk>,
    directory: &Path,
    options: Options,
) -> Result<Opened, Error> {
    let mut opened = parts(disk, directory, options)?;
    let (snapshot, damaged_snapshots) = snapshots::choose(&opened.store, u64::MAX)?;
    opened.recovery.snapshot = snapshot;
    opened.recovery.damaged_snapshots = damaged_snapshots;
    Ok(opened)
}

/// Creates a data directory that begins behind a position, still empty, without a snapshot of the state there.
pub(super) fn begin(
    disk: Arc<dyn Disk>,
    directory: &Path,
    base: &Base,
    options: Options,
) -> Result<Opened, Error> {
    disk.create_directory(directory)?;
    if !disk.list(directory)?.is_empty() {
        let source = std::io::ErrorKind::DirectoryNotEmpty.into();
        return Err(Error::io(directory, Operation::BeginLedger, source));
    }
    Anchor::create(disk.as_ref(), directory, &base.position)?;
    base::write(disk.as_ref(), directory, base)?;
    parts(disk, directory, options)
}

/// Opens everything except the snapshots.
fn parts(disk: Arc<dyn Disk>, directory: &Path, options: Options) -> Result<Opened, Error> {
    disk.create_directory(directory)?;
    let lock = disk.lock(&directory.join(LOCK))?;
    let mut opening =
        Opening { disk: disk.as_ref(), directory, repaired: Vec::new(), strays: Vec::new() };
    let base = opening.base()?;
    opening.remove_temporary_files()?;
    let noted = opening.anchor()?;
    let sealed = opening.sealed_epochs(&base.position)?;
    let (checked_bytes, damaged_epochs) = opening.check_sealed(&sealed, &options)?;
    let sealed_end = sealed.last().map_or(base.position, |sealed| sealed.seal.last);
    let read = opening.wal(sealed.last(), &sealed_end, noted.as_ref())?;
    opening.remove_strays()?;
    let durable = read.position;
    let snapshots = Snapshots::new(Arc::clone(&disk), directory, options.throttle.clone());
    let archive = match &options.archive {
        Some(path) => Some(Arc::new(Archive::open(Arc::clone(&disk), path)?)),
        None => None,
    };
    if let Some(archive) = &archive {
        archive.clean_up()?;
        archive.is_not_ahead_of(&durable)?;
    }
    let missing_archive = archive.as_ref().and_then(|archive| base.missing_in(archive));
    opening.sync_names()?;
    let anchor = Anchor::create(disk.as_ref(), directory, &durable)?;
    let wal = Wal::new(directory.join(wal::DIRECTORY), read.segments);
    let epoch = Epoch::new(&directory.join(epoch::DIRECTORY), sealed_end);
    let flushed = opening.current_epoch(&epoch, &wal, &durable)?;
    let repaired = opening.repaired;
    let current = Current { epoch: Arc::new(epoch), flushed };
    let writer = Writer::new(read.active, durable, options.segment_bytes);
    let store = Store {
        disk,
        directory: directory.to_path_buf(),
        options,
        wal,
        write: WritePath::new(writer, durable, anchor),
        epochs: Epochs::new(directory.join(epoch::DIRECTORY), sealed, current),
        archive,
        snapshots,
        compaction: RwLock::default(),
        lifecycle: Lifecycle::default(),
        signal: Signal::default(),
        base: RwLock::new(base),
    };
    let recovery = Recovery {
        repaired,
        first_sequence: store.first_sequence(),
        durable,
        snapshot: None,
        damaged_snapshots: Vec::new(),
        damaged_epochs,
        missing_archive,
        checked_bytes,
    };
    Ok(Opened { store, lock, recovery })
}

/// A data directory being opened.
struct Opening<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    repaired: Vec<String>,
    /// Unsealed epochs that do not begin at the expected position, with their first sequences.
    strays: Vec<(u64, PathBuf)>,
}

impl Opening<'_> {
    fn subdirectories(&self) -> [PathBuf; 3] {
        DIRECTORIES.map(|name| self.directory.join(name))
    }

    fn repaired(&mut self, what: String) {
        self.repaired.push(what);
    }

    /// The base position. A directory without a ledger gets an empty one.
    fn base(&self) -> Result<Base, Error> {
        let found = base::read(self.disk, self.directory)?;
        if found.is_some() {
            // Everything before it will be removed: the base must be durable first.
            self.disk.open(&self.directory.join(base::FILE))?.sync()?;
            self.disk.sync_directory(self.directory)?;
        }
        for directory in self.subdirectories() {
            self.disk.create_directory(&directory)?;
        }
        if let Some(base) = found {
            return Ok(base);
        }
        let nothing = Base::at(Durable::NOTHING);
        Anchor::create(self.disk, self.directory, &nothing.position)?;
        base::write(self.disk, self.directory, &nothing)?;
        Ok(nothing)
    }

    fn remove_temporary_files(&self) -> Result<(), Error> {
        let [log, epochs, snapshots] = self.subdirectories();
        let mut directories = vec![self.directory.to_path_buf(), log, snapshots];
        for listed in self.disk.list(&epochs)? {
            if listed.is_directory {
                directories.push(epochs.join(&listed.name));
            }
        }
        for directory in directories {
            for listed in self.disk.list(&directory)? {
                if listed.name.ends_with(TEMPORARY) && !listed.is_directory {
                    self.disk.remove_file(&directory.join(&listed.name))?;
                }
            }
        }
        Ok(())
    }

    /// The last acknowledged position in the anchor file.
    fn anchor(&mut self) -> Result<Option<Durable>, Error> {
        let noted = anchor::read(self.disk, self.directory)?;
        if noted.unreadable > 0 || noted.position.is_none() {
            let left = match noted.position {
                Some(position) => format!("sequence {} is left", position.sequence),
                None => "nothing is left".to_owned(),
            };
            self.repaired(format!("anchor: a note cannot be read; {left}"));
        }
        Ok(noted.position)
    }

    /// Makes the names durable that recovery has read or removed.
    fn sync_names(&self) -> Result<(), Error> {
        for directory in self.subdirectories() {
            self.disk.sync_directory(&directory)?;
        }
        self.disk.sync_directory(self.directory)
    }
}
