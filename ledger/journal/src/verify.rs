//! The deep check: every frame, seal, snapshot and archive file of a ledger at rest, each part with the chain and with
//! the others. Unlike recovery it continues behind damage and reports all of it, and it changes nothing.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

use crate::{
    Archive, BatchRef, Damage, Durable, Error, Operation,
    archive::ArchiveFile,
    disk::{Disk, ReadOnlyDisk},
    epoch::{self, Epoch, Seal},
    frame::Frame,
    journal::Throttle,
    positions, reader,
    snapshot::Snapshots,
    wal::{self, scan},
};

/// Observes a running check, from all of its threads.
pub trait Observer: Sync {
    /// A part has begun: its name, the bytes checked so far, and the total.
    fn progress(&self, part: &str, checked: u64, total: u64) {
        let _ = (part, checked, total);
    }

    /// A batch that is valid so far. The batches come in order only if one thread checks. Errors in the payload are
    /// reported as damage.
    ///
    /// # Errors
    /// The error in the payload.
    fn batch(&self, batch: BatchRef<'_>) -> Result<(), String> {
        let _ = batch;
        Ok(())
    }
}

/// Observes nothing.
impl Observer for () {}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Everything that is damaged or missing. Empty: the ledger is intact.
    pub damages: Vec<Damage>,
    /// Findings that are not damage, but are repaired when the ledger is opened.
    pub notes: Vec<String>,
    /// The number of checked batches.
    pub batches: u64,
    /// The number of entries in them.
    pub entries: u64,
    /// Sequence of the first checked entry; 0 if there is none.
    pub first_sequence: u64,
    /// The end of the chain.
    pub last: Option<Durable>,
    /// The number of valid snapshots.
    pub snapshots: usize,
    /// The checked bytes of frames.
    pub bytes: u64,
}

/// Checks a data directory, with its archive if that is given, or an archive directory alone, with `jobs` threads, each
/// of which checks one epoch or archive file at a time.
///
/// # Errors
/// [`Error::Locked`] while a daemon runs; [`Error::Io`] if a file cannot be read, and not found if there is no ledger.
/// Damage is not an error here, but part of the result.
pub fn verify(
    disk: Arc<dyn Disk>,
    directory: &Path,
    archive: Option<&Path>,
    jobs: usize,
    observer: &dyn Observer,
) -> Result<Verified, Error> {
    let disk: Arc<dyn Disk> = Arc::new(ReadOnlyDisk::new(disk));
    let is_data = reader::exists(disk.as_ref(), directory)?;
    let archive: Option<PathBuf> = match (archive, is_data) {
        (Some(archive), _) => Some(archive.to_path_buf()),
        (None, false) => Some(directory.to_path_buf()),
        (None, true) => None,
    };
    let archive = match archive {
        Some(path) => Some(Archive::open(Arc::clone(&disk), &path)?),
        None => None,
    };
    let mut files = archive.as_ref().map(Archive::files).unwrap_or_default();
    if files.is_empty() && !is_data {
        let source = std::io::ErrorKind::NotFound.into();
        return Err(Error::io(directory, Operation::FindLedger, source));
    }
    let _lock = match is_data {
        true => Some(disk.lock(&directory.join(super::recovery::LOCK))?),
        false => None,
    };
    // An unreadable base is reported below.
    let base = positions::read_base(disk.as_ref(), directory).ok().flatten();
    let removed = match base.filter(|_| is_data) {
        Some(base) => files.partition_point(|file| file.first_sequence <= base.position.sequence),
        None => files.len(),
    };
    let early = files.split_off(removed);
    let mut verifier = Verifier::new(disk.as_ref(), directory, jobs, observer);
    if let Some(archive) = &archive {
        verifier.archive(archive, &files)?;
    }
    if is_data {
        verifier.data(&disk, &early)?;
    }
    if let Some(archive) = &archive {
        verifier.archived_early(archive, &early)?;
        verifier.missing(base.and_then(|base| base.missing_in(archive)));
    }
    Ok(verifier.finish())
}

/// The findings in a part.
#[derive(Default)]
struct Findings {
    batches: u64,
    entries: u64,
    bytes: u64,
    /// Sequence of the first entry; 0 if there was none.
    first_sequence: u64,
    /// The chain at the requested sequences.
    ends: Vec<Durable>,
    damages: Vec<Damage>,
}

/// Checks the frames of one file.
struct Frames<'a> {
    file: &'a Path,
    awaited: &'a [(u64, Option<Durable>)],
    observer: &'a dyn Observer,
    seen: Findings,
}

impl<'a> Frames<'a> {
    fn of(
        file: &'a Path,
        awaited: &'a [(u64, Option<Durable>)],
        observer: &'a dyn Observer,
    ) -> Self {
        Self { file, awaited, observer, seen: Findings::default() }
    }

    /// Checks a frame that continues `before`.
    fn take(&mut self, before: &Durable, frame: &Frame<'_>) {
        let seen = &mut self.seen;
        seen.batches += 1;
        seen.entries = seen.entries.saturating_add(u64::from(frame.count));
        seen.bytes = seen.bytes.saturating_add(frame.bytes.len() as u64);
        if seen.first_sequence == 0 {
            seen.first_sequence = frame.first_sequence;
        }
        let last = frame.last_sequence();
        if self.awaited.iter().any(|(awaited, _)| *awaited == last) {
            seen.ends.push(frame.end());
        }
        let right = self.observer.batch(BatchRef {
            first_sequence: frame.first_sequence,
            count: frame.count,
            time: frame.time,
            payload: frame.payload,
            hash: frame.hash,
            previous: before.hash,
        });
        if let Err(why) = right {
            seen.damages.push(Damage::new(self.file, why).at_sequence(frame.first_sequence));
        }
    }
}

// The parts of a ledger, one after the other.

struct Verifier<'a> {
    disk: &'a dyn Disk,
    directory: &'a Path,
    jobs: usize,
    observer: &'a dyn Observer,
    found: Verified,
    total: u64,
    /// The chain at the sequences at which snapshots and archive files end, if reached so far.
    ends: Vec<(u64, Option<Durable>)>,
    /// Positions of the write-ahead log that the unsealed epoch proves.
    witnessed: Vec<(PathBuf, Durable)>,
}

impl<'a> Verifier<'a> {
    fn new(
        disk: &'a dyn Disk,
        directory: &'a Path,
        jobs: usize,
        observer: &'a dyn Observer,
    ) -> Self {
        Self {
            disk,
            directory,
            jobs,
            observer,
            found: Verified::default(),
            total: 0,
            ends: Vec::new(),
            witnessed: Vec::new(),
        }
    }

    fn finish(self) -> Verified {
        self.found
    }

    /// Adds damage to the report; other errors end the check.
    fn report(&mut self, error: Error) -> Result<(), Error> {
        match error {
            Error::Damaged(damage) => {
                self.found.damages.push(damage);
                Ok(())
            }
            error => Err(error),
        }
    }

    fn damage(&mut self, file: &Path, sequence: Option<u64>, why: String) {
        self.found.damages.push(Damage::new(file, why).at_sequence(sequence));
    }

    fn begin(&mut self, part: &str) {
        self.observer.progress(part, self.found.bytes, self.total);
    }

    /// Adds the findings in a part. Parts are added in order.
    fn take(&mut self, seen: Findings) {
        let found = &mut self.found;
        found.batches = found.batches.saturating_add(seen.batches);
        found.entries = found.entries.saturating_add(seen.entries);
        found.bytes = found.bytes.saturating_add(seen.bytes);
        if found.first_sequence == 0 {
            found.first_sequence = seen.first_sequence;
        }
        found.damages.extend(seen.damages);
        for end in seen.ends {
            self.meet(&end);
        }
    }

    /// Reads the frames of several files at a time, and reports the beginning of each to the observer.
    fn each<T: Sync, R: Send>(
        &self,
        items: &[T],
        file: impl Fn(&T) -> &Path + Sync,
        look: impl Fn(&T, &mut Frames<'_>) -> Result<R, Error> + Sync,
    ) -> Vec<(Findings, Result<R, Error>)> {
        let checked = AtomicU64::new(self.found.bytes);
        each(items, self.jobs, |item| {
            let path = file(item);
            let part = path.display().to_string();
            self.observer.progress(&part, checked.load(Ordering::Relaxed), self.total);
            let mut frames = Frames::of(path, &self.ends, self.observer);
            let found = look(item, &mut frames);
            checked.fetch_add(frames.seen.bytes, Ordering::Relaxed);
            (frames.seen, found)
        })
    }

    /// Checks the files of an archive, and whether they continue each other.
    fn archive(&mut self, archive: &Archive, files: &[ArchiveFile]) -> Result<(), Error> {
        let bytes: u64 = files.iter().map(|file| file.bytes).sum();
        self.total = self.total.saturating_add(bytes);
        let looked = self.each(
            files,
            |file| &file.path,
            |file, frames| archive.verify(file, |before, frame| frames.take(before, frame)),
        );
        for (file, (seen, ends)) in files.iter().zip(looked) {
            self.take(seen);
            match ends {
                Ok((before, last)) => {
                    self.continues(&file.path, &before);
                    self.found.last = Some(last);
                }
                Err(error) => self.report(error)?,
            }
        }
        Ok(())
    }

    /// Archive files whose entries the data directory, just checked, still holds as well: the compaction that wrote
    /// them was interrupted before the removal.
    fn archived_early(&mut self, archive: &Archive, files: &[ArchiveFile]) -> Result<(), Error> {
        for file in files {
            let path = file.path.display();
            self.found.notes.push(format!("{path}: archived, and not removed yet"));
            let last = match archive.verify(file, |_, _| {}) {
                Ok((_, last)) => last,
                Err(error) => {
                    self.report(error)?;
                    continue;
                }
            };
            if self.end_at(last.sequence) != Some(last) {
                let sequence = last.sequence;
                let why = format!("the chain does not have its hash at sequence {sequence}");
                self.damage(&file.path, Some(sequence), why);
            }
        }
        Ok(())
    }

    /// Reports archived entries that are missing.
    fn missing(&mut self, archived: Option<Damage>) {
        self.found.damages.extend(archived);
    }

    fn end_at(&self, sequence: u64) -> Option<Durable> {
        let end = self.ends.iter().find(|(end, _)| *end == sequence);
        end.and_then(|(_, position)| *position)
    }

    /// Checks that a part which begins behind `before` continues the checked parts.
    fn continues(&mut self, file: &Path, before: &Durable) {
        let Some(last) = self.found.last.filter(|last| last != before) else {
            return;
        };
        let why = format!(
            "it continues sequence {} with hash {}, but the ledger before it ends at {} with {}",
            before.sequence, before.hash, last.sequence, last.hash
        );
        self.damage(file, Some(last.sequence.saturating_add(1)), why);
    }

    /// Checks a data directory. `early`: the archive files whose entries it still holds.
    fn data(&mut self, disk: &Arc<dyn Disk>, early: &[ArchiveFile]) -> Result<(), Error> {
        let snapshots = Snapshots::new(Arc::clone(disk), self.directory, Throttle::default());
        let (taken, damaged) = snapshots.list()?;
        self.found.damages.extend(damaged);
        let of_snapshots = taken.iter().map(|info| info.position.sequence);
        let of_files = early.iter().map(|file| file.last_sequence);
        self.ends = of_snapshots.chain(of_files).map(|end| (end, None)).collect();
        let base = match positions::read_base(self.disk, self.directory) {
            Ok(base) => base,
            Err(error) => {
                self.report(error)?;
                None
            }
        };
        let base = base.map(|base| base.position);
        if let Some(base) = base {
            self.continues(&self.directory.join(positions::BASE_FILE), &base);
            self.found.last = Some(base);
            self.meet(&base);
        }
        self.epochs(base.as_ref())?;
        self.wal()?;
        self.agrees_with_witnesses();
        let end = self.found.last;
        let base = base.map_or(0, |base| base.sequence);
        for info in taken {
            let sequence = info.position.sequence;
            self.begin(&info.path.display().to_string());
            let in_chain = self.end_at(sequence);
            if end.is_some_and(|end| end.sequence < sequence) {
                let why = format!("it was taken of sequence {sequence}, which the ledger lacks");
                self.damage(&info.path, Some(sequence), why);
            } else if sequence >= base && in_chain != Some(info.position) {
                let why = format!("the chain does not have its hash at sequence {sequence}");
                self.damage(&info.path, Some(sequence), why);
            } else if let Some(damage) = snapshots.verify(&info)? {
                self.found.damages.push(damage);
            } else {
                self.found.snapshots += 1;
            }
        }
        Ok(())
    }

    /// Checks that the write-ahead log has the entries that were flushed from it.
    fn agrees_with_witnesses(&mut self) {
        for (epoch, position) in std::mem::take(&mut self.witnessed) {
            if self.end_at(position.sequence) != Some(position) {
                let why = format!(
                    "it was filled from the write-ahead log up to sequence {} with hash {}, which the log does not have there",
                    position.sequence, position.hash
                );
                self.damage(&epoch, Some(position.sequence), why);
            }
        }
    }

    fn meet(&mut self, position: &Durable) {
        for (sequence, reached) in &mut self.ends {
            if *sequence == position.sequence {
                *reached = Some(*position);
            }
        }
    }

    /// Checks the sealed epochs, and whether the current one agrees with the log.
    fn epochs(&mut self, base: Option<&Durable>) -> Result<(), Error> {
        let directory = self.directory.join(epoch::DIRECTORY);
        let begin = base.map_or(0, |base| base.sequence);
        let (mut seals, mut filling) = (Vec::new(), None);
        for listed in self.disk.list(&directory)? {
            let Some(first) = epoch::first_of(&listed.name) else {
                continue;
            };
            let path = directory.join(&listed.name);
            if first <= begin {
                self.found.notes.push(format!("{}: compacted, to be removed", path.display()));
                continue;
            }
            match Seal::read(self.disk, &path) {
                Ok(Some(seal)) => {
                    self.total = self.total.saturating_add(seal.frame_bytes);
                    seals.push((path, seal));
                }
                Ok(None) => {
                    let what = format!("{}: not sealed yet", path.display());
                    self.found.notes.push(what);
                    filling = Some((first, path));
                }
                Err(error) => self.report(error)?,
            }
        }
        let looked = self.each(
            &seals,
            |(path, _)| path,
            |(_, seal), frames| {
                let epoch = Epoch::sealed(&directory, seal);
                frames.seen.damages.extend(epoch.difference(self.disk)?);
                let mut before = seal.before;
                let checked = epoch.check(self.disk, seal, |frame| {
                    frames.take(&before, frame);
                    before = frame.end();
                });
                epoch.close();
                checked
            },
        );
        for ((path, seal), (seen, right)) in seals.iter().zip(looked) {
            self.continues(path, &seal.before);
            self.take(seen);
            if let Err(error) = right {
                self.report(error)?;
            }
            // The entries that follow were chained to the sealed end, whatever is left of the epoch.
            self.found.last = Some(seal.last);
        }
        let end = self.found.last.unwrap_or(Durable::NOTHING);
        let filling = filling.filter(|(first, _)| *first == end.sequence.saturating_add(1));
        if let Some((_, path)) = filling {
            for position in Epoch::new(&directory, end).witnessed(self.disk)? {
                self.ends.push((position.sequence, None));
                self.witnessed.push((path.clone(), position));
            }
        }
        Ok(())
    }

    /// Checks the segments of the write-ahead log, and the acknowledged position.
    fn wal(&mut self) -> Result<(), Error> {
        let directory = self.directory.join(wal::DIRECTORY);
        let anchor = positions::read_anchor(self.disk, self.directory)?;
        let noted = anchor.position;
        if noted.is_none() || anchor.unreadable > 0 {
            let path = self.directory.join(positions::ANCHOR_FILE);
            self.found.notes.push(format!("{}: a note cannot be read", path.display()));
        }
        let mut listed = self.disk.list(&directory)?;
        listed.retain(|listed| wal::first_of(&listed.name).is_some());
        let last = listed.last().map(|listed| listed.name.clone());
        let sealed = self.found.last.unwrap_or(Durable::NOTHING);
        let mut noted_is_there =
            noted.is_none_or(|noted| noted.sequence < sealed.sequence || noted == sealed);
        for listed in listed {
            let path = directory.join(&listed.name);
            let end = self.found.last.unwrap_or(Durable::NOTHING);
            let first = wal::first_of(&listed.name).unwrap_or(0);
            if first <= sealed.sequence {
                self.found.notes.push(format!("{}: sealed, to be removed", path.display()));
                continue;
            }
            self.begin(&path.display().to_string());
            let file = self.disk.open(&path)?;
            let bytes = scan::read(file.as_ref())?;
            let before = scan::before(&bytes).unwrap_or(end);
            self.continues(&path, &before);
            let mut at = before;
            let mut frames = Frames::of(&path, &self.ends, self.observer);
            let scan = scan::scan(&bytes, &before, |frame| {
                noted_is_there |= noted == Some(frame.end());
                frames.take(&at, frame);
                at = frame.end();
            });
            let seen = frames.seen;
            self.take(seen);
            let position = scan.extent.last;
            if let Some(fault) = scan.fault {
                let acknowledged = noted.is_some_and(|noted| noted.sequence > position.sequence);
                if fault.was_durable || acknowledged || last.as_deref() != Some(&listed.name) {
                    self.found.damages.push(fault.damage(file.as_ref(), &position));
                } else {
                    self.found.notes.push(format!(
                        "{} at byte {}: a torn write that was never acknowledged, to be erased",
                        path.display(),
                        fault.offset
                    ));
                }
            }
            self.found.last = Some(position);
        }
        if let Some(noted) = noted.filter(|_| !noted_is_there) {
            let why =
                format!("sequence {} was acknowledged, and is not in the ledger", noted.sequence);
            self.damage(&directory, Some(noted.sequence), why);
        }
        Ok(())
    }
}

// Work on the parts of a ledger in several threads.

/// Calls a function for each item, several at a time; the results are in order.
pub(crate) fn each<T: Sync, R: Send>(
    items: &[T],
    jobs: usize,
    look: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some((number, item)) = {
            let number = next.fetch_add(1, Ordering::Relaxed);
            items.get(number).map(|item| (number, item))
        } {
            let result = look(item);
            let mut done = done.lock();
            done.push((number, result));
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..jobs.min(items.len()) {
            scope.spawn(work);
        }
        work();
    });
    let mut done = done.into_inner();
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
