//! Backups of an open ledger in use, and their restore, complete or not.

use std::io;

use super::*;
use crate::{BackedUp, Retention, disk::Disk, read_backup, refer_to_archive, verify, write_backup};

const EVERYTHING: Retention = Retention { max_age: None, max_bytes: Some(0) };

/// A compacted ledger: sealed epochs, one being filled, a log, three snapshots.
fn ledger() -> (tempfile::TempDir, FileJournal, FileReader, Durable) {
    let directory = scratch();
    let (mut journal, reader, _) = open(&directory.path().join("data"));
    for sequence in [100, 130] {
        let position = fill_and_work(&mut journal, sequence, 250);
        snapshot(&reader, position);
    }
    assert!(reader.compact(time(140), &EVERYTHING).unwrap().epochs > 0);
    let position = fill_and_work(&mut journal, 160, 250);
    snapshot(&reader, position);
    let durable = fill_and_work(&mut journal, 240, 250);
    assert!(reader.stats().unwrap().sealed_epochs > 1);
    (directory, journal, reader, durable)
}

#[test]
fn a_restored_ledger_misses_its_archive_too() {
    let directory = scratch();
    let archive = directory.path().join("archive");
    let options = Options { archive: Some(archive.clone()), ..small() };
    let data = directory.path().join("data");
    let (mut journal, reader, _) = try_open(&data, options.clone()).unwrap();
    for sequence in [100, 130] {
        let position = fill_and_work(&mut journal, sequence, 250);
        snapshot(&reader, position);
    }
    assert!(reader.compact(time(140), &EVERYTHING).unwrap().archived > 0);
    let mut bytes = Vec::new();
    write_backup(&reader, &mut bytes).unwrap();
    let copy = directory.path().join("copy");
    restore(&bytes, &copy).unwrap();
    let (_journal, copied, recovery) = try_open(&copy, options.clone()).unwrap();
    assert_eq!((recovery.missing_archive, copied.first_sequence()), (None, 1));
    drop((_journal, copied));
    fs::remove_file(&files(&archive)[0]).unwrap();
    let missing = || try_open(&copy, options.clone()).unwrap().2.missing_archive;
    assert!(missing().is_some());

    // Another node's archive holds something else.
    let disk: Arc<dyn Disk> = Arc::new(RealDisk);
    refer_to_archive(&disk, &copy, Some(&archive)).unwrap();
    assert_eq!(missing(), None);
    let (_journal, copied, _) = try_open(&copy, options.clone()).unwrap();
    assert!((2..copied.kept_from()).contains(&copied.first_sequence()));
    drop((_journal, copied));
    refer_to_archive(&disk, &copy, None).unwrap();
    let (_journal, copied, _) = open(&copy);
    assert_eq!(copied.first_sequence(), copied.kept_from());
}

fn restore(mut bytes: &[u8], directory: &Path) -> Result<BackedUp, Error> {
    read_backup(&mut bytes, Path::new("the backup"), Arc::new(RealDisk), directory)
}

/// Acts on the ledger when the first bytes of its backup are written.
struct Meanwhile<F> {
    bytes: Vec<u8>,
    act: Option<F>,
}

impl<F: FnOnce()> io::Write for Meanwhile<F> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if let Some(act) = self.act.take() {
            act();
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_happens_meanwhile_changes_nothing_in_a_backup() {
    let (directory, mut journal, reader, durable) = ledger();
    let (kept_from, other) = (reader.kept_from(), reader.clone());
    assert!(kept_from > 1);
    let before: Vec<_> = reader.read(kept_from).map(Result::unwrap).collect();
    let snapshots = reader.snapshots().list().unwrap().0.len() as u64;
    let mut output = Meanwhile {
        bytes: Vec::new(),
        act: Some(|| {
            let end = fill_and_work(&mut journal, durable.sequence + 20, 250);
            for back in [0, 1] {
                snapshot(&other, end);
                let end = fill(&mut journal, end.sequence + 2 + back, 250);
                snapshot(&other, end);
            }
            let removed = other.snapshots().thin(2).unwrap();
            assert!(removed > 0, "nothing was thinned");
            let compacted = other.compact(time(400), &EVERYTHING).unwrap();
            assert_eq!((compacted.epochs, compacted.kept_from), (0, kept_from));
        }),
    };
    let made = write_backup(&reader, &mut output).unwrap();
    let expected = BackedUp { first_sequence: kept_from, last: durable, snapshots };
    assert_eq!(made, expected);
    assert!(reader.compact(time(400), &EVERYTHING).unwrap().epochs > 0);

    let copy = directory.path().join("copy");
    assert_eq!(restore(&output.bytes, &copy).unwrap(), expected);
    let found = verify(Arc::new(RealDisk), &copy, None, 1, &()).unwrap();
    assert_eq!((found.damages, found.last), (vec![], Some(durable)));
    let (_journal, copied, recovery) = open(&copy);
    assert_eq!(recovery.durable, durable);
    assert_eq!(copied.kept_from(), kept_from);
    assert_eq!(read(&copied, kept_from).unwrap(), before);
    assert_eq!(copied.snapshots().list().unwrap().0.len() as u64, snapshots);
    let again = restore(&output.bytes, &copy).unwrap_err();
    assert!(matches!(again, Error::Io { .. }), "{again}");
}

#[test]
fn a_backup_of_nothing_is_an_empty_ledger() {
    let directory = scratch();
    let (_journal, reader, _) = open(&directory.path().join("data"));
    let mut bytes = Vec::new();
    write_backup(&reader, &mut bytes).unwrap();
    let copy = directory.path().join("copy");
    assert_eq!(restore(&bytes, &copy).unwrap().last, Durable::NOTHING);
    assert_eq!(open(&copy).2.durable, Durable::NOTHING);
}

#[test]
fn a_damaged_snapshot_is_left_out_but_never_the_last() {
    let (_directory, _journal, reader, _) = ledger();
    let snapshots = reader.snapshots().list().unwrap().0;
    for (damaged, info) in snapshots.iter().enumerate() {
        let mut bytes = fs::read(&info.path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(&info.path, bytes).unwrap();
        let made = write_backup(&reader, &mut Vec::new());
        let left = snapshots.len() - damaged - 1;
        match made {
            Ok(made) => assert_eq!(made.snapshots, left as u64),
            Err(error) => assert!(left == 0 && error.is_damage(), "{error}"),
        }
    }
}

#[test]
fn a_backup_that_is_not_whole_is_refused_and_the_place_named() {
    let (directory, _journal, reader, _) = ledger();
    let mut right = Vec::new();
    write_backup(&reader, &mut right).unwrap();
    let copy = directory.path().join("copy");
    let refused = |bytes: &[u8], at: usize| {
        let error = restore(bytes, &copy).unwrap_err();
        let text = error.to_string();
        assert!(error.is_damage() && text.contains("the backup at byte"), "{at}: {text}");
        RealDisk.remove_directory(&copy).unwrap();
    };
    let step = 1 + right.len() / 150;
    for at in (0..right.len()).step_by(step) {
        let mut wrong = right.clone();
        wrong[at] ^= 1 << (at % 8);
        refused(&wrong, at);
        refused(&right[..at], at);
    }
    for at in right.len() - 80..right.len() {
        refused(&right[..at], at);
    }
    right.push(0);
    refused(&right, right.len());
}

#[test]
fn a_full_disk_ends_a_backup_and_nothing_else() {
    struct Full(usize);
    impl io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            match taken {
                0 => Err(io::ErrorKind::StorageFull.into()),
                taken => Ok(taken),
            }
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let (_directory, mut journal, reader, durable) = ledger();
    for room in [0, 100, 5000, 20_000] {
        let error = write_backup(&reader, &mut Full(room)).unwrap_err();
        assert!(matches!(error, Error::Io { .. }), "{error}");
    }
    let durable = fill(&mut journal, durable.sequence + 2, 250);
    assert_eq!(reader.durable(), durable);
    assert!(reader.compact(time(400), &EVERYTHING).unwrap().epochs > 0);
}
