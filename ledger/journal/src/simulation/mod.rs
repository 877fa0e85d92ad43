//! A disk in memory, for tests: it loses writes that were not synced, tears writes, runs full, fails syncs, and can be
//! crashed at any call. Everything follows from a seed.

mod database;
mod state;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::{Mutex, MutexGuard};

use super::{
    Error, Operation,
    disk::{Database, DirectoryEntry, Disk, File, Lock},
};
use database::SimDatabase;
pub use state::Crash;
use state::State;

/// A simulated disk. Clones are the same disk.
#[derive(Clone, Default)]
pub struct SimDisk {
    state: Arc<Mutex<State>>,
}

/// The faults of the disk, besides crashes. Calls are counted from 1 since the faults were set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// The process dies at this call; all later calls fail.
    pub crash_at: Option<u64>,
    /// The first sync at this call or after it fails, once. Its writes can be read, but never become durable.
    pub fail_sync_at: Option<u64>,
    /// The first write at this call or after it fails, once, and is done in part.
    pub fail_write_at: Option<u64>,
    /// The capacity of the disk in bytes.
    pub capacity: Option<u64>,
    /// Syncs succeed without doing anything, as on some disks.
    pub syncs_lie: bool,
}

/// The number of faults in the life of a disk, by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fired {
    /// All calls.
    pub calls: u64,
    /// Syncs that failed.
    pub failed_syncs: u64,
    /// Writes that failed.
    pub failed_writes: u64,
    /// Writes that found no room.
    pub no_space: u64,
    /// Files that lost writes in a power loss.
    pub lost_writes: u64,
    /// Files in which an earlier write was lost and a later one kept.
    pub reordered_writes: u64,
    /// Changes of names lost in a power loss.
    pub lost_names: u64,
    /// Inserts into a database that were lost.
    pub lost_pairs: u64,
    /// Databases that could not be opened any more.
    pub broken_databases: u64,
}

impl SimDisk {
    /// An empty disk, whose choices follow from `seed`.
    pub fn new(seed: u64) -> Self {
        let disk = Self::default();
        disk.state().seed(seed);
        disk
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// A copy of the disk, to try something else with.
    pub fn copy(&self) -> Self {
        Self { state: Arc::new(Mutex::new(self.state().clone())) }
    }

    /// Starts again after a crash or a stop, with these faults.
    pub fn reboot(&self, crash: Crash, faults: Faults) {
        self.state().reboot(crash, faults);
    }

    /// Sets the faults from now on.
    pub fn inject(&self, faults: Faults) {
        self.state().inject(faults);
    }

    /// Flips one bit of the disk, both in the readable and in the durable content. Returns the file and the offset in
    /// it, or nothing if the disk is empty.
    pub fn flip(&self) -> Option<(PathBuf, u64)> {
        self.state().flip()
    }

    /// Bytes in use.
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// The faults so far.
    pub fn fired(&self) -> Fired {
        self.state().fired
    }

    /// Calls since the faults were set.
    pub fn calls(&self) -> u64 {
        self.state().calls()
    }

    /// Whether the simulated process has died.
    pub fn is_dead(&self) -> bool {
        self.state().is_dead()
    }

    /// A hash of everything on the disk: equal seeds give equal hashes.
    pub fn fingerprint(&self) -> String {
        self.state().fingerprint()
    }
}

fn fail<T>(result: io::Result<T>, path: &Path, operation: Operation) -> Result<T, Error> {
    result.map_err(|source| Error::io(path, operation, source))
}

impl Disk for SimDisk {
    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        let inode = fail(self.state().create(path), path, Operation::Create)?;
        Ok(self.file(inode, path))
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        let inode = fail(self.state().open(path), path, Operation::Open)?;
        Ok(self.file(inode, path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        fail(self.state().rename(from, to), from, Operation::Rename)
    }

    fn remove_file(&self, path: &Path) -> Result<(), Error> {
        fail(self.state().remove(path), path, Operation::Remove)
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Error> {
        fail(self.state().remove_tree(path), path, Operation::Remove)
    }

    fn make_directory(&self, path: &Path) -> Result<(), Error> {
        let made = self.state().make_directory(path);
        fail(made, path, Operation::CreateDirectory)
    }

    fn has_directory(&self, path: &Path) -> Result<bool, Error> {
        let has = self.state().has_directory(path);
        fail(has, path, Operation::Stat)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error> {
        fail(self.state().list(directory), directory, Operation::List)
    }

    fn sync_directory(&self, directory: &Path) -> Result<(), Error> {
        fail(self.state().sync_directory(directory), directory, Operation::SyncAll)
    }

    fn free_space(&self, _: &Path) -> Result<u64, Error> {
        Ok(self.state().free())
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        if fail(self.state().lock(), path, Operation::Lock)? {
            return Ok(Box::new(SimLock(self.clone())));
        }
        Err(Error::Locked { directory: super::disk::parent(path).to_path_buf(), holder: None })
    }

    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        self.lock(path)
    }

    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        // Opening a database repairs nothing here.
        self.database(directory)
    }

    fn database_files(&self, _: &Path) -> Result<Vec<String>, Error> {
        // A database has no files here.
        Ok(Vec::new())
    }

    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        SimDatabase::open(self.clone(), directory)
            .map(|database| Box::new(database) as Box<dyn Database>)
    }
}

impl SimDisk {
    fn file(&self, inode: u64, path: &Path) -> Arc<dyn File> {
        Arc::new(SimFile { disk: self.clone(), inode, path: path.to_path_buf() })
    }
}

struct SimLock(SimDisk);

impl Lock for SimLock {}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.0.state().unlock();
    }
}

struct SimFile {
    disk: SimDisk,
    inode: u64,
    path: PathBuf,
}

impl File for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, Error> {
        let read = self.disk.state().read(self.inode, buffer, offset);
        fail(read, &self.path, Operation::Read)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), Error> {
        let written = self.disk.state().write(self.inode, bytes, offset);
        fail(written, &self.path, Operation::Write)
    }

    fn sync(&self) -> Result<(), Error> {
        let synced = self.disk.state().sync(self.inode);
        fail(synced, &self.path, Operation::SyncFile)
    }

    fn length(&self) -> Result<u64, Error> {
        let length = self.disk.state().length(self.inode);
        fail(length, &self.path, Operation::Stat)
    }

    fn path(&self) -> &Path {
        &self.path
    }
}
