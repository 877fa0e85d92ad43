//! Remembers where the ledger was opened. A directory may be removed, replaced by a backup, or unmounted while its
//! files are open: writes to them still succeed, but cannot be found again. So the lock file is checked, as PostgreSQL
//! checks its `postmaster.pid`.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use quota_journal::LOCK;

/// The location of an open ledger.
#[derive(Clone, Debug)]
pub(crate) struct DataDirGuard {
    lock: PathBuf,
    identity: (u64, u64),
}

impl DataDirGuard {
    /// The location of the ledger that was just opened in this directory.
    pub(crate) fn of(directory: &Path) -> io::Result<Self> {
        let lock = directory.join(LOCK);
        Ok(Self { identity: identity(&lock)?, lock })
    }

    /// Whether the path still leads to the ledger that was opened.
    ///
    /// # Errors
    /// The path cannot be examined.
    pub(crate) fn is_held(&self) -> io::Result<bool> {
        match identity(&self.lock) {
            Ok(found) => Ok(found == self.identity),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The file that is checked.
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
        // The content of the file does not matter.
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
