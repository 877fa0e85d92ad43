//! The deep check: every frame, seal, snapshot and archive file of a ledger at rest, each part with the
//! chain and with the others. Unlike recovery it continues behind damage and reports all of it, and it changes
//! nothing.

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

/// Follows a check while it goes on, from as many threads as check.
pub trait Observer: Sync {
    /// A part has been begun: what it is, and how many bytes have been checked, of how many.
    fn progress(&self, part: &str, checked: u64, total: u64) {
        let _ = (part, checked, total);
    }

    /// A batch that is right so far. They come in order only if one thread checks. What is found to be wrong with its payload is reported.
    ///
    /// # Errors
    /// What is wrong with it.
    fn batch(&self, batch: BatchRef<'_>) -> Result<(), String> {
        let _ = batch;
        Ok(())
    }
}

/// Follows nothing.
impl Observer for () {}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Everything that is damaged or missing. Empty: the ledger is whole.
    pub damages: Vec<Damage>,
    /// What is no damage, but is put right when the ledger is opened.
    pub notes: Vec<String>,
    /// Batches that were checked.
    pub batches: u64,
    /// Entries in them.
    pub entries: u64,
    /// Sequence of the first entry that was checked; 0 if there is none.
    pub first_sequence: u64,
    /// Where the chain ends.
    pub last: Option<Durable>,
    /// Snapshots that are right.
    pub snapshots: usize,
    /// Bytes of frames that were checked.
    pub bytes: u64,
}

/// Checks a data directory, with its archive if that is named, or an archive directory alone.
///
/// # Errors
/// [`Error::Locked`] while a daemon runs; [`Error::Io`] if something cannot be read, and not found if there
/// is no ledger. Damage is no error here: it is what is answered.
pub fn verify(
    disk: Arc<dyn Disk>,
    directory: &Path,
    archive: Option<&Path>,
    observer: &dyn Observer,
) -> Result<Verified, Error> {
    verify_with(disk, directory, archive, 1, observer)
}

/// As [`verify`], with so many threads, of which each looks at one epoch or archive file at a time.
///
/// # Errors
/// As [`verify`].
pub fn verify_with(
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
    // That it cannot be read is found out below.
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
