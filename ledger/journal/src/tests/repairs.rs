//! A repair that is cut off: the next one goes on with what is left.

use super::*;
use crate::{Repair, repair};

const LAST: u64 = 200;

/// A ledger with several sealed epochs; their directories, oldest first.
fn ledger() -> (tempfile::TempDir, Vec<PathBuf>) {
    let directory = scratch();
    let (mut journal, _, _) = open(directory.path());
    fill_and_work(&mut journal, LAST, 250);
    journal.close().unwrap();
    let listed = fs::read_dir(directory.path().join("epochs")).unwrap();
    let mut sealed: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    sealed.retain(|path| path.join("SEAL").exists());
    sealed.sort();
    assert!(sealed.len() > 3);
    (directory, sealed)
}

/// Damages an epoch whose entries can all be read.
fn touch(epoch: &Path) {
    fs::write(epoch.join("sled/more"), "x").unwrap();
}

fn repaired(directory: &Path) -> Repair {
    repair(Arc::new(RealDisk), directory, None).unwrap()
}

/// The directory in which an epoch was made.
fn making(directory: &Path, epoch: &Path) -> PathBuf {
    directory.join("repair").join(epoch.file_name().unwrap())
}

/// Repairs an epoch from itself, and puts back what has been done since it was made again and set aside.
fn cut_off_behind_the_setting_aside(directory: &Path, epoch: &Path) {
    let aside = repaired(directory).made.pop().unwrap().aside;
    assert_eq!(aside, [directory.join("damaged").join(epoch.file_name().unwrap())]);
    fs::create_dir(directory.join("repair")).unwrap();
    fs::rename(epoch, making(directory, epoch)).unwrap();
}

fn assert_whole(directory: &Path) {
    let (_journal, reader, recovery) = open(directory);
    assert_eq!(recovery.durable.sequence, LAST);
    assert_holds(&reader, LAST, 250);
    assert!(!directory.join("repair").exists());
}

#[test]
fn an_epoch_that_was_made_again_is_put_in_its_place_later() {
    let (directory, sealed) = ledger();
    let (directory, epoch) = (directory.path(), &sealed[1]);
    touch(epoch);
    cut_off_behind_the_setting_aside(directory, epoch);
    let repair = repaired(directory);
    assert_eq!(repair.left, []);
    assert_eq!(repair.made.len(), 1, "{repair:?}");
    assert_eq!(repair.made[0].from, making(directory, epoch));
    assert_eq!(repair.made[0].aside, Vec::<PathBuf>::new());
    assert_whole(directory);
}

#[test]
fn an_epoch_that_was_made_again_is_not_lost_to_damage_before_it() {
    let (directory, sealed) = ledger();
    let (directory, epoch) = (directory.path(), &sealed[2]);
    touch(epoch);
    cut_off_behind_the_setting_aside(directory, epoch);
    let elsewhere = directory.join("elsewhere");
    fs::rename(&sealed[1], &elsewhere).unwrap();
    let repair = repaired(directory);
    assert_eq!((repair.made.len(), repair.left.len()), (1, 1), "{repair:?}");
    fs::rename(&elsewhere, &sealed[1]).unwrap();
    assert_whole(directory);
}

#[test]
fn what_was_not_made_to_the_end_is_made_anew() {
    let (directory, sealed) = ledger();
    let (directory, epoch) = (directory.path(), &sealed[1]);
    touch(epoch);
    for file in ["SEAL", "sled/db"] {
        copy(epoch, &making(directory, epoch));
        fs::write(making(directory, epoch).join(file), "short").unwrap();
        let repair = repaired(directory);
        assert_eq!((repair.made.len(), repair.left.len()), (1, 0), "{repair:?}");
        assert_eq!(repair.made[0].from, *epoch);
        touch(epoch);
    }
    assert_eq!(repaired(directory).made.len(), 1);
    assert_whole(directory);
}

/// Removes everything behind an epoch, and it too unless it is kept elsewhere.
fn lose_the_end(directory: &Path, sealed: &[PathBuf]) {
    fs::remove_dir_all(directory.join("log")).unwrap();
    let last = sealed.last().unwrap();
    for entry in fs::read_dir(directory.join("epochs")).unwrap() {
        let path = entry.unwrap().path();
        if path >= *last {
            fs::remove_dir_all(path).unwrap();
        }
    }
}

#[test]
fn a_missing_end_is_reported_and_made_again_from_a_copy() {
    let (directory, sealed) = ledger();
    let (directory, other) = (directory.path(), scratch());
    copy(directory, &other.path().join("copy"));
    lose_the_end(directory, &sealed);
    let last = sealed.last().unwrap().file_name().unwrap();
    let first: u64 = last.to_str().unwrap().parse().unwrap();
    let repair = repaired(directory);
    assert_eq!((repair.made.len(), repair.left.len()), (0, 1), "{repair:?}");
    let left = &repair.left[0];
    assert_eq!((left.sequence, left.through), (Some(first), Some(LAST)));

    let from = other.path().join("copy");
    let repair = crate::repair(Arc::new(RealDisk), directory, Some(&from)).unwrap();
    assert_eq!((repair.made.len(), repair.left.len()), (1, 0), "{repair:?}");
    assert_whole(directory);
}

#[test]
fn a_last_epoch_that_was_made_again_is_put_in_its_place_later() {
    for is_noted in [true, false] {
        let (directory, sealed) = ledger();
        let (directory, epoch) = (directory.path(), sealed.last().unwrap());
        touch(epoch);
        cut_off_behind_the_setting_aside(directory, epoch);
        lose_the_end(directory, &sealed);
        if !is_noted {
            fs::remove_file(directory.join("anchor")).unwrap();
        }
        let repair = repaired(directory);
        assert_eq!(repair.made.len(), 1, "{repair:?}");
        assert_eq!(repair.made[0].from, making(directory, epoch));
        assert_eq!(repair.left.len(), usize::from(is_noted), "{repair:?}");
        assert!(epoch.join("SEAL").exists());
    }
}
