//! The deep check: every frame, seal, snapshot and archive file of a ledger at rest, each part with the chain and with
//! the others. Unlike recovery it continues behind damage and reports all of it, and it changes nothing.

mod frames;
mod parts;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Archive, BatchRef, Damage, Durable, Error, Operation, base,
    disk::{Disk, ReadOnlyDisk},
    offline,
};
use parts::Verifier;

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
