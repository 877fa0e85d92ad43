//! The operating system's disk: the only module of the core that accesses files.

use std::{
    fs::{self, OpenOptions, TryLockError},
    io::{ErrorKind, Read, Seek, Write},
    os::unix::fs::{FileExt, PermissionsExt as _},
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use tempfile::TempDir;

use super::{Database, DirectoryEntry, Disk, File, Lock, Pair, parent};
use crate::{Damage, Error, Operation};

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

// sled 0.34.7, with safeguards for its defects (measured): `flush` is not an fsync, a killed open leaves a partial
// snapshot that a later open trusts, it panics on damaged files, after an unclean stop a flipped bit loses all later data
// without an error, values above 4 KiB go to files that are never synced, and its default cache is 1 GiB.

/// Cache of one open database, in bytes. Blocks are read once and in order, so a small cache is enough.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;

/// How long to wait for an earlier handle to close: 10 s in all.
const CLOSING_WAIT: Duration = Duration::from_millis(1);
const CLOSING_WAITS: u32 = 10_000;

/// Directory of the values that are too large for sled's log.
const BLOBS: &str = "blobs";

/// Suffix of the snapshot that sled was writing when it was killed.
const HALF_WRITTEN: &str = ".generating";

pub(super) struct SledDatabase {
    database: sled::Db,
    /// The directory named in errors: for a copy, that of the original.
    directory: PathBuf,
    /// sled's log. A second descriptor suffices, since fdatasync applies to the inode.
    log: fs::File,
    /// The directory of a copy; dropped last, since the drop removes it.
    copy: Option<TempDir>,
}

impl SledDatabase {
    /// Opens a copy of a database in the directory for temporary files. File systems with reflinks share the bytes.
    pub(super) fn open_copy(directory: &Path) -> Result<Self, Error> {
        let fail = |source| Error::io(directory, Operation::Copy, source);
        let copy = tempfile::Builder::new().prefix("quota-ledger-").tempdir().map_err(fail)?;
        copy_directory(directory, copy.path()).map_err(fail)?;
        let database = open_sled(copy.path(), directory)?;
        let log = fs::File::open(copy.path().join("db")).map_err(fail)?;
        Ok(Self { database, directory: directory.to_path_buf(), log, copy: Some(copy) })
    }

    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        let fail = |source| Error::io(directory, Operation::Open, source);
        fs::create_dir_all(directory).map_err(fail)?;
        // First, since an earlier handle may still be writing the files that are examined below.
        wait_until_closed(&directory.join("db"))?;
        for entry in fs::read_dir(directory).map_err(fail)? {
            let path = entry.map_err(fail)?.path();
            if path.to_string_lossy().ends_with(HALF_WRITTEN) {
                fs::remove_file(&path)
                    .map_err(|source| Error::io(&path, Operation::Remove, source))?;
            }
        }
        let database = open_sled(directory, directory)?;
        let path = directory.join("db");
        let log =
            fs::File::open(&path).map_err(|source| Error::io(&path, Operation::Open, source))?;
        let opened = Self { database, directory: directory.to_path_buf(), log, copy: None };
        match opened.sync_names() {
            Ok(()) => Ok(opened),
            Err(error) => {
                let _ = Box::new(opened).close();
                Err(error)
            }
        }
    }

    /// Syncs the files that sled creates and never syncs: its configuration and the names of its files.
    fn sync_names(&self) -> Result<(), Error> {
        fsync(&self.directory.join("conf"))?;
        fsync(&self.directory)
    }

    fn sync_log(&self) -> Result<(), Error> {
        self.log
            .sync_data()
            .map_err(|source| Error::io(self.directory.join("db"), Operation::SyncFile, source))
    }

    /// Syncs the files of values that are too large for sled's log, which sled does not sync either. There should be
    /// none.
    fn sync_blobs(&self) -> Result<(), Error> {
        let directory = self.directory.join(BLOBS);
        let fail = |source| Error::io(&directory, Operation::List, source);
        let mut any = false;
        for entry in fs::read_dir(&directory).map_err(fail)? {
            fsync(&entry.map_err(fail)?.path())?;
            any = true;
        }
        if any { fsync(&directory) } else { Ok(()) }
    }
}

impl Database for SledDatabase {
    fn insert(&self, pairs: Vec<Pair>) -> Result<(), Error> {
        // One by one: a batch of sled has no order, and pages that are filled out of order are written twice.
        guard(&self.directory, Operation::Write, || {
            for (key, value) in pairs {
                self.database.insert(key, value)?;
            }
            Ok(())
        })?;
        // sled writes on threads of its own, and reports an error there only to a later call: of a disk that was full,
        // long after it has room again.
        guard(&self.directory, Operation::Flush, || self.database.flush())?;
        // A small part each time: a sync of everything at the end would delay those of the write-ahead log.
        self.sync_log()
    }

    fn sync(&self) -> Result<(), Error> {
        guard(&self.directory, Operation::Flush, || self.database.flush())?;
        self.sync_log()?;
        self.sync_blobs()
    }

    fn key_at_or_below(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        guard(&self.directory, Operation::Read, || {
            let found = self.database.range(..=key).next_back().transpose()?;
            Ok(found.map(|(key, _)| key.to_vec()))
        })
    }

    fn range(&self, from: &[u8], limit: usize) -> Result<Vec<Pair>, Error> {
        guard(&self.directory, Operation::Read, || {
            self.database
                .range(from..)
                .take(limit)
                .map(|pair| pair.map(|(key, value)| (key.to_vec(), value.to_vec())))
                .collect()
        })
    }

    /// Closes sled, which writes and syncs once more, and panics if that fails.
    fn close(self: Box<Self>) -> Result<(), Error> {
        let Self { database, directory, log, copy } = *self;
        let path = directory.join("db");
        guard(&directory, Operation::Close, || {
            drop(database);
            Ok(())
        })?;
        if copy.is_some() {
            // A copy is removed with everything that was written to it.
            return Ok(());
        }
        // sled may finish on its own thread. This descriptor reports errors of that thread, too.
        wait_until_closed(&path)?;
        log.sync_data().map_err(|source| Error::io(path, Operation::SyncFile, source))
    }
}

/// Opens the database in a directory; errors name `place`.
fn open_sled(directory: &Path, place: &Path) -> Result<sled::Db, Error> {
    guard(place, Operation::Open, || {
        sled::Config::new().path(directory).cache_capacity(CACHE_BYTES).flush_every_ms(None).open()
    })
}

/// Copies a database into a directory, except for the leftovers of a killed open.
fn copy_directory(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            fs::create_dir(to.join(&name))?;
            copy_directory(&entry.path(), &to.join(&name))?;
        } else if !name.to_string_lossy().ends_with(HALF_WRITTEN) {
            let copy = to.join(&name);
            fs::copy(entry.path(), &copy)?;
            // The original may be read-only.
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

fn fsync(path: &Path) -> Result<(), Error> {
    fs::File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| Error::io(path, Operation::SyncAll, source))
}

/// Waits until an earlier handle of this process has released sled's file: sled closes it on its own, when its threads
/// have finished. No other process can hold it, since this one holds the lock of the data directory.
fn wait_until_closed(log: &Path) -> Result<(), Error> {
    let file = match fs::File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.map_err(|source| Error::io(log, Operation::Open, source))?,
    };
    for _ in 0..CLOSING_WAITS {
        match file.try_lock() {
            // Unlocked explicitly: a child process that is being started holds a copy of the descriptor for a moment.
            Ok(()) => {
                return file.unlock().map_err(|source| Error::io(log, Operation::Unlock, source));
            }
            Err(TryLockError::WouldBlock) => std::thread::park_timeout(CLOSING_WAIT),
            Err(TryLockError::Error(source)) => {
                return Err(Error::io(log, Operation::Lock, source));
            }
        }
    }
    let source = ErrorKind::WouldBlock.into();
    Err(Error::io(log, Operation::Lock, source))
}

/// Calls sled and catches its panics. They occur on damaged files only, and its state is not used after one.
fn guard<T>(
    directory: &Path,
    operation: Operation,
    run: impl FnOnce() -> sled::Result<T>,
) -> Result<T, Error> {
    let damaged = |why: String| Error::Damaged(Damage::new(directory, why));
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(source))) if source.kind() != ErrorKind::UnexpectedEof => {
            Err(Error::io(directory, operation, source))
        }
        Ok(Err(error)) => Err(damaged(format!("sled cannot {operation}: {error}"))),
        // A close does not read the file, so a panic can only come from a failed write.
        Err(_) if operation == Operation::Close => {
            let source = std::io::Error::other("sled panicked");
            Err(Error::io(directory, operation, source))
        }
        Err(_) => Err(damaged(format!("sled panicked at {operation}"))),
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

    #[test]
    fn it_can_be_closed_and_opened_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..20u8 {
            let database = SledDatabase::open(directory.path()).unwrap();
            database.insert(vec![(vec![round], vec![round; 8000])]).unwrap();
            database.sync().unwrap();
            let keys = database.range(&[], 100).unwrap();
            assert_eq!(keys.len(), usize::from(round) + 1);
            let found = database.key_at_or_below(&[200]).unwrap();
            assert_eq!(found, Some(vec![round]));
        }
    }

    /// The test runs itself as a process that may not write large files.
    #[test]
    fn an_insert_reports_the_failure_of_a_write_in_the_background() {
        const PLACE: &str = "QUOTA_JOURNAL_TEST_SMALL_FILES";
        if let Some(place) = std::env::var_os(PLACE) {
            let database = SledDatabase::open(Path::new(&place)).unwrap();
            let pairs = (0..50u8).map(|key| (vec![key], vec![key; 4000])).collect();
            let error = database.insert(pairs).unwrap_err();
            assert!(error.is_failed_write(), "{error}");
            // Closing would write once more.
            std::process::exit(0);
        }
        let directory = tempfile::tempdir().unwrap();
        let name = "disk::sled_database::tests::an_insert_reports_the_failure_of_a_write_in_the_background";
        let own = std::env::current_exe().unwrap();
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 200; exec \"$0\" --exact \"$1\""]);
        shell.arg(own).arg(name).env(PLACE, directory.path());
        let output = shell.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}");
    }

    #[test]
    fn what_a_killed_open_leaves_behind_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        drop(SledDatabase::open(directory.path()).unwrap());
        let left = directory.path().join("snap.0000000000000DEA.generating");
        fs::write(&left, b"half").unwrap();
        SledDatabase::open(directory.path()).unwrap();
        assert!(!left.exists());
    }

    #[test]
    fn reading_a_closed_database_leaves_its_log_as_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("db");
        let database = SledDatabase::open(directory.path()).unwrap();
        for key in 0..200u8 {
            database.insert(vec![(vec![key], vec![key; 4000])]).unwrap();
        }
        database.sync().unwrap();
        drop(database);
        // The first open may still complete sled's own files.
        let database = SledDatabase::open(directory.path()).unwrap();
        assert_eq!(database.range(&[], 1000).unwrap().len(), 200);
        database.sync().unwrap();
        drop(database);
        wait_until_closed(&log).unwrap();
        let before = fs::read(&log).unwrap();
        for _ in 0..3 {
            let database = SledDatabase::open(directory.path()).unwrap();
            assert_eq!(database.range(&[], 1000).unwrap().len(), 200);
            drop(database);
            wait_until_closed(&log).unwrap();
            let after = fs::read(&log).unwrap();
            let changed = before.iter().zip(&after).filter(|(a, b)| a != b).count();
            assert_eq!((changed, after.len()), (0, before.len()));
        }
    }
}
