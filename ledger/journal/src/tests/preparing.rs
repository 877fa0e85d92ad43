//! The next segment is prepared while the previous one is being installed.

use std::{
    sync::{Weak, mpsc},
    thread,
    time::Duration,
};

use parking_lot::Mutex;

use super::{hooked::Hooked, *};
use crate::store::Store;

/// How long to wait for a segment that must not be prepared yet.
const MEANWHILE: Duration = Duration::from_millis(200);

/// Lets another thread try to prepare the next segment.
fn prepare(store: &Mutex<Weak<Store>>) {
    let Some(store) = std::mem::take(&mut *store.lock()).upgrade() else {
        return;
    };
    let (done, is_done) = mpsc::channel::<()>();
    thread::spawn(move || {
        store.prepare_segment();
        drop(done);
    });
    let _ = is_done.recv_timeout(MEANWHILE);
}

#[test]
fn no_segment_is_prepared_in_the_file_of_one_that_is_put_in_place() {
    let directory = scratch();
    let store = Arc::new(Mutex::new(Weak::new()));
    let hurried = Arc::clone(&store);
    let disk = Hooked {
        // When the first prepared segment is about to be renamed.
        before_rename: Some(Box::new(move |from: &Path| {
            if from.ends_with("log/next.tmp") {
                prepare(&hurried);
            }
        })),
        ..Hooked::new(RealDisk)
    };
    let opened = FileJournal::open(Arc::new(disk), directory.path(), small());
    let (mut journal, reader, _) = opened.unwrap();
    *store.lock() = Arc::downgrade(&journal.store);
    fill(&mut journal, 100, 300);
    assert!(reader.stats().unwrap().wal_segments > 3);
    assert_holds(&reader, 100, 300);
}
