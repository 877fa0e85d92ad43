//! Reading a ledger without a daemon, and without changing it: a data directory, or an archive.

use std::{io::ErrorKind, path::Path, sync::Arc};

use super::{
    Archive, BatchReader, Error, FileReader, Operation, Options, Reader, base,
    disk::{Disk, Lock, ReadOnlyDisk},
    reader::Source,
    recovery,
};

/// A ledger at rest.
pub enum Offline {
    /// A data directory. While it is held, no daemon can open it.
    Data(Box<OfflineData>),
    /// An archive directory, or a part of one.
    Archive(Arc<Archive>),
}

/// A data directory at rest.
pub struct OfflineData {
    reader: FileReader,
    _lock: Box<dyn Lock>,
}

impl Offline {
    /// Opens a directory for reading. For a data directory, `archive` may name the directory that its compaction
    /// filled. A torn end that recovery would erase is not read, and sealed epochs are checked as they are read.
    ///
    /// # Errors
    /// [`Error::Locked`] while a daemon runs, [`Error::Damaged`], [`Error::Io`]; not found, if the directory holds no
    /// ledger.
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        archive: Option<&Path>,
    ) -> Result<Self, Error> {
        if !exists(disk.as_ref(), directory)? {
            let archive = Archive::open(disk, directory)?;
            if archive.files().is_empty() {
                let path = directory.join(base::FILE);
                return Err(Error::io(path, Operation::Open, ErrorKind::NotFound.into()));
            }
            return Ok(Self::Archive(Arc::new(archive)));
        }
        let options = Options {
            archive: archive.map(Path::to_path_buf),
            check_bytes: 0,
            start_with_damage: true,
            background: false,
            ..Options::default()
        };
        let opened = recovery::open(Arc::new(ReadOnlyDisk::new(disk)), directory, options)?;
        Ok(Self::Data(Box::new(OfflineData {
            reader: FileReader::new(Arc::new(opened.store)),
            _lock: opened.lock,
        })))
    }

    /// Reads from the batch that holds the entry `from`; 0: from the first available one.
    pub fn batches(&self, from: u64) -> BatchReader {
        let from = from.max(self.first_sequence());
        match self {
            Self::Data(data) => data.reader.batches(from),
            Self::Archive(archive) => archive.read(from),
        }
    }

    /// The source of chunks.
    pub(super) fn source(&self) -> &dyn Source {
        match self {
            Self::Data(data) => data.reader.store.as_ref(),
            Self::Archive(archive) => archive.as_ref(),
        }
    }

    /// Sequence of the first entry that can be read.
    pub fn first_sequence(&self) -> u64 {
        match self {
            Self::Data(data) => data.reader.first_sequence(),
            Self::Archive(archive) => archive.files().first().map_or(1, |file| file.first_sequence),
        }
    }

    /// Sequence of the last entry.
    pub fn last_sequence(&self) -> u64 {
        match self {
            Self::Data(data) => data.reader.durable().sequence,
            Self::Archive(archive) => archive.files().last().map_or(0, |file| file.last_sequence),
        }
    }
}

/// Whether a directory is a data directory.
pub(super) fn exists(disk: &dyn Disk, directory: &Path) -> Result<bool, Error> {
    let listed = disk.list(directory)?;
    if listed.iter().any(|listed| listed.name == base::FILE) {
        return Ok(true);
    }
    // Even without a base position, enough files of a ledger may be there to report the damage.
    Ok(base::read(disk, directory)?.is_some())
}

impl OfflineData {
    /// The reader.
    pub const fn reader(&self) -> &FileReader {
        &self.reader
    }
}

impl Drop for OfflineData {
    fn drop(&mut self) {
        self.reader.store.close();
    }
}
