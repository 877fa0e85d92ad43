//! The deep check and the offline reader: they find all damage, and change nothing.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, Ordering::SeqCst},
};

use super::*;
use crate::{BatchRef, Observer, Offline, Retention, Verified, verify};

/// A ledger with archive, sealed epochs, a current epoch, a log and snapshots, killed.
fn ledger() -> (tempfile::TempDir, Durable) {
    ledger_seen(|_| {})
}

/// The same, with a look at it before compaction removes anything.
fn ledger_seen(look: impl FnOnce(&Path)) -> (tempfile::TempDir, Durable) {
    let directory = scratch();
    let options = Options { archive: Some(directory.path().join("archive")), ..small() };
    let (mut journal, reader, _) = try_open(&directory.path().join("data"), options).unwrap();
    for sequence in [100, 130] {
        let position = fill_and_work(&mut journal, sequence, 250);
        snapshot(&reader, position);
    }
    look(directory.path());
    let age = Some(Span::from_seconds(60));
    let retention = Retention { max_age: age, max_bytes: None };
    assert!(reader.compact(time(140), &retention).unwrap().archived > 0);
    let durable = fill_and_work(&mut journal, 160, 250);
    assert!(reader.stats().unwrap().sealed_epochs > 0);
    (directory, durable)
}

fn check(directory: &Path) -> Verified {
    let archive = directory.join("archive");
    verify(Arc::new(RealDisk), &directory.join("data"), Some(&archive), 1, &()).unwrap()
}

/// All relevant files, except those of sled, which changes its own.
fn contents(directory: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let ours = |path: &PathBuf| {
        !path.iter().any(|part| part == "sled") && path.extension().is_none_or(|e| e != "tmp")
    };
    let read = |path: PathBuf| (path.clone(), fs::read(path).unwrap());
    files(directory).into_iter().filter(ours).map(read).collect()
}

#[test]
fn a_whole_ledger_is_right_and_stays_as_it_is() {
    let (directory, durable) = ledger();
    let before = contents(directory.path());
    for _ in 0..2 {
        let found = check(directory.path());
        assert_eq!(found.damages, []);
        assert_eq!((found.first_sequence, found.entries, found.batches), (1, 160, 80));
        assert_eq!((found.last, found.snapshots), (Some(durable), 2));
    }
    assert!(contents(directory.path()) == before);
}

#[test]
fn what_was_archived_and_not_removed_yet_is_no_damage() {
    let before = scratch();
    let (directory, _) = ledger_seen(|ledger| copy(ledger, before.path()));
    let archive = before.path().join("archive");
    copy(&directory.path().join("archive"), &archive);
    let found = check(before.path());
    assert_eq!(found.damages, []);
    assert_eq!((found.first_sequence, found.entries), (1, 130));
    let early = |note: &String| note.contains("not removed yet");
    assert!(found.notes.iter().any(early), "{:?}", found.notes);

    let file = files(&archive).remove(0);
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    assert_eq!(check(before.path()).damages.len(), 1);
}

#[test]
fn the_watch_sees_every_batch_and_can_object() {
    struct Objects(AtomicU64);
    impl Observer for Objects {
        fn batch(&self, batch: BatchRef<'_>) -> Result<(), String> {
            let last = batch.last_sequence();
            assert_eq!(batch.first_sequence, self.0.swap(last, SeqCst) + 1);
            assert_eq!(batch.payload, payload(batch.first_sequence, 250));
            if last == 80 { Err("not what I expected".to_owned()) } else { Ok(()) }
        }
    }
    let (directory, _) = ledger();
    let archive = directory.path().join("archive");
    let watch = Objects(AtomicU64::new(0));
    let data = directory.path().join("data");
    let found = verify(Arc::new(RealDisk), &data, Some(&archive), 1, &watch).unwrap();
    assert_eq!(watch.0.into_inner(), 160);
    assert_eq!(found.damages.len(), 1);
    assert_eq!(
        (found.damages[0].sequence, &*found.damages[0].why),
        (Some(79), "not what I expected")
    );
}

#[test]
fn several_threads_find_what_one_finds() {
    struct Sequences(Mutex<Vec<u64>>);
    impl Observer for Sequences {
        fn batch(&self, batch: BatchRef<'_>) -> Result<(), String> {
            self.0.lock().unwrap().push(batch.first_sequence);
            match batch.first_sequence % 30 {
                1 => Err("not what I expected".to_owned()),
                _ => Ok(()),
            }
        }
    }
    let (directory, _) = ledger();
    let (data, archive) = (directory.path().join("data"), directory.path().join("archive"));
    let check = |jobs| {
        let watch = Sequences(Mutex::default());
        let disk = Arc::new(RealDisk);
        let found = verify(disk, &data, Some(&archive), jobs, &watch).unwrap();
        let mut seen = watch.0.into_inner().unwrap();
        seen.sort_unstable();
        (found, seen)
    };
    for damaged in [false, true] {
        if damaged {
            for path in [&files(&archive)[0], &files(&data.join("snapshots"))[0]] {
                fs::write(path, b"short").unwrap();
            }
        }
        let alone = check(1);
        assert!(alone.0.damages.len() > 3, "{:?}", alone.0.damages);
        assert_eq!(check(4), alone);
        assert_eq!(check(100), alone);
    }
}

#[test]
fn damage_to_each_of_our_files_is_found_and_named() {
    let (original, _) = ledger();
    for (path, right) in contents(original.path()) {
        let written = right.iter().rposition(|byte| *byte != 0).unwrap() + 1;
        for place in [0, written / 2, written - 1] {
            let mut wrong = right.clone();
            wrong[place] ^= 0x10;
            fs::write(&path, wrong).unwrap();
            let found = check(original.path());
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            // The anchor has two notes, so that one may be lost.
            if name != "anchor" {
                let named = found.damages.iter().any(|damage| damage.file == path);
                assert!(named, "{name} at {place}: {:?}", found.damages);
            }
        }
        fs::write(&path, right).unwrap();
    }
    assert_eq!(check(original.path()).damages, []);
}

#[test]
fn what_is_missing_is_found() {
    let (original, _) = ledger();
    for (path, right) in contents(original.path()) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "anchor" || name.ends_with(".snapshot") || name == "LEDGER" {
            // Notes and snapshots may be missing; without LEDGER nothing is checked.
            continue;
        }
        fs::remove_file(&path).unwrap();
        let found = check(original.path());
        assert!(!found.damages.is_empty(), "{name}");
        fs::write(&path, right).unwrap();
    }
}

#[test]
fn reading_offline_gives_all_and_changes_nothing() {
    let (directory, durable) = ledger();
    let (data, archive) = (directory.path().join("data"), directory.path().join("archive"));
    let before = contents(directory.path());
    let offline = Offline::open(Arc::new(RealDisk), &data, Some(&archive)).unwrap();
    assert_eq!((offline.first_sequence(), offline.last_sequence()), (1, durable.sequence));
    assert_eq!(offline.batches(0).map(Result::unwrap).count(), 80);
    assert!(matches!(try_open(&data, small()), Err(Error::Locked { .. })));
    drop(offline);
    assert!(contents(directory.path()) == before);

    let offline = Offline::open(Arc::new(RealDisk), &archive, None).unwrap();
    assert_eq!(offline.first_sequence(), 1);
    let last = offline.batches(0).last().unwrap().unwrap().batch.last_sequence();
    assert_eq!(last, offline.last_sequence());

    let offline = Offline::open(Arc::new(RealDisk), &data, None).unwrap();
    let first = offline.first_sequence();
    assert!(first > 1);
    assert!(offline.batches(0).next().unwrap().unwrap().batch.first_sequence == first);
}

#[test]
fn a_torn_end_is_noted_and_left() {
    let directory = scratch();
    let data = directory.path().join("data");
    let (mut journal, _, _) = open(&data);
    fill(&mut journal, 6, 30);
    drop(journal);
    let log = files(&data).into_iter().find(|path| path.extension().is_some()).unwrap();
    let mut bytes = fs::read(&log).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    bytes[end..end + 40].fill(7);
    fs::write(&log, &bytes).unwrap();
    let found = check(directory.path());
    assert_eq!(found.damages, []);
    assert!(found.notes.iter().any(|note| note.contains("torn")), "{:?}", found.notes);
    let offline = Offline::open(Arc::new(RealDisk), &data, None).unwrap();
    assert_eq!(offline.batches(0).map(Result::unwrap).count(), 3);
    drop(offline);
    assert!(fs::read(&log).unwrap() == bytes);
}

#[test]
fn there_has_to_be_a_ledger() {
    let directory = scratch();
    let path = directory.path();
    assert!(matches!(verify(Arc::new(RealDisk), path, None, 1, &()), Err(Error::Io { .. })));
    assert!(matches!(Offline::open(Arc::new(RealDisk), path, None), Err(Error::Io { .. })));
    let _held = open(path);
    assert!(matches!(verify(Arc::new(RealDisk), path, None, 1, &()), Err(Error::Locked { .. })));
}

fn with_archive(directory: &Path) -> Options {
    Options { archive: Some(directory.join("archive")), ..small() }
}

#[test]
fn a_missing_file_of_the_archive_is_told_when_the_ledger_is_opened() {
    let (original, durable) = ledger();
    let archived = files(&original.path().join("archive"));
    for path in &archived {
        let right = fs::read(path).unwrap();
        fs::remove_file(path).unwrap();
        let found = check(original.path());
        let (_journal, reader, recovery) =
            try_open(&original.path().join("data"), with_archive(original.path())).unwrap();
        let damage = recovery.missing_archive.unwrap();
        assert_eq!((damage.sequence, recovery.durable), (Some(1), durable));
        assert!(found.damages.contains(&damage), "{:?}", found.damages);
        assert!(reader.first_sequence() > 1);
        fs::write(path, right).unwrap();
    }
    let data = original.path().join("data");
    let (_, _, recovery) = try_open(&data, with_archive(original.path())).unwrap();
    assert_eq!(recovery.missing_archive, None);
    // Without an archive no missing file can be detected in it.
    assert_eq!(open(&data).2.missing_archive, None);
}

#[test]
fn a_compaction_that_was_cut_off_behind_archiving_is_no_damage() {
    let directory = scratch();
    let data = directory.path().join("data");
    let (mut journal, reader, _) = try_open(&data, with_archive(directory.path())).unwrap();
    for sequence in [100, 130] {
        let position = fill_and_work(&mut journal, sequence, 250);
        snapshot(&reader, position);
    }
    journal.close().unwrap();
    let before = directory.path().join("before");
    copy(&data, &before);
    let retention = Retention { max_age: Some(Span::from_seconds(60)), max_bytes: None };
    let (journal, reader, _) = try_open(&data, with_archive(directory.path())).unwrap();
    let archived = reader.compact(time(140), &retention).unwrap().archived;
    journal.close().unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&before, &data);
    let found = check(directory.path());
    assert_eq!((found.damages, found.entries), (vec![], 130));
    let is_pending = |note: &&String| note.ends_with("archived, and not removed yet");
    assert_eq!(found.notes.iter().filter(is_pending).count(), archived);
    let (_journal, reader, _) = try_open(&data, with_archive(directory.path())).unwrap();
    assert_eq!(reader.compact(time(140), &retention).unwrap().archived, archived);
    assert_eq!(read(&reader, 1).unwrap().len(), 65);
}

#[test]
fn a_ledger_that_ends_before_its_archive_was_rolled_back() {
    let (directory, _) = ledger();
    let data = directory.path().join("data");
    fs::remove_dir_all(&data).unwrap();
    let (mut journal, _, _) = open(&data);
    fill(&mut journal, 10, 250);
    drop(journal);
    let found = check(directory.path());
    assert!(!found.damages.is_empty());
    let Err(error) = try_open(&data, with_archive(directory.path())) else {
        panic!("opened");
    };
    assert!(error.is_damage() && error.to_string().contains("was archived"), "{error}");
    assert!(open(&data).2.missing_archive.is_none());
}

#[test]
fn a_ledger_without_its_beginning_is_missed() {
    let (directory, _) = ledger();
    let data = directory.path().join("data");
    fs::remove_file(data.join("LEDGER")).unwrap();
    for left in ["log", "epochs", "snapshots", "anchor"] {
        let missed = verify(Arc::new(RealDisk), &data, None, 1, &()).unwrap_err();
        assert!(missed.is_damage() && missed.to_string().contains("LEDGER: missing"), "{missed}");
        assert!(try_open(&data, small()).err().unwrap().is_damage());
        match left {
            "anchor" => fs::remove_file(data.join(left)).unwrap(),
            part => fs::remove_dir_all(data.join(part)).unwrap(),
        }
    }
}

/// An attacker who rewrites the write-ahead log, including chain and anchor, would also have to rewrite the epoch
/// that was filled from it.
#[test]
fn a_commit_log_that_was_written_anew_is_told_by_the_epoch_that_was_filled_from_it() {
    for is_closed in [true, false] {
        let directory = scratch();
        let (true_one, other) = (directory.path().join("data"), directory.path().join("other"));
        let begun = || {
            let (mut journal, ..) = open(&true_one);
            fill_and_work(&mut journal, 40, 250);
            journal.close().unwrap();
        };
        begun();
        copy(&true_one, &other);
        // Another last batch, and one more, so that the log does not end before the flushed position.
        let go_on = |path: &Path, length| {
            let (mut journal, ..) = open(path);
            fill_and_work(&mut journal, 42, length);
            let durable = fill_and_work(&mut journal, 44, 250);
            if is_closed {
                journal.close().unwrap();
            }
            durable
        };
        let (renewed, forged) = (go_on(&true_one, 250), go_on(&other, 251));
        assert_ne!(renewed, forged);
        assert_eq!(check(directory.path()).damages, []);
        for path in files(&other).iter().filter(|path| {
            let path = path.strip_prefix(&other).unwrap();
            path.starts_with("log") || path.starts_with("anchor")
        }) {
            fs::copy(path, true_one.join(path.strip_prefix(&other).unwrap())).unwrap();
        }
        let found = check(directory.path());
        assert_eq!(found.last, Some(forged));
        let epochs = true_one.join("epochs");
        assert!(!found.damages.is_empty(), "{is_closed}");
        for damage in found.damages {
            assert!(damage.file.starts_with(&epochs), "{damage}");
            assert_eq!(damage.sequence, Some(44));
            assert!(damage.why.contains("which the log does not have"), "{damage}");
        }
    }
}
