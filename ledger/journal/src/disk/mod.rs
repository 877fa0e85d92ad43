//! What the journal needs from a disk, so that tests can put one under it that crashes, tears writes
//! and forgets what was not synced.

mod read_only;
mod real;
mod sled_database;

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::Error;

pub(super) use read_only::ReadOnlyDisk;
pub use real::RealDisk;

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

/// File operations. Nothing is durable before it was synced: content by [`File::sync`], names by
/// [`Disk::sync_directory`].
pub trait Disk: Send + Sync {
    /// Makes an empty file for reading and writing; an old one of that name is emptied.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error>;

    /// Opens an existing file; for reading and writing, or, where only that is permitted, for reading.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error>;

    /// Gives a file or directory another name in one step; replaces a file that has it.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove_file(&self, path: &Path) -> Result<(), Error>;

    /// Removes a directory and what is in it; nothing if there is none.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn remove_directory(&self, path: &Path) -> Result<(), Error>;

    /// Makes a directory in one that exists.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn make_directory(&self, path: &Path) -> Result<(), Error>;

    /// Whether there is a directory of this name.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn has_directory(&self, path: &Path) -> Result<bool, Error>;

    /// Makes a directory and its parents, as far as they are missing, durably. One that is there may have been made
    /// by a process that was killed before it synced, and its name would be lost with all that is put into it: so
    /// nothing is put into a directory before its own name was synced.
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
            // That of somebody else, who does not let us look into it: he made this one.
            Err(Error::Io { source, .. })
                if !is_missing && source.kind() == ErrorKind::PermissionDenied =>
            {
                Ok(())
            }
            synced => synced,
        }
    }

    /// What is in a directory, by name; nothing if there is no such directory.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error>;

    /// Makes the names in a directory durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn sync_directory(&self, directory: &Path) -> Result<(), Error>;

    /// Bytes that can still be written where `path` is.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn free_space(&self, path: &Path) -> Result<u64, Error>;

    /// Takes the lock file of a data directory until the guard is dropped.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it.
    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error>;

    /// As [`Disk::lock`], to read: shared with others that read, and the file is neither made nor changed. A
    /// missing file locks nothing.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it to write.
    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error>;

    /// Whether what is written to it is forgotten.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Opens a key-value database, or makes it.
    ///
    /// # Errors
    /// [`Error::Damaged`] if it cannot be opened as it is, [`Error::Io`].
    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error>;

    /// Opens a copy of a database, which is removed when it is closed. So nothing in the directory changes, whatever is
    /// wrong with it: a damaged database is repaired by being opened, and what is behind the damage is lost then.
    ///
    /// # Errors
    /// As [`Disk::database`]; [`Error::Io`] also if there is no room for the copy.
    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error>;

    /// The files of a database, sorted by their names: paths within its directory, with `/`.
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

    /// Reads a whole file of at most `limit` bytes (more are not read); none if it does not exist.
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

    /// Puts a whole small file in place, so that a crash leaves the old one or the new one: a
    /// temporary file, synced, renamed, and the directory synced.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        self.stage(path, bytes)?;
        self.install(path)
    }

    /// The first half of [`Disk::replace`]: after an error the old file is in force.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn stage(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let file = self.create(&temporary(path))?;
        file.write_at(bytes, 0)?;
        file.sync()
    }

    /// The second half of [`Disk::replace`]: after an error it is unknown which file is in force.
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
    /// Reads until the buffer is full or the file ends; gives the number of bytes read.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error>;

    /// Writes all the bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error>;

    /// Writes this many zeros.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn zero_at(&self, length: usize, offset: u64) -> Result<(), Error> {
        self.write_at(&vec![0; length], offset)
    }

    /// Makes content and length durable (fdatasync). After an error nothing written since the last
    /// success can be relied on, and a second call proves nothing.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn sync(&self) -> Result<(), Error>;

    /// Length in bytes.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn length(&self) -> Result<u64, Error>;

    /// Where it was opened.
    fn path(&self) -> &Path;
}

/// Holds a data directory's lock.
pub trait Lock: Send + Sync {}

/// A key and its value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// An ordered key-value database.
pub trait Database: Send + Sync {
    /// Puts these pairs, in this order; the later one of a key stays. Durable they are only after [`Database::sync`].
    ///
    /// # Errors
    /// [`Error::Io`].
    fn insert(&self, pairs: Vec<Pair>) -> Result<(), Error>;

    /// Makes everything durable that was put.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn sync(&self) -> Result<(), Error>;

    /// The greatest key that is not above `key`.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    fn key_at_or_below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// At most `limit` pairs from the key `from` on, in order.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Io`].
    fn range(&self, from: &[u8], limit: usize) -> Result<Vec<Pair>, Error>;

    /// Closes it. Only if that succeeds, what it has written on the way is durable.
    ///
    /// # Errors
    /// [`Error::Io`].
    fn close(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}

/// Ending of files that were not finished; they mean nothing and are removed on open.
pub(super) const TEMPORARY: &str = ".tmp";

/// The name that a file has while it is being written.
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
