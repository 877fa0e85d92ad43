//! The operating system's disk: the only module of the core that accesses files.

use std::{
    fs::{self, OpenOptions, TryLockError},
    io::{ErrorKind, Read, Seek, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    super::{Damage, Error, Operation},
    Database, DirectoryEntry, Disk, File, Lock, parent,
    sled_database::SledDatabase,
};

/// Zeros written at a time. Linux caches a file in pieces as large as the writes that brought them in, and writes back
/// a whole piece whenever any part of it changed: after writes of a megabyte, each small group would cost a megabyte.
const ZEROS: [u8; 4096] = [0; 4096];

/// The operating system's files, and sled.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

struct RealFile {
    file: fs::File,
    path: PathBuf,
}

struct RealLock {
    file: fs::File,
}

impl RealLock {
    fn take(path: &Path) -> Result<Self, Error> {
        let fail = |source| Error::io(path, Operation::Lock, source);
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(fail)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::Error(error)) => return Err(fail(error)),
            Err(TryLockError::WouldBlock) => return Err(locked(path, file)),
        }
        file.set_len(0)
            .and_then(|()| file.rewind())
            .and_then(|()| writeln!(file, "{}", std::process::id()))
            .map_err(fail)?;
        Ok(Self { file })
    }

    /// None if the file does not exist.
    fn share(path: &Path) -> Result<Option<Self>, Error> {
        let fail = |source| Error::io(path, Operation::Lock, source);
        let file = match fs::File::open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(fail)?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { file })),
            Err(TryLockError::Error(error)) => Err(fail(error)),
            Err(TryLockError::WouldBlock) => Err(locked(path, file)),
        }
    }
}

/// The error if another process, whose id is in the file, holds the lock.
fn locked(path: &Path, file: fs::File) -> Error {
    let mut text = String::new();
    let _ = file.take(32).read_to_string(&mut text);
    Error::Locked { directory: parent(path).to_path_buf(), holder: text.trim().parse().ok() }
}

impl Drop for RealLock {
    fn drop(&mut self) {
        // Unlocked explicitly: a child process that is being started holds a copy of the descriptor for a moment.
        let _ = self.file.unlock();
    }
}

impl Lock for RealLock {}

/// The lock of a directory without a lock file.
struct NoLock;

impl Lock for NoLock {}

impl Disk for RealDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(path)
            .map(|file| RealFile::shared(file, path))
            .map_err(|source| Error::io(path, Operation::Create, source))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .open(path)
            .or_else(|error| match error.kind() {
                ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => fs::File::open(path),
                _ => Err(error),
            })
            .map(|file| RealFile::shared(file, path))
            .map_err(|source| Error::io(path, Operation::Open, source))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        fs::rename(from, to).map_err(|source| Error::io(from, Operation::Rename, source))
    }

    fn remove_file(&self, path: &Path) -> Result<(), Error> {
        fs::remove_file(path).map_err(|source| Error::io(path, Operation::Remove, source))
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Error> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(Error::io(path, Operation::Remove, error))
            }
            _ => Ok(()),
        }
    }

    fn make_directory(&self, path: &Path) -> Result<(), Error> {
        fs::create_dir(path).map_err(|source| Error::io(path, Operation::CreateDirectory, source))
    }

    fn has_directory(&self, path: &Path) -> Result<bool, Error> {
        match fs::metadata(path) {
            Ok(metadata) => Ok(metadata.is_dir()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::io(path, Operation::Stat, source)),
        }
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error> {
        let fail = |source| Error::io(directory, Operation::List, source);
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(fail)?,
        };
        let mut listed = Vec::new();
        for entry in entries {
            let entry = entry.map_err(fail)?;
            let metadata = match entry.metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                metadata => metadata.map_err(fail)?,
            };
            let is_directory = metadata.is_dir();
            listed.push(DirectoryEntry {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_directory,
                length: if is_directory { 0 } else { metadata.len() },
            });
        }
        listed.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(listed)
    }

    fn sync_directory(&self, directory: &Path) -> Result<(), Error> {
        fs::File::open(directory)
            .and_then(|file| file.sync_all())
            .map_err(|source| Error::io(directory, Operation::SyncAll, source))
    }

    fn free_space(&self, path: &Path) -> Result<u64, Error> {
        let space = rustix::fs::statvfs(path)
            .map_err(|errno| Error::io(path, Operation::FreeSpace, errno.into()))?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        RealLock::take(path).map(|lock| Box::new(lock) as Box<dyn Lock>)
    }

    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        Ok(match RealLock::share(path)? {
            Some(lock) => Box::new(lock),
            None => Box::new(NoLock),
        })
    }

    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        SledDatabase::open_copy(directory).map(|database| Box::new(database) as Box<dyn Database>)
    }

    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        SledDatabase::open(directory).map(|database| Box::new(database) as Box<dyn Database>)
    }
}

/// The error of a failed read. A sector that cannot be read is damage, as wrong bytes are.
fn unreadable(path: &Path, offset: u64, source: std::io::Error) -> Error {
    if source.raw_os_error() != Some(rustix::io::Errno::IO.raw_os_error()) {
        return Error::io(path, Operation::Read, source);
    }
    Error::Damaged(Damage::new(path, format!("it cannot be read: {source}")).at_offset(offset))
}

impl RealFile {
    fn shared(file: fs::File, path: &Path) -> Arc<dyn File> {
        Arc::new(Self { file, path: path.to_path_buf() })
    }
}

impl File for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let mut read = 0;
        while read < buffer.len() {
            match self.file.read_at(&mut buffer[read..], offset.saturating_add(read as u64)) {
                Ok(0) => break,
                Ok(bytes) => read += bytes,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(unreadable(&self.path, offset, source)),
            }
        }
        Ok(read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        self.file
            .write_all_at(bytes, offset)
            .map_err(|source| Error::io(&self.path, Operation::Write, source))
    }

    fn zero_at(&self, length: usize, offset: u64) -> Result<(), Error> {
        let mut done = 0;
        while done < length {
            let step = ZEROS.len().min(length - done);
            self.write_at(&ZEROS[..step], offset.saturating_add(done as u64))?;
            done += step;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(|source| Error::io(&self.path, Operation::SyncFile, source))
    }

    fn length(&self) -> Result<u64, Error> {
        self.file
            .metadata()
            .map(|metadata| metadata.len())
            .map_err(|source| Error::io(&self.path, Operation::Stat, source))
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_let_go_is_free_although_a_child_has_a_copy_of_it() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("LOCK");
        let lock = RealLock::take(&path).unwrap();
        let copy = lock.file.try_clone().unwrap();
        let refused = RealDisk.lock(&path).err();
        let me = Some(std::process::id());
        assert!(matches!(refused, Some(Error::Locked { holder, .. }) if holder == me));
        drop(lock);
        assert!(RealDisk.lock(&path).is_ok());
        drop(copy);
    }
}
