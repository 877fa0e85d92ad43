//! The next segment is prepared while the previous one is being installed.

use std::{
    sync::{Weak, mpsc},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::*;
use crate::{
    disk::{Database, DirectoryEntry, Disk, File, Lock},
    store::Store,
};

/// How long to wait for a segment that must not be prepared yet.
const MEANWHILE: Duration = Duration::from_millis(200);

/// This machine's disk. When the first prepared segment is about to be renamed, another thread tries to prepare the
/// next one.
#[derive(Default)]
struct Hurried {
    store: Mutex<Weak<Store>>,
}

impl Hurried {
    fn prepare(&self) {
        let Some(store) = std::mem::take(&mut *self.store.lock()).upgrade() else {
            return;
        };
        let (done, is_done) = mpsc::channel::<()>();
        thread::spawn(move || {
            store.prepare_segment();
            drop(done);
        });
        let _ = is_done.recv_timeout(MEANWHILE);
    }
}

impl Disk for Hurried {
    fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        if from.ends_with("log/next.tmp") {
            self.prepare();
        }
        RealDisk.rename(from, to)
    }

    fn create(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        RealDisk.create(path)
    }

    fn open(&self, path: &Path) -> Result<Arc<dyn File>, Error> {
        RealDisk.open(path)
    }

    fn remove_file(&self, path: &Path) -> Result<(), Error> {
        RealDisk.remove_file(path)
    }

    fn remove_directory(&self, path: &Path) -> Result<(), Error> {
        RealDisk.remove_directory(path)
    }

    fn make_directory(&self, path: &Path) -> Result<(), Error> {
        RealDisk.make_directory(path)
    }

    fn has_directory(&self, path: &Path) -> Result<bool, Error> {
        RealDisk.has_directory(path)
    }

    fn list(&self, directory: &Path) -> Result<Vec<DirectoryEntry>, Error> {
        RealDisk.list(directory)
    }

    fn sync_directory(&self, directory: &Path) -> Result<(), Error> {
        RealDisk.sync_directory(directory)
    }

    fn free_space(&self, path: &Path) -> Result<u64, Error> {
        RealDisk.free_space(path)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        RealDisk.lock(path)
    }

    fn lock_to_read(&self, path: &Path) -> Result<Box<dyn Lock>, Error> {
        RealDisk.lock_to_read(path)
    }

    fn database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        RealDisk.database(directory)
    }

    fn private_database(&self, directory: &Path) -> Result<Box<dyn Database>, Error> {
        RealDisk.private_database(directory)
    }
}

#[test]
fn no_segment_is_prepared_in_the_file_of_one_that_is_put_in_place() {
    let directory = scratch();
    let disk = Arc::new(Hurried::default());
    let opened = FileJournal::open(
        Arc::clone(&disk) as Arc<dyn Disk>,
        directory.path(),
        small(),
    );
    let (mut journal, reader, _) = opened.unwrap();
    *disk.store.lock() = Arc::downgrade(&journal.store);
    fill(&mut journal, 100, 300);
    assert!(reader.stats().unwrap().wal_segments > 3);
    assert_holds(&reader, 100, 300);
}
