//! The deep check: every frame, seal, snapshot and archive file of a ledger at rest, each part with the chain and with
//! the others. Unlike recovery it continues behind damage and reports all of it, and it changes nothing.

mod parts;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use self::parts::Verifier;
use crate::{
    Archive, BatchRef, Damage, Durable, Error, Operation, base,
    disk::{Disk, ReadOnlyDisk},
    frame::Frame,
    offline,
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
    let is_data = offline::exists(disk.as_ref(), directory)?;
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
    let base = base::read(disk.as_ref(), directory).ok().flatten();
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
