//! sled 0.34.7, with guards around what it does not do itself (measured; see
//! `docs/storage-format.md`): `flush` is not an fsync, a killed open leaves a half-written snapshot
//! that a later open trusts, damaged files make it panic, and its default cache is 1 GiB.

use std::{
    fs::{self, TryLockError},
    io::ErrorKind,
    os::unix::fs::PermissionsExt as _,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    time::Duration,
};

use tempfile::TempDir;

use super::{
    super::{Damage, Error, Operation},
    Database, Pair,
};

/// Cache of one open database, in bytes. Blocks are read once and in order, so a small one serves.
const CACHE_BYTES: u64 = 4 * 1024 * 1024;

/// How long an earlier handle may take to close: 10 s.
const CLOSING_WAIT: Duration = Duration::from_millis(1);
const CLOSING_WAITS: u32 = 10_000;

/// Directory of the values that are too large for sled's log.
const BLOBS: &str = "blobs";

/// Ending of the snapshot that sled was writing when it was killed.
const HALF_WRITTEN: &str = ".generating";

pub(super) struct SledDatabase {
    database: sled::Db,
    /// What errors are about: of a copy, the original.
    directory: PathBuf,
    /// sled's log. A second descriptor, since fdatasync makes the inode durable, whoever wrote it.
    log: fs::File,
    /// Where a copy is; dropped last, since it is removed then.
    copy: Option<TempDir>,
}

impl SledDatabase {
    /// Opens a copy of a database, where temporary files go; file systems that can share the bytes do.
    pub(super) fn open_copy(directory: &Path) -> Result<Self, Error> {
        let fail = |source| Error::io(directory, Operation::Copy, source);
        let copy = tempfile::Builder::new()
            .prefix("quota-ledger-")
            .tempdir()
            .map_err(fail)?;
        copy_directory(directory, copy.path()).map_err(fail)?;
        let database = open_sled(copy.path(), directory)?;
        let log = fs::File::open(copy.path().join("db")).map_err(fail)?;
        Ok(Self {
            database,
            directory: directory.to_path_buf(),
            log,
            copy: Some(copy),
        })
    }

    pub(super) fn open(directory: &Path) -> Result<Self, Error> {
        let fail = |source| Error::io(directory, Operation::Open, source);
        fs::create_dir_all(directory).map_err(fail)?;
        // First, since an earlier handle may still be writing what is looked for below.
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
        let opened = Self {
            database,
            directory: directory.to_path_buf(),
            log,
            copy: None,
        };
        match opened.sync_names() {
            Ok(()) => Ok(opened),
            Err(error) => {
                let _ = Box::new(opened).close();
                Err(error)
            }
        }
    }

    /// sled never syncs what it creates: its configuration and the names of its files.
    fn sync_names(&self) -> Result<(), Error> {
        fsync(&self.directory.join("conf"))?;
        fsync(&self.directory)
    }

    fn sync_log(&self) -> Result<(), Error> {
        self.log
            .sync_data()
            .map_err(|source| Error::io(self.directory.join("db"), Operation::SyncFile, source))
    }

    /// Nor does it sync the files of values that are too large for its log. There should be none.
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
        // One by one: a batch of sled's has no order, and pages that are filled out of order are written again.
        guard(&self.directory, Operation::Write, || {
            for (key, value) in pairs {
                self.database.insert(key, value)?;
            }
            Ok(())
        })?;
        // A little each time: all of it at the end would keep the disk from the write-ahead log.
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

    /// sled writes and syncs once more, and panics where that fails.
    fn close(self: Box<Self>) -> Result<(), Error> {
        let Self {
            database,
            directory,
            log,
            copy,
        } = *self;
        let path = directory.join("db");
        guard(&directory, Operation::Close, || {
            drop(database);
            Ok(())
        })?;
        if copy.is_some() {
            // What it has written goes with it.
            return Ok(());
        }
        // sled may finish on a thread of its own. This descriptor reports an error there, too.
        wait_until_closed(&path)?;
        log.sync_data()
            .map_err(|source| Error::io(path, Operation::SyncFile, source))
    }
}

/// Opens what is in a directory; errors are about `place`.
fn open_sled(directory: &Path, place: &Path) -> Result<sled::Db, Error> {
    guard(place, Operation::Open, || {
        sled::Config::new()
            .path(directory)
            .cache_capacity(CACHE_BYTES)
            .flush_every_ms(None)
            .open()
    })
}

/// Copies a database into a directory, but for what a killed open has left.
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
            // The original may be there to be read only.
            fs::set_permissions(&copy, fs::Permissions::from_mode(0o600))?;
        }
    }
    Ok(())
}

fn fsync(path: &Path) -> Result<(), Error> {
    fs::File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|source| Error::io(path, Operation::SyncDirectory, source))
}

/// Waits until an earlier handle of this process has let go of sled's file: sled closes it behind our
/// back, when its threads have finished. No other process has it, since this one holds the lock of the data
/// directory.
fn wait_until_closed(log: &Path) -> Result<(), Error> {
    let file = match fs::File::open(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        file => file.map_err(|source| Error::io(log, Operation::Open, source))?,
    };
    for _ in 0..CLOSING_WAITS {
        match file.try_lock() {
            // Said, not left to closing: a child that is being started has a copy of the descriptor for a moment.
            Ok(()) => {
                return file
                    .unlock()
                    .map_err(|source| Error::io(log, Operation::Unlock, source));
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

/// Runs sled. Its panics are met on damaged files only, and its state is not used after one.
fn guard<T>(
    directory: &Path,
    operation: Operation,
    run: impl FnOnce() -> sled::Result<T>,
) -> Result<T, Error> {
    let damaged = |why: String| {
        Error::Damaged(Damage {
            file: directory.to_path_buf(),
            offset: None,
            sequence: None,
            through: None,
            why,
        })
    };
    match catch_unwind(AssertUnwindSafe(run)) {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(sled::Error::Io(source))) if source.kind() != ErrorKind::UnexpectedEof => {
            Err(Error::io(directory, operation, source))
        }
        Ok(Err(error)) => Err(damaged(format!("sled cannot {operation}: {error}"))),
        // Its file is not read then: it can only be that it could not be written.
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
    fn it_can_be_closed_and_opened_again_and_again() {
        let directory = tempfile::tempdir().unwrap();
        for round in 0..20u8 {
            let database = SledDatabase::open(directory.path()).unwrap();
            database
                .insert(vec![(vec![round], vec![round; 8000])])
                .unwrap();
            database.sync().unwrap();
            let keys = database.range(&[], 100).unwrap();
            assert_eq!(keys.len(), usize::from(round) + 1);
            let found = database.key_at_or_below(&[200]).unwrap();
            assert_eq!(found, Some(vec![round]));
        }
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
        // The first opening may still put its books in order.
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
