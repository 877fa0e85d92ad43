//! A disk that never changes: writes are kept in memory and discarded. A ledger is opened on it for reading alone, with
//! the same recovery code.

use std::{
    collections::BTreeMap,
    io::{self, ErrorKind},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{
    super::{Damage, Operation},
    Database, DirectoryEntry, Disk, Error, File, Lock,
};

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
