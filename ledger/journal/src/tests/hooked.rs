//! A disk with tests at some of its calls.

use std::{path::Path, sync::Arc};

use crate::{
    Error,
    disk::{Database, DirectoryEntry, Disk, File, Lock},
};

type BeforeRename = Box<dyn Fn(&Path) + Send + Sync>;
type FreeSpace<D> = Box<dyn Fn(&D, &Path) -> u64 + Send + Sync>;

/// Another disk, except for what is set here.
pub(super) struct Hooked<D> {
    pub(super) disk: D,
    /// Called with the old name before a file gets another one.
    pub(super) before_rename: Option<BeforeRename>,
    /// The free bytes at a path.
    pub(super) free_space: Option<FreeSpace<D>>,
}

impl<D> Hooked<D> {
    pub(super) const fn new(disk: D) -> Self {
        Self { disk, before_rename: None, free_space: None }
    }
}

impl<D: Disk> Disk for Hooked<D> {
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        if let Some(before_rename) = &self.before_rename {
            before_rename(from);
        }
        self.disk.rename(from, to)
    }

    fn free_space(&self, path: &Path) -> Result<u64, Error> {
        match &self.free_space {
            Some(free_space) => Ok(free_space(&self.disk, path)),
            None => self.disk.free_space(path),
        }
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        self.disk.create(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        self.disk.open(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), Error> {
        self.disk.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Error> {
        self.disk.remove_directory(path)
    }

    fn make_directory(&self, path: &Path) -> Result<(), Error> {
        self.disk.make_directory(path)
    }

    fn has_directory(&self, path: &Path) -> Result<bool, Error> {
        self.disk.has_directory(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error> {
        self.disk.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> Result<(), Error> {
        self.disk.sync_directory(directory)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        self.disk.lock(path)
    }

    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        self.disk.lock_to_read(path)
    }

    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        self.disk.database(directory)
    }

    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        self.disk.private_database(directory)
    }

    fn database_files(&self, directory: &Path) -> Result<Vec<String>, Error> {
        self.disk.database_files(directory)
    }
}
