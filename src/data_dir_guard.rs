//! Where the ledger was opened. A directory may be removed, exchanged for a backup, or unmounted while files of it are
//! open: what is written to them then is synced as ever, and nobody will find it again. So the lock file is looked for,
//! as PostgreSQL looks for its `postmaster.pid`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use quota_journal::LOCK;

/// The place of a ledger that is open.
#[derive(Clone, Debug)]
pub(crate) struct DataDirGuard {
    lock: PathBuf,
    identity: (u64, u64),
}

impl DataDirGuard {
    /// The place of the ledger that was just opened in this directory.
    pub(crate) fn of(directory: &Path) -> io::Result<Self> {
        let lock = directory.join(LOCK);
        Ok(Self {
            identity: identity(&lock)?,
            lock,
        })
    }

    /// Whether the ledger that was opened is still what is found there.
    ///
    /// # Errors
    /// It cannot be determined.
    pub(crate) fn is_held(&self) -> io::Result<bool> {
        match identity(&self.lock) {
            Ok(found) => Ok(found == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The file that is looked for.
    pub(crate) fn lock(&self) -> &Path {
        &self.lock
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let found = fs::metadata(path)?;
    Ok((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ledger_that_was_removed_exchanged_or_lost_its_lock_is_not_held() {
        let outside = tempfile::tempdir().unwrap();
        let directory = outside.path().join("data");
        let elsewhere = outside.path().join("elsewhere");
        fs::create_dir(&directory).unwrap();
        assert!(DataDirGuard::of(&directory).is_err());
        fs::write(directory.join(LOCK), "1").unwrap();
        let place = DataDirGuard::of(&directory).unwrap();
        assert!(place.is_held().unwrap());
        // What is in it does not matter.
        fs::write(directory.join(LOCK), "2").unwrap();
        assert!(place.is_held().unwrap());
        fs::rename(&directory, &elsewhere).unwrap();
        assert!(!place.is_held().unwrap());
        fs::create_dir(&directory).unwrap();
        assert!(!place.is_held().unwrap());
        fs::copy(elsewhere.join(LOCK), directory.join(LOCK)).unwrap();
        assert!(!place.is_held().unwrap());
        fs::remove_dir_all(&directory).unwrap();
        fs::rename(&elsewhere, &directory).unwrap();
        assert!(place.is_held().unwrap());
    }
}
