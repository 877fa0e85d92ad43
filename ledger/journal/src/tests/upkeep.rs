//! Snapshots, compaction, archive.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::*;
use crate::{Archive, Hash, Retention, Throttle, disk::RealDisk, golden};

/// Files of values that were too large for sled's log.
fn blobs(directory: &Path) -> usize {
    let is_blob = |path: &PathBuf| path.iter().any(|part| part == "blobs");
    files(directory).iter().filter(|path| is_blob(path)).count()
}

#[test]
fn sled_keeps_everything_in_the_file_that_is_synced() {
    let directory = scratch();
    let options = Options { segment_bytes: 4 << 20, epoch_bytes: 4 << 20, ..small() };
    let (mut journal, reader, _) = try_open(directory.path(), options).unwrap();
    let mut next = 1;
    for length in [700, 4000, 8000, 20_000, 300_000] {
        for _ in 0..(1_500_000 / length) {
            journal.append(batch(next, 1, length)).unwrap();
            next += 1;
        }
        journal.sync().unwrap();
        while journal.work().unwrap() {}
    }
    assert!(reader.stats().unwrap().sealed_epochs > 0);
    assert_eq!(blobs(directory.path()), 0);
}

/// Bytes that the files below a directory take on the disk.
fn disk_bytes(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            let metadata = entry.metadata().unwrap();
            if metadata.is_dir() { disk_bytes(&entry.path()) } else { metadata.blocks() * 512 }
        })
        .sum()
}

fn everything_old() -> Retention {
    Retention { max_age: Some(Span::from_seconds(60)), max_bytes: None }
}

#[test]
fn the_newest_right_snapshot_is_found() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    for sequence in [10, 20, 30] {
        let position = fill_and_work(&mut journal, sequence, 200);
        snapshot(&reader, position);
    }
    drop(journal);
    let newest = |sequence: u64, damaged: usize| {
        let (_journal, _, recovery) = open(directory.path());
        let found = recovery.snapshot.map(|info| info.position.sequence);
        assert_eq!((found, recovery.damaged_snapshots.len()), (Some(sequence), damaged));
    };
    newest(30, 0);
    let path = |sequence: u64| directory.path().join(format!("snapshots/{sequence:020}.snapshot"));
    let mut bytes = fs::read(path(30)).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(path(30), bytes).unwrap();
    newest(20, 1);
    fs::write(path(20), b"").unwrap();
    newest(10, 2);
}

#[test]
fn a_snapshot_of_another_ledger_is_not_used() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let position = fill(&mut journal, 10, 200);
    snapshot(&reader, Durable { hash: crate::Hash::GENESIS, ..position });
    drop(journal);
    let (_journal, _, recovery) = open(directory.path());
    assert_eq!((recovery.snapshot, recovery.damaged_snapshots.len()), (None, 1));
}

#[test]
fn a_snapshot_of_entries_that_are_lost_is_damage() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let position = fill(&mut journal, 10, 200);
    snapshot(&reader, Durable { sequence: 12, ..position });
    drop(journal);
    let Err(error) = try_open(directory.path(), small()) else {
        panic!("opened");
    };
    assert!(error.is_damage() && error.to_string().contains("taken of 12"), "{error}");
}

#[test]
fn compaction_gives_the_disk_back() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let half = fill_and_work(&mut journal, 300, 400);
    snapshot(&reader, half);
    let end = fill_and_work(&mut journal, 400, 400);
    snapshot(&reader, end);
    let before = disk_bytes(directory.path());
    let epochs = reader.stats().unwrap().sealed_epochs;

    let done = reader.compact(time(10_000), &everything_old()).unwrap();
    assert!(done.epochs >= 5 && done.epochs < epochs, "{done:?} of {epochs}");
    assert!(done.kept_from > 200 && done.kept_from <= 301, "{done:?}");
    let after = disk_bytes(directory.path());
    assert!(after + done.bytes <= before, "{before} -> {after}, {done:?}");
    assert!(after < before / 2, "{before} -> {after}");

    let kept = read(&reader, done.kept_from).unwrap();
    assert_eq!(kept.last().unwrap().batch.last_sequence(), 400);
    let Err(Error::Compacted { first }) = read(&reader, 1) else {
        panic!("read what is gone");
    };
    assert_eq!(first, done.kept_from);
    drop(journal);
    let (_journal, reader, recovery) = open(directory.path());
    assert_eq!(recovery.first_sequence, done.kept_from);
    assert_eq!(recovery.snapshot.unwrap().position, end);
    assert_eq!(read(&reader, done.kept_from).unwrap(), kept);
}

#[test]
fn compaction_ends_an_epoch_that_is_old_but_not_full() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    for sequence in [6, 12] {
        let position = fill_and_work(&mut journal, sequence, 100);
        snapshot(&reader, position);
    }
    let done = reader.compact(time(1000), &everything_old()).unwrap();
    assert_eq!(done.epochs, 0, "what is being filled goes later");
    while journal.work().unwrap() {}
    let position = fill_and_work(&mut journal, 14, 100);
    snapshot(&reader, position);
    let done = reader.compact(time(1000), &everything_old()).unwrap();
    assert_eq!((done.epochs, done.kept_from), (1, 13));
    assert_eq!(read(&reader, 13).unwrap().len(), 1);
}

#[test]
fn nothing_goes_without_two_snapshots() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let position = fill_and_work(&mut journal, 200, 400);
    snapshot(&reader, position);
    let done = reader.compact(time(10_000), &everything_old()).unwrap();
    assert_eq!((done.epochs, done.kept_from), (0, 1));
    assert_holds(&reader, 200, 400);
}

#[test]
fn what_compaction_did_not_get_to_remove_goes_on_open() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    for sequence in [200, 202] {
        let position = fill_and_work(&mut journal, sequence, 400);
        snapshot(&reader, position);
    }
    let oldest = directory.path().join("epochs").join(format!("{:020}", 1));
    let saved = directory.path().join("saved");
    fs::create_dir_all(saved.join("sled")).unwrap();
    fs::copy(oldest.join("sled/db"), saved.join("sled/db")).unwrap();
    reader.compact(time(10_000), &everything_old()).unwrap();
    drop(journal);
    assert!(!oldest.exists());
    fs::rename(&saved, &oldest).unwrap();
    let (_journal, _, recovery) = open(directory.path());
    assert!(recovery.repaired[0].contains("compaction"), "{:?}", recovery.repaired);
    assert!(!oldest.exists());
}

#[test]
fn what_compresses_well_is_archived_too() {
    let directory = scratch();
    let options = Options {
        archive: Some(directory.path().join("archive")),
        segment_bytes: 1 << 20,
        epoch_bytes: 50 << 20,
        ..small()
    };
    let (mut journal, reader, _) = try_open(&directory.path().join("data"), options).unwrap();
    let zeros = |sequence: u64| Batch { payload: vec![0; 9 << 20], ..batch(sequence, 1, 0) };
    for sequence in 1..=8 {
        journal.append(zeros(sequence)).unwrap();
        let durable = journal.sync().unwrap();
        while journal.work().unwrap() {}
        if sequence >= 7 {
            snapshot(&reader, durable);
        }
    }
    let done = reader.compact(time(10_000), &everything_old()).unwrap();
    assert_eq!((done.archived, done.kept_from), (1, 7));
    assert!(reader.stats().unwrap().archive_bytes < 1 << 20);
    for (sequence, stored) in (1..).zip(reader.read(1)) {
        assert!(stored.unwrap().batch == zeros(sequence), "{sequence}");
    }
}

#[test]
fn version_1_of_an_archive_is_read() {
    let directory = scratch();
    let name = format!("{:020}-{:020}.qla", 1, 6);
    fs::write(directory.path().join(name), golden::bytes("archive")).unwrap();
    let archive = Arc::new(Archive::open(Arc::new(RealDisk), directory.path()).unwrap());
    archive.verify(&archive.files()[0], |_, _| {}).unwrap();
    let found: Vec<Batch> = archive.read(1).map(|stored| stored.unwrap().batch).collect();
    assert_eq!(found, [1, 3, 5].map(|first| batch(first, 2, 40)));
}

#[test]
fn a_position_of_the_ledger_is_told_from_another_one() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    for sequence in [300, 320] {
        let position = fill_and_work(&mut journal, sequence, 400);
        snapshot(&reader, position);
    }
    let ends: Vec<Durable> = reader.read(1).map(|stored| stored.unwrap().end()).collect();
    let of_other_history = |end: &Durable| Durable { hash: Hash::GENESIS, ..*end };
    assert!(reader.has(&Durable::NOTHING).unwrap());
    for end in &ends {
        assert!(reader.has(end).unwrap(), "{end:?}");
        assert!(!reader.has(&of_other_history(end)).unwrap(), "{end:?}");
    }
    reader.compact(time(10_000), &everything_old()).unwrap();
    assert!(matches!(reader.has(&ends[0]), Err(Error::Compacted { .. })));
    let base = reader.kept_from() - 1;
    let base = ends.iter().find(|end| end.sequence == base).unwrap();
    assert!(reader.has(base).unwrap());
    assert!(!reader.has(&of_other_history(base)).unwrap());
}

#[test]
fn what_is_archived_can_be_read_from_the_beginning() {
    let directory = scratch();
    let archive = directory.path().join("archive");
    let data = directory.path().join("data");
    let options = Options { archive: Some(archive.clone()), ..small() };
    let (mut journal, reader, _) = try_open(&data, options.clone()).unwrap();
    for sequence in [300, 320] {
        let position = fill_and_work(&mut journal, sequence, 400);
        snapshot(&reader, position);
    }
    let done = reader.compact(time(10_000), &everything_old()).unwrap();
    assert!(done.archived >= 5 && done.archived == done.epochs, "{done:?}");
    assert_eq!(reader.first_sequence(), 1);
    assert_holds(&reader, 320, 400);
    drop(journal);
    let (_journal, reader, _) = try_open(&data, options).unwrap();
    assert_holds(&reader, 320, 400);

    let alone = Arc::new(Archive::open(Arc::new(RealDisk), &archive).unwrap());
    let found: Result<Vec<_>, _> = alone.read(1).collect();
    let last = found.unwrap().last().unwrap().batch.last_sequence();
    assert_eq!(last, done.kept_from - 1);
    let file = alone.files().remove(2);
    assert!(alone.verify(&file, |_, _| {}).is_ok());
    let right = fs::read(&file.path).unwrap();
    for place in [0, 20, 70, 500, right.len() / 2, right.len() - 100, right.len() - 1] {
        let mut wrong = right.clone();
        wrong[place] ^= 1;
        fs::write(&file.path, wrong).unwrap();
        assert!(alone.verify(&file, |_, _| {}).unwrap_err().is_damage(), "{place}");
    }
}

#[test]
fn what_goes_on_behind_the_ack_path_pauses_and_the_ack_path_does_not() {
    let directory = scratch();
    let throttle = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&throttle);
    let options = || Options {
        throttle: Throttle::new({
            let counter = Arc::clone(&counter);
            move || {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }),
        ..small()
    };
    let paused = || throttle.swap(0, Ordering::Relaxed);
    let (mut journal, reader, _) = try_open(directory.path(), options()).unwrap();
    let position = fill(&mut journal, 300, 400);
    assert_eq!(paused(), 0);
    while journal.work().unwrap() {}
    // Once for each flushed block, and for each frame of sealed epochs.
    assert!(paused() > 100);
    snapshot(&reader, position);
    assert!(paused() > 0);
    let end = fill_and_work(&mut journal, 400, 400);
    snapshot(&reader, end);
    while journal.work().unwrap() {}
    paused();
    let done = reader.compact(time(1000), &everything_old()).unwrap();
    assert!(done.epochs > 0);
    // At least once for each of the two snapshots that it checks.
    assert!(paused() >= 2);
    journal.close().unwrap();
    paused();
    let (_journal, _, recovery) = try_open(directory.path(), options()).unwrap();
    assert!(recovery.snapshot.is_some());
    assert_eq!(paused(), 0);
}
