//! A disk that gets full: neither the next segment nor the archive takes the space that the active segment needs.

use super::{hooked::Hooked, *};
use crate::{
    Retention,
    disk::Disk,
    epoch,
    simulation::{Faults, SimDisk},
};

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
    disk.inject(Faults { capacity: Some(disk.used() + bytes), ..Faults::default() });
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
    disk.inject(Faults { fail_write_at: Some(1), ..Faults::default() });
    journal.work().unwrap();
    assert_eq!(disk.fired().failed_writes, 1);
    assert_eq!(disk.used(), used);
    journal.work().unwrap();
    assert_eq!(disk.used(), used + small().segment_bytes);
}

const EPOCHS: &str = "/data/epochs";
const ARCHIVE: &str = "/archive";

const EVERYTHING_OLD: Retention = Retention { max_age: Some(Span::ZERO), max_bytes: None };

/// A ledger of many sealed epochs, with an archive, on a disk with this free space.
fn with_archive(
    free_space: impl Fn(&SimDisk, &Path) -> u64 + Send + Sync + 'static,
) -> (FileJournal, FileReader) {
    let disk = Hooked { free_space: Some(Box::new(free_space)), ..Hooked::new(SimDisk::new(1)) };
    let options = Options { archive: Some(PathBuf::from(ARCHIVE)), ..small() };
    let (mut journal, reader, _) =
        FileJournal::open(Arc::new(disk), Path::new("/data"), options).unwrap();
    for sequence in [300, 320] {
        let position = fill_and_work(&mut journal, sequence, 400);
        snapshot(&reader, position);
    }
    assert!(reader.stats().unwrap().sealed_epochs > 5);
    (journal, reader)
}

fn stored(disk: &SimDisk, directory: &str) -> u64 {
    epoch::stored_bytes(disk, Path::new(directory)).unwrap()
}

#[test]
fn an_archive_on_the_disk_of_the_ledger_needs_room_for_one_epoch_at_a_time() {
    let (_journal, reader) = with_archive(|disk, _| {
        let taken = stored(disk, EPOCHS) + stored(disk, ARCHIVE);
        110_000_u64.saturating_sub(taken)
    });
    let stats = reader.stats().unwrap();
    assert!(stats.free_bytes < stats.epochs_bytes / 2, "{stats:?}");
    let done = reader.compact(time(10_000), &EVERYTHING_OLD).unwrap();
    assert!(done.epochs > 5, "{done:?}");
    assert_eq!(done.archived, done.epochs);
    assert_holds(&reader, 320, 400);
}

#[test]
fn an_archive_on_another_disk_needs_no_room_on_that_of_the_ledger() {
    let (_journal, reader) = with_archive(|disk, path| {
        assert!(disk.has_directory(path).unwrap(), "{}", path.display());
        match path == Path::new(ARCHIVE) {
            true => 1_000_000,
            // Less than twice an epoch.
            false => 10_000,
        }
    });
    let done = reader.compact(time(10_000), &EVERYTHING_OLD).unwrap();
    assert!(done.epochs > 5, "{done:?}");
    assert_holds(&reader, 320, 400);
}

#[test]
fn epochs_that_are_archived_go_although_the_next_one_finds_no_room() {
    let (_journal, reader) = with_archive(|disk, path| match path == Path::new(ARCHIVE) {
        true => 40_000_u64.saturating_sub(stored(disk, ARCHIVE)),
        false => 1_000_000,
    });
    let before = reader.stats().unwrap();
    let error = reader.compact(time(10_000), &EVERYTHING_OLD).unwrap_err().to_string();
    assert!(error.contains(ARCHIVE), "{error}");
    let after = reader.stats().unwrap();
    assert!(after.sealed_epochs < before.sealed_epochs, "{after:?}");
    assert!(after.kept_from > 1 && after.archive_bytes < 40_000, "{after:?}");
    assert_holds(&reader, 320, 400);
}
