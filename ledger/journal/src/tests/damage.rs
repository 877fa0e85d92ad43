//! Flipped bits, truncated and missing files: repaired, or refused with the place named; never a silent loss.

use super::*;

/// A ledger of 70 entries with sealed epochs, a current one, and a log; stopped cleanly or killed.
fn ledger(clean: bool) -> (tempfile::TempDir, Durable) {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let durable = fill_and_work(&mut journal, 70, 250);
    assert_eq!(reader.stats().unwrap().sealed_epochs, 1);
    if clean {
        journal.close().unwrap();
    }
    (directory, durable)
}

/// Opens and reads everything: it is all there, or damage is reported.
fn all_or_refused(directory: &Path, durable: &Durable) -> Result<Vec<String>, String> {
    let report = |error: Error| {
        assert!(error.is_damage(), "{error}");
        Err(error.to_string())
    };
    let (journal, reader, recovery) = match try_open(directory, small()) {
        Ok(opened) => opened,
        Err(error) => return report(error),
    };
    if let Err(error) = read(&reader, 1) {
        return report(error);
    }
    assert_eq!(recovery.durable, *durable, "{:?}", recovery.repaired);
    assert_holds(&reader, durable.sequence, 250);
    drop(journal);
    Ok(recovery.repaired)
}

/// Damages each file in turn, and counts how often the damage was harmless or repaired, and how often refused.
fn damage_each(clean: bool, damage: impl Fn(&Path, u64)) -> (usize, usize) {
    let (original, durable) = ledger(clean);
    let (mut right, mut refused) = (0, 0);
    for path in files(original.path()) {
        let name = path.strip_prefix(original.path()).unwrap().to_path_buf();
        for place in 0..2 {
            let directory = scratch();
            copy(original.path(), directory.path());
            damage(&directory.path().join(&name), place);
            match all_or_refused(directory.path(), &durable) {
                Ok(_) => right += 1,
                Err(why) => {
                    refused += 1;
                    assert!(why.contains(&directory.path().display().to_string()), "{why}");
                }
            }
        }
    }
    (right, refused)
}

/// A place in a file, usually a written one.
fn some_place(bytes: &[u8], place: u64) -> usize {
    let hash = blake3::hash(&[&place.to_le_bytes()[..], &bytes.len().to_le_bytes()].concat());
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0) + 1;
    usize::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap()) % written
}

fn flip(path: &Path, place: u64) {
    let mut bytes = fs::read(path).unwrap();
    if !bytes.is_empty() {
        let at = some_place(&bytes, place);
        bytes[at] ^= 1 << (place % 8);
        fs::write(path, bytes).unwrap();
    }
}

fn cut(path: &Path, place: u64) {
    let bytes = fs::read(path).unwrap();
    fs::write(path, &bytes[..some_place(&bytes, place)]).unwrap();
}

fn zero(path: &Path, place: u64) {
    let mut bytes = fs::read(path).unwrap();
    let at = some_place(&bytes, place);
    let end = bytes.len().min(at + 512);
    bytes[at..end].fill(0);
    fs::write(path, bytes).unwrap();
}

#[test]
fn one_flipped_bit_is_repaired_or_refused() {
    for clean in [true, false] {
        let (right, refused) = damage_each(clean, flip);
        assert!(right > 0 && refused > 0, "{right} {refused}");
    }
}

#[test]
fn a_cut_file_is_repaired_or_refused() {
    for clean in [true, false] {
        let (right, refused) = damage_each(clean, cut);
        assert!(right > 0 && refused > 0, "{right} {refused}");
    }
}

#[test]
fn a_zeroed_block_is_repaired_or_refused() {
    let (right, refused) = damage_each(false, zero);
    assert!(right > 0 && refused > 0, "{right} {refused}");
}

#[test]
fn a_missing_file_is_repaired_or_refused() {
    for clean in [true, false] {
        let (_, refused) = damage_each(clean, |path, _| fs::remove_file(path).unwrap());
        assert!(refused > 0);
    }
}

#[test]
fn every_bit_of_the_acknowledged_log_counts() {
    let original = scratch();
    let (mut journal, _, _) = open(original.path());
    let durable = fill(&mut journal, 6, 3);
    drop(journal);
    let log = files(original.path())
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "log"))
        .unwrap();
    let right = fs::read(&log).unwrap();
    let written = right.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for bit in 0..written * 8 {
        let mut wrong = right.clone();
        wrong[bit / 8] ^= 1 << (bit % 8);
        fs::write(&log, wrong).unwrap();
        let Err(error) = try_open(original.path(), small()) else {
            panic!("bit {bit} was accepted");
        };
        let text = error.to_string();
        assert!(error.is_damage() && text.contains(".log at byte"), "{text}");
    }
    fs::write(&log, right).unwrap();
    assert_eq!(open(original.path()).2.durable, durable);
}

#[test]
fn a_torn_write_that_nobody_was_told_of_is_erased() {
    let original = scratch();
    let (mut journal, _, _) = open(original.path());
    fill(&mut journal, 6, 30);
    drop(journal);
    let log = files(original.path())
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "log"))
        .unwrap();
    let before = fs::read(&log).unwrap();
    let anchor = fs::read(original.path().join("anchor")).unwrap();
    let (mut journal, _, _) = open(original.path());
    journal.append(batch(7, 2, 300)).unwrap();
    journal.append(batch(9, 2, 300)).unwrap();
    journal.sync().unwrap();
    drop(journal);
    let after = fs::read(&log).unwrap();
    let start = before.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let end = after.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    for torn in start..end {
        for lost_head in [false, true] {
            let mut bytes = after.clone();
            if lost_head {
                bytes[start..torn].fill(0);
            } else {
                bytes[torn..].fill(0);
            }
            fs::write(&log, &bytes).unwrap();
            fs::write(original.path().join("anchor"), &anchor).unwrap();
            let (journal, reader, recovery) = open(original.path());
            let last = recovery.durable.sequence;
            assert!([6, 8, 10].contains(&last), "{torn} {last}");
            assert_eq!(read(&reader, 1).unwrap().len() as u64, last / 2);
            drop(journal);
            let (_, _, again) = open(original.path());
            assert_eq!(again.durable, recovery.durable);
            assert_eq!(again.repaired, Vec::<String>::new(), "nothing is left to repair");
        }
    }
}

/// The directory of the current epoch.
fn current_epoch(directory: &Path) -> PathBuf {
    fs::read_dir(directory.join("epochs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .find(|path| !path.join("SEAL").exists())
        .unwrap()
}

fn assert_rebuilt(directory: &Path, durable: &Durable) {
    let (journal, reader, _) = open(directory);
    assert!(reader.stats().unwrap().flushed < durable.sequence);
    assert_holds(&reader, durable.sequence, 250);
    while journal.work().unwrap() {}
    assert_eq!(reader.stats().unwrap().flushed, durable.sequence);
    assert_holds(&reader, durable.sequence, 250);
}

#[test]
fn a_lost_current_database_is_rebuilt() {
    let (directory, durable) = ledger(false);
    fs::write(current_epoch(directory.path()).join("sled/db"), b"short").unwrap();
    assert_rebuilt(directory.path(), &durable);
    fs::remove_dir_all(current_epoch(directory.path())).unwrap();
    assert_rebuilt(directory.path(), &durable);
}

#[test]
fn a_current_database_with_something_else_is_rebuilt() {
    let (directory, durable) = ledger(false);
    let current = current_epoch(directory.path()).join("sled");
    fs::remove_dir_all(&current).unwrap();
    let other = directory.path().join("epochs").join(format!("{:020}", 1));
    copy(&other.join("sled"), &current);
    let (_, _, recovery) = open(directory.path());
    assert!(recovery.repaired[0].contains("rebuilt"), "{:?}", recovery.repaired);
    assert_rebuilt(directory.path(), &durable);
}

#[test]
fn of_several_damaged_epochs_the_first_is_told() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    fill_and_work(&mut journal, 200, 250);
    assert!(reader.stats().unwrap().sealed_epochs > 3);
    journal.close().unwrap();
    let epochs = directory.path().join("epochs");
    let mut sealed: Vec<PathBuf> = fs::read_dir(&epochs)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("SEAL").exists())
        .collect();
    sealed.sort();
    for path in &sealed[1..] {
        fs::write(path.join("sled/db"), b"short").unwrap();
    }
    for background in [false, true] {
        let options = Options { background, ..small() };
        let Err(error) = try_open(directory.path(), options) else {
            panic!("opened");
        };
        let first = sealed[1].display().to_string();
        assert!(error.is_damage() && error.to_string().contains(&first), "{error}");
    }
}

/// The directories of the sealed epochs, in order.
fn sealed_epochs(directory: &Path) -> Vec<PathBuf> {
    let mut sealed: Vec<PathBuf> = fs::read_dir(directory.join("epochs"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("SEAL").exists())
        .collect();
    sealed.sort();
    sealed
}

/// Reads of the file fail with EIO from now on, as if of a bad sector.
fn make_unreadable(path: &Path) {
    fs::remove_file(path).unwrap();
    std::os::unix::fs::symlink("/proc/self/mem", path).unwrap();
}

/// The ledger is refused as damaged, and opened if damage is allowed; then what is damaged is not read as nothing.
fn assert_damaged(directory: &Path) {
    let Err(error) = try_open(directory, small()) else {
        panic!("opened");
    };
    assert!(error.is_damage(), "{error}");
    let options = Options { start_with_damage: true, ..small() };
    let (_journal, reader, recovery) = try_open(directory, options).unwrap();
    assert_eq!(recovery.damaged_epochs.len(), 1);
    let error = read(&reader, 1).unwrap_err();
    assert!(error.is_damage(), "{error}");
}

#[test]
fn a_sector_that_cannot_be_read_is_damage() {
    let (directory, _) = ledger(true);
    make_unreadable(&sealed_epochs(directory.path())[0].join("sled/db"));
    assert_damaged(directory.path());
}

#[test]
fn a_sealed_epoch_without_its_database_is_damaged() {
    let (original, _) = ledger(true);
    for is_emptied in [false, true] {
        let directory = scratch();
        copy(original.path(), directory.path());
        let database = sealed_epochs(directory.path())[0].join("sled");
        fs::remove_dir_all(&database).unwrap();
        if is_emptied {
            fs::create_dir(&database).unwrap();
        }
        assert_damaged(directory.path());
    }
}

#[test]
fn a_sealed_epoch_whose_database_lost_its_entries_is_damaged() {
    let (directory, _) = ledger(true);
    let database = sealed_epochs(directory.path())[0].join("sled");
    for listed in fs::read_dir(&database).unwrap() {
        let path = listed.unwrap().path();
        if path.file_name().unwrap() != "conf" && path.is_file() {
            fs::remove_file(path).unwrap();
        }
    }
    assert_damaged(directory.path());
}

#[test]
fn a_refused_ledger_keeps_the_epochs_that_lost_their_seals() {
    let directory = scratch();
    let (mut journal, _, _) = open(directory.path());
    fill_and_work(&mut journal, 200, 250);
    journal.close().unwrap();
    let sealed = sealed_epochs(directory.path());
    let lost = &sealed[sealed.len() - 2..];
    for epoch in lost {
        fs::remove_file(epoch.join("SEAL")).unwrap();
    }
    let Err(error) = try_open(directory.path(), small()) else {
        panic!("opened");
    };
    assert!(error.is_damage(), "{error}");
    assert!(lost.iter().all(|epoch| epoch.join("sled/db").exists()));
}
