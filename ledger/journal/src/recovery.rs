//! Opening a data directory: clean up after a kill, compare every part with the chain and with the others, repair parts
//! that were never acknowledged, refuse damage to acknowledged ones; then make durable everything that was read, since
//! after a kill it may never have reached the disk, before new entries depend on it.

use std::{
    collections::VecDeque,
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::RwLock;

use crate::{
    DIRECTORIES, Damage, Durable, Error, Operation, Options, SnapshotInfo,
    archive::Archive,
    disk::{Disk, File, Lock, TEMPORARY},
    epoch::{self, Epoch, Seal},
    positions::{self, Anchor, Base},
    reader::Source,
    snapshot::{DIRECTORY, Snapshots},
    store::{Current, Epochs, Lifecycle, Sealed, Signal, Store, WritePath},
    verify,
    wal::{
        self, CHUNK_BYTES, Segment, Wal, Writer,
        scan::{self, Fault, Scan},
    },
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
    let (snapshot, damaged_snapshots) = choose(&opened.store, u64::MAX)?;
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
    positions::write_base(disk.as_ref(), directory, base)?;
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
        let found = positions::read_base(self.disk, self.directory)?;
        if found.is_some() {
            // Everything before it will be removed: the base must be durable first.
            self.disk.open(&self.directory.join(positions::BASE_FILE))?.sync()?;
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
        positions::write_base(self.disk, self.directory, &nothing)?;
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
        let noted = positions::read_anchor(self.disk, self.directory)?;
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

// Recovery of the write-ahead log's segments: all but the last have to be complete; the end of the last may be torn.

/// Bytes of zeros that are written at a time over a torn end.
const ERASE_STEP_BYTES: usize = 1024 * 1024;

/// The write-ahead log as read.
struct Read {
    segments: VecDeque<Arc<Segment>>,
    /// The segment to be continued, and its size.
    active: Option<(Arc<Segment>, u64)>,
    /// The end of the ledger.
    position: Durable,
}

impl Opening<'_> {
    /// Reads the log, which has to continue `base`, the end of the last `sealed` epoch. `noted` is the acknowledged
    /// position, or one before it.
    fn wal(
        &mut self,
        sealed: Option<&Sealed>,
        base: &Durable,
        noted: Option<&Durable>,
    ) -> Result<Read, Error> {
        let directory = self.directory.join(wal::DIRECTORY);
        let listed = self.disk.list(&directory)?;
        let mut firsts: Vec<u64> =
            listed.iter().filter_map(|listed| wal::first_of(&listed.name)).collect();
        // A sealed epoch consists of whole segments: segments before its end are leftovers.
        let released = firsts.partition_point(|first| *first <= base.sequence);
        if let Some(sealed) = sealed.filter(|_| released > 0) {
            sealed.epoch.sync_seal(self.disk)?;
        }
        for first in firsts.drain(..released) {
            self.disk.remove_file(&directory.join(wal::file_name(first)))?;
            self.repaired(format!("log segment {first}: removed, as its epoch is sealed"));
        }
        let mut read = Read { segments: VecDeque::new(), active: None, position: *base };
        let wanted = noted.map_or(0, |noted| noted.sequence);
        let mut at_wanted = (base.sequence == wanted).then_some(*base);
        let last = firsts.last().copied();
        for first in firsts {
            let path = directory.join(wal::file_name(first));
            let next = read.position.sequence.saturating_add(1);
            if first != next {
                return Err(gap(&path, next, first));
            }
            let file = self.disk.open(&path)?;
            let bytes = scan::read(file.as_ref())?;
            let scan = scan::scan(&bytes, &read.position, |frame| {
                if frame.last_sequence() == wanted {
                    at_wanted = Some(frame.end());
                }
            });
            let is_last = Some(first) == last;
            if let Some(fault) = &scan.fault {
                self.fault(file.as_ref(), &scan, fault, is_last, noted)?;
            }
            if is_last && scan.extent.last.sequence > wanted {
                // The sync of these frames is not certain. If it failed, they can be read, but would never reach the
                // disk: only rewritten frames do.
                let end = usize::try_from(scan.extent.end).unwrap_or(usize::MAX);
                file.write_at(bytes.get(..end).unwrap_or_default(), 0)?;
            }
            file.sync()?;
            self.take(file, scan, is_last, &mut read)?;
        }
        acknowledged(&directory, noted, at_wanted.as_ref(), base, &read.position)?;
        Ok(read)
    }

    fn take(
        &self,
        file: Arc<dyn File>,
        scan: Scan,
        is_last: bool,
        read: &mut Read,
    ) -> Result<(), Error> {
        let before = read.position;
        if is_last && scan.extent.last == before {
            // Nothing was written to it yet: the writer creates it anew.
            self.disk.remove_file(file.path())?;
            return Ok(());
        }
        read.position = scan.extent.last;
        let size = scan.size;
        let segment = Segment::recovered(before, file, scan.extent, !is_last);
        if is_last {
            read.active = Some((Arc::clone(&segment), size));
        }
        read.segments.push_back(segment);
        Ok(())
    }

    /// Refuses damage to acknowledged entries; erases a torn end of unacknowledged ones.
    fn fault(
        &mut self,
        file: &dyn File,
        scan: &Scan,
        fault: &Fault,
        is_last: bool,
        noted: Option<&Durable>,
    ) -> Result<(), Error> {
        let end = scan.extent.last;
        let was_acknowledged = noted.is_some_and(|noted| noted.sequence > end.sequence);
        if !is_last || fault.was_durable || was_acknowledged {
            return Err(fault.damage(file, &end).into());
        }
        erase(file, fault)?;
        self.repaired(format!(
            "{} at byte {}: a torn write after sequence {} erased ({})",
            file.path().display(),
            fault.offset,
            end.sequence,
            fault.why
        ));
        Ok(())
    }
}

/// Overwrites a torn end with zeros, so that no old frame reappears behind later writes. Headers are erased last: if the
/// power fails meanwhile, no payload is left without its header, which tells it from frames.
fn erase(file: &dyn File, fault: &Fault) -> Result<(), Error> {
    let end = file.length()?;
    let mut from = fault.offset;
    for header in &fault.headers {
        zero(file, from..header.start)?;
        from = header.end;
    }
    zero(file, from..end)?;
    file.sync()?;
    for header in &fault.headers {
        zero(file, header.clone())?;
    }
    file.sync()
}

fn zero(file: &dyn File, range: Range<u64>) -> Result<(), Error> {
    let mut offset = range.start;
    while offset < range.end {
        let left = usize::try_from(range.end.saturating_sub(offset)).unwrap_or(usize::MAX);
        let step = left.min(ERASE_STEP_BYTES);
        file.zero_at(step, offset)?;
        offset = offset.saturating_add(step as u64);
    }
    Ok(())
}

fn gap(path: &std::path::Path, from: u64, to: u64) -> Error {
    let why =
        format!("the ledger has a gap: sequences {from} to {} are missing", to.saturating_sub(1));
    Error::Damaged(Damage::new(path, why).at_sequence(from).through(to.checked_sub(1)))
}

/// Compares the end of the ledger with the acknowledged position.
fn acknowledged(
    directory: &std::path::Path,
    noted: Option<&Durable>,
    at_noted: Option<&Durable>,
    base: &Durable,
    end: &Durable,
) -> Result<(), Error> {
    let Some(noted) = noted.filter(|noted| noted.sequence >= base.sequence) else {
        return Ok(());
    };
    let damaged = |sequence: u64, why: String| {
        Err(Error::Damaged(Damage::new(directory, why).at_sequence(sequence)))
    };
    if noted.sequence > end.sequence {
        let why = format!(
            "the ledger ends at sequence {}, but {} was acknowledged",
            end.sequence, noted.sequence
        );
        return damaged(end.sequence.saturating_add(1), why);
    }
    if at_noted.is_none_or(|found| found.hash != noted.hash) {
        let why = format!(
            "sequence {} was acknowledged with hash {}, which is not in the chain",
            noted.sequence, noted.hash
        );
        return damaged(noted.sequence, why);
    }
    Ok(())
}

// Recovery of epochs: whether the sealed ones continue each other, and how much of the current one is usable.

impl Opening<'_> {
    /// The sealed epochs, oldest first. Epochs before the base are leftovers of an interrupted compaction.
    fn sealed_epochs(&mut self, base: &Durable) -> Result<Vec<Sealed>, Error> {
        let directory = self.directory.join(epoch::DIRECTORY);
        let mut sealed: Vec<Sealed> = Vec::new();
        let mut end = *base;
        for listed in self.disk.list(&directory)? {
            let Some(first) = epoch::first_of(&listed.name) else {
                continue;
            };
            let path = directory.join(&listed.name);
            if first <= base.sequence {
                self.disk.remove_directory(&path)?;
                self.repaired(format!("epoch {first}: removed, as compaction had begun to"));
                continue;
            }
            let Some(seal) = Seal::read(self.disk, &path)? else {
                if first == end.sequence.saturating_add(1) {
                    // The current epoch. If others follow it, it has lost its seal, and they will not continue the
                    // chain.
                    continue;
                }
                self.strays.push((first, path));
                continue;
            };
            if seal.before != end {
                let why = format!(
                    "it continues sequence {} with hash {}, but the ledger before it ends at {} with {}",
                    seal.before.sequence, seal.before.hash, end.sequence, end.hash
                );
                return Err(Error::Damaged(
                    Damage::new(path, why).at_sequence(end.sequence.saturating_add(1)),
                ));
            }
            end = seal.last;
            sealed.push(Sealed { seal, epoch: Arc::new(Epoch::sealed(&directory, &seal)) });
        }
        Ok(sealed)
    }

    /// Removes unsealed epochs that do not begin at the expected position. The write-ahead log was read before: the log
    /// has all of their entries, or opening has failed.
    fn remove_strays(&mut self) -> Result<(), Error> {
        for (first, path) in std::mem::take(&mut self.strays) {
            self.disk.remove_directory(&path)?;
            self.repaired(format!("epoch {first}: removed, as it does not continue the ledger"));
        }
        Ok(())
    }

    /// Reads sealed epochs, newest first, and compares them with their seals. Returns the number of checked bytes of
    /// frames, and the damage despite which the ledger can be opened.
    fn check_sealed(
        &self,
        sealed: &[Sealed],
        options: &Options,
    ) -> Result<(u64, Vec<Damage>), Error> {
        let mut bytes = 0u64;
        let within = |sealed: &&Sealed| {
            bytes = bytes.saturating_add(sealed.seal.frame_bytes);
            bytes <= options.check_bytes
        };
        let checked: Vec<&Sealed> = sealed.iter().rev().take_while(within).collect();
        let workers = match options.background {
            true => std::thread::available_parallelism().map_or(1, usize::from),
            false => 1,
        };
        let found = verify::each(&checked, workers, |sealed| self.check_epoch(sealed, options));
        // The damage with the lowest sequence is reported first.
        let damaged = found.into_iter().rev().filter_map(Result::transpose);
        let damaged = damaged.collect::<Result<_, _>>()?;
        let bytes =
            checked.iter().fold(0u64, |sum, sealed| sum.saturating_add(sealed.seal.frame_bytes));
        Ok((bytes, damaged))
    }

    /// Reads a sealed epoch. Damage is an error, unless all entries can be read nevertheless, or the options allow it.
    fn check_epoch(&self, sealed: &Sealed, options: &Options) -> Result<Option<Damage>, Error> {
        let Sealed { seal, epoch } = sealed;
        let right = epoch.check(self.disk, seal, |_| {});
        epoch.close();
        match right {
            Ok(()) if !epoch.is_copied() => Ok(None),
            Ok(()) => {
                let damage = epoch.difference(self.disk)?;
                Ok(damage.map(|damage| Damage {
                    why: format!("{}; all that it holds can be read", damage.why),
                    ..damage
                }))
            }
            Err(Error::Damaged(damage)) if options.start_with_damage => Ok(Some(damage)),
            Err(error) => Err(error),
        }
    }

    /// The position up to which the current database can be used. Unless it was closed cleanly and agrees with the log,
    /// it is discarded: the log has everything, and it is unknown whether the writes of a killed process will ever be
    /// durable.
    fn current_epoch(
        &mut self,
        epoch: &Epoch,
        log: &Wal,
        durable: &Durable,
    ) -> Result<Durable, Error> {
        if self.disk.list(epoch.directory())?.is_empty() {
            return Ok(epoch.before);
        }
        if let Some(end) = epoch.reopen(self.disk)?
            && agrees(log, &end, durable)?
        {
            return Ok(end);
        }
        epoch.reset(self.disk)?;
        let first = epoch.before.sequence.saturating_add(1);
        self.repaired(format!("epoch {first}: being rebuilt from the write-ahead log"));
        Ok(epoch.before)
    }
}

/// Whether this position is in the log.
fn agrees(log: &Wal, position: &Durable, durable: &Durable) -> Result<bool, Error> {
    if position.sequence > durable.sequence {
        return Ok(false);
    }
    let Some(chunk) = log.chunk(position.sequence, CHUNK_BYTES)? else {
        return Ok(false);
    };
    Ok(chunk.position_at(position.sequence)? == Some(*position))
}

// The choice of the snapshot to begin with: the newest that is valid and agrees with the chain.

/// The newest valid snapshot of less than `before` entries, and the damage to newer ones and to those with unreadable
/// headers.
pub(crate) fn choose(
    store: &Store,
    before: u64,
) -> Result<(Option<SnapshotInfo>, Vec<Damage>), Error> {
    let durable = store.durable();
    let (found, mut damaged) = store.snapshots.list()?;
    for info in found.into_iter().rev() {
        let sequence = info.position.sequence;
        if sequence >= before {
            continue;
        }
        if sequence > durable.sequence {
            // The snapshot was made of durable entries: they are lost.
            let why = format!(
                "the ledger ends at sequence {}, but this snapshot was taken of {sequence}",
                durable.sequence
            );
            return Err(Error::Damaged(
                Damage::new(info.path, why).at_sequence(durable.sequence.saturating_add(1)),
            ));
        }
        if sequence < store.base_position().sequence {
            continue;
        }
        let in_chain = match position(store, sequence) {
            Err(Error::Damaged(damage)) if store.options.start_with_damage => {
                let why = format!("the chain there cannot be read: {damage}");
                damaged.push(Damage::new(info.path, why));
                continue;
            }
            found => found?,
        };
        if in_chain.is_none_or(|found| found != info.position) {
            let why = format!("the chain does not have its hash at sequence {sequence}");
            damaged.push(Damage::new(info.path, why));
            continue;
        }
        if let Some(damage) = store.snapshots.verify(&info)? {
            damaged.push(damage);
            continue;
        }
        store.snapshots.sync(&info)?;
        return Ok((Some(info), damaged));
    }
    if store.first_sequence() > 1 {
        let why = format!(
            "no snapshot can be used, and the entries before {} are not kept",
            store.first_sequence()
        );
        return Err(Error::Damaged(
            Damage::new(store.directory.join(DIRECTORY), why).at_sequence(1),
        ));
    }
    Ok((None, damaged))
}

/// The chain at a sequence, if a batch ends there.
fn position(store: &Store, sequence: u64) -> Result<Option<Durable>, Error> {
    let positions = [store.base_position(), store.durable()];
    if let Some(position) = positions.iter().find(|position| position.sequence == sequence) {
        return Ok(Some(*position));
    }
    store.chunk(sequence)?.position_at(sequence)
}
