//! The journal's interface to the disk, so that tests can replace it by one that crashes, tears writes and loses writes
//! that were not synced.

mod real;

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

pub use real::RealDisk;

use crate::{Damage, Error, Operation};

/// A file in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Its name, without the directory.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Length in bytes; 0 for directories.
    pub length: u64,
}

/// File operations. Nothing is durable before it is synced: content by [`File::sync`], names by
/// [`Disk::sync_directory`].
pub trait Disk: Send + Sync {
    /// Creates an empty file for reading and writing; an existing file is truncated.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error>;

    /// Opens an existing file for reading and writing, or for reading only if writing is not permitted.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error>;

    /// Renames a file or directory atomically; an existing file is replaced.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove_file(&self, path: &Path) -> Result<(), Error>;

    /// Removes a directory with its content; does nothing if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove_directory(&self, path: &Path) -> Result<(), Error>;

    /// Creates a directory in an existing one.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn make_directory(&self, path: &Path) -> Result<(), Error>;

    /// Whether there is a directory of this name.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn has_directory(&self, path: &Path) -> Result<bool, Error>;

    /// Creates a directory and its missing parents, durably. An existing directory may have been created by a process
    /// that was killed before the sync, and a crash would lose its name with all its content: so no file is put into a
    /// directory before the directory's own name was synced.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn create_directory(&self, path: &Path) -> Result<(), Error> {
        let above = parent(path);
        let is_missing = !self.has_directory(path)?;
        if is_missing {
            self.create_directory(above)?;
            self.make_directory(path)?;
        }
        match self.sync_directory(above) {
            // The parent belongs to another user and is not readable; that user created this directory in it.
            Err(Error::Io { source, .. })
                if !is_missing && source.kind() == ErrorKind::PermissionDenied =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    /// The entries of a directory, by name; none if the directory does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn sync_directory(&self, directory: &Path) -> Result<(), Error>;

    /// The free bytes of the file system that holds `path`.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn free_space(&self, path: &Path) -> Result<u64, Error>;

    /// Takes the lock file of a data directory until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process holds it.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error>;

    /// As [`Disk::lock`], for reading: shared with other readers, and the file is neither created nor changed. A
    /// missing file locks nothing.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process holds it for writing.
    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error>;

    /// Whether writes are discarded.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Opens a key-value database, or creates it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it cannot be opened, [`Error::Io`].
    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error>;

    /// Opens a copy of a database, which is removed when it is closed. So no file in the directory changes, even if the
    /// database is damaged: sled repairs a damaged database when it opens it, and loses the entries behind the damage.
    ///
    /// # Errors
    /// As [`Disk::database`]; [`Error::Io`] also if there is no room for the copy.
    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error>;

    /// The files of a database, sorted by name: paths within its directory, with `/`.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn database_files(&self, directory: &Path) -> Result<Vec<String>, Error> {
        let mut names = Vec::new();
        let mut directories = vec![String::new()];
        while let Some(below) = directories.pop() {
            for listed in self.list(&directory.join(&below))? {
                let name = match below.as_str() {
                    "" => listed.name,
                    below => format!("{below}/{}", listed.name),
                };
                match listed.is_directory {
                    true => directories.push(name),
                    false => names.push(name),
                }
            }
        }
        names.sort();
        Ok(names)
    }

    /// Reads a file, at most `limit` bytes of it; none if it does not exist.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn read(&self, path: &Path, limit: usize) -> Result<Option<Vec<u8>>, Error> {
        let file = match self.open(path) {
            Ok(file) => file,
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        let length = usize::try_from(file.length()?).unwrap_or(usize::MAX);
        let mut bytes = vec![0; length.min(limit)];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Ok(Some(bytes))
    }

    /// Replaces a small file atomically, so that a crash leaves the old content or the new: a temporary file, synced,
    /// renamed, and the directory synced.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.stage(path, bytes)?;
        self.install(path)
    }

    /// The first half of [`Disk::replace`]: after an error the old file is still there.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn stage(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let file = self.create(&temporary(path))?;
        file.write_at(bytes, 0)?;
        file.sync()
    }

    /// The second half of [`Disk::replace`]: after an error it is unknown which file is there.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn install(&self, path: &Path) -> Result<(), Error> {
        self.rename(&temporary(path), path)?;
        self.sync_directory(parent(path))
    }
}

/// An open file.
pub trait File: Send + Sync {
    /// Reads until the buffer is full or the file ends. Returns the number of bytes read.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error>;

    /// Writes all bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error>;

    /// Writes zeros.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn zero_at(&self, length: usize, offset: u64) -> Result<(), Error> {
        self.write_at(&vec![0; length], offset)
    }

    /// Makes content and length durable (fdatasync). After an error no write since the last success can be relied on,
    /// and the success of a second call proves nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn sync(&self) -> Result<(), Error>;

    /// Length in bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn length(&self) -> Result<u64, Error>;

    /// The path with which it was opened.
    fn path(&self) -> &Path;
}

/// Holds the lock of a data directory.
pub trait Lock: Send + Sync {}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// An ordered key-value database.
pub trait Database: Send + Sync {
    /// Inserts these pairs in this order; of equal keys the last one stays. They are durable only after
    /// [`Database::sync`].
    ///
    /// # Errors
    /// [`Error::Io`].
    fn insert(&self, pairs: Vec<Pair>) -> Result<(), Error>;

    /// Makes all inserted pairs durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn sync(&self) -> Result<(), Error>;

    /// The greatest key that is at most `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    fn key_at_or_below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// At most `limit` pairs in order, beginning with the key `from`.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    fn range(&self, from: &[u8], limit: usize) -> Result<Vec<Pair>, Error>;

    /// Closes the database. The writes of the close itself are durable only if it succeeds.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// Suffix of unfinished files. They have no meaning and are removed on open.
pub(super) const TEMPORARY: &str = ".tmp";

/// The name of a file while it is being written.
pub(super) fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(TEMPORARY);
    PathBuf::from(name)
}

/// The directory of a file.
pub(super) fn parent(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

// A disk that never changes: writes are kept in memory and discarded. A ledger is opened on it for reading alone, with
// the same recovery code.

/// Another disk, read without changes. Databases are opened as copies, since sled writes to the files that it opens.
pub(crate) struct ReadOnlyDisk {
    disk: Arc<dyn Disk>,
    /// Files that were created here: none of them reaches the disk.
    made: Mutex<BTreeMap<PathBuf, Arc<MemoryFile>>>,
}

impl ReadOnlyDisk {
    pub(crate) fn new(disk: Arc<dyn Disk>) -> Self {
        Self { disk, made: Mutex::default() }
    }
}

impl Disk for ReadOnlyDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        let file = Arc::new(MemoryFile { path: path.to_path_buf(), content: Mutex::default() });
        let mut made = self.made.lock();
        made.insert(path.to_path_buf(), Arc::clone(&file));
        Ok(file)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        if let Some(file) = self.made.lock().get(path) {
            return Ok(Arc::clone(file) as Arc<dyn File>);
        }
        Ok(Arc::new(ReadFile(self.disk.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let mut made = self.made.lock();
        match made.remove(from) {
            Some(file) => {
                made.insert(to.to_path_buf(), file);
                Ok(())
            }
            None => Err(Error::io(from, Operation::Rename, ErrorKind::ReadOnlyFilesystem.into())),
        }
    }

    fn remove_file(&self, path: &Path) -> Result<(), Error> {
        self.made.lock().remove(path);
        Ok(())
    }

    fn remove_directory(&self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn make_directory(&self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn has_directory(&self, path: &Path) -> Result<bool, Error> {
        self.disk.has_directory(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error> {
        self.disk.list(directory)
    }

    fn sync_directory(&self, _: &Path) -> Result<(), Error> {
        Ok(())
    }

    fn free_space(&self, path: &Path) -> Result<u64, Error> {
        self.disk.free_space(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        self.disk.lock_to_read(path)
    }

    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        self.disk.lock_to_read(path)
    }

    fn is_read_only(&self) -> bool {
        true
    }

    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        self.private_database(directory)
    }

    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        // sled would create a missing database.
        if self.disk.list(directory)?.is_empty() {
            return Err(Damage::new(directory, "the database is missing").into());
        }
        self.disk.private_database(directory)
    }

    fn database_files(&self, directory: &Path) -> Result<Vec<String>, Error> {
        self.disk.database_files(directory)
    }
}

/// A file that is only read.
struct ReadFile(Arc<dyn File>);

impl File for ReadFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        self.0.read_at(buffer, offset)
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<(), Error> {
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn length(&self) -> Result<u64, Error> {
        self.0.length()
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A file in memory. Only the small records that recovery writes become such files.
struct MemoryFile {
    path: PathBuf,
    content: Mutex<Vec<u8>>,
}

impl File for MemoryFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let content = self.content.lock();
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let read = buffer.len().min(content.len() - start);
        buffer[..read].copy_from_slice(&content[start..start + read]);
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let mut content = self.content.lock();
        let end = usize::try_from(offset).ok().and_then(|offset| offset.checked_add(bytes.len()));
        let Some(end) = end else {
            let source: io::Error = ErrorKind::FileTooLarge.into();
            return Err(Error::io(&self.path, Operation::Write, source));
        };
        if content.len() < end {
            content.resize(end, 0);
        }
        content[end - bytes.len()..end].copy_from_slice(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        Ok(())
    }

    fn length(&self) -> Result<u64, Error> {
        Ok(self.content.lock().len() as u64)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
