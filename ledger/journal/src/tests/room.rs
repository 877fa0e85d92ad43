//! A disk that gets full: preparing the next segment does not take the space that the active one needs.

use super::*;
use crate::sim::{Faults, SimDisk};

/// A ledger whose active segment was not prepared, and neither is the next one; and the bytes in use.
fn opened(disk: &SimDisk) -> (FileJournal, u64) {
    let directory = PathBuf::from("/data");
    let (mut journal, _, _) =
        FileJournal::open(Arc::new(disk.clone()), &directory, small()).unwrap();
    let last = fill(&mut journal, 60, 100);
    assert!(disk.used() > small().segment_bytes, "{last:?}");
    (journal, disk.used())
}

fn with_room(disk: &SimDisk, bytes: u64) {
    disk.inject(Faults {
        capacity: Some(disk.used() + bytes),
        ..Faults::default()
    });
}

#[test]
fn preparing_a_segment_leaves_room_for_the_present_one() {
    let segment = small().segment_bytes;
    let disk = SimDisk::new(1);
    let (mut journal, used) = opened(&disk);
    with_room(&disk, 2 * segment - 1);
    journal.work().unwrap();
    assert_eq!(disk.used(), used, "there is no room for two");
    // The active segment and a part of the next.
    fill(&mut journal, 100, 100);

    let disk = SimDisk::new(1);
    let (journal, used) = opened(&disk);
    with_room(&disk, 2 * segment);
    assert!(journal.work().unwrap());
    assert_eq!(disk.used(), used + segment);
}

#[test]
fn a_segment_that_could_not_be_prepared_gives_back_what_it_took() {
    let disk = SimDisk::new(1);
    let (journal, used) = opened(&disk);
    disk.inject(Faults {
        fail_write_at: Some(1),
        ..Faults::default()
    });
    journal.work().unwrap();
    assert_eq!(disk.fired().failed_writes, 1);
    assert_eq!(disk.used(), used);
    journal.work().unwrap();
    assert_eq!(disk.used(), used + small().segment_bytes);
}
