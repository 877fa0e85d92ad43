//! Checkpoints: signed by the daemon, held against the ledger by `quotactl` and by the next start.

use std::{
    path::Path,
    process::{Command, Output},
};

use tempfile::TempDir;

use super::{
    observe, set_quota,
    support::quotad::{Quotad, command},
};

pub(crate) fn quotactl(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(crate::support::programs::quotactl())
        .current_dir(directory)
        .env_clear()
        .args(arguments)
        .output()
        .unwrap()
}

fn verify(directory: &Path, data: &str) -> (Option<i32>, String) {
    let arguments = [
        "ledger",
        "verify",
        "--data-dir",
        data,
        "--checkpoint",
        "checkpoints",
        "--public-key",
        "key.pub",
    ];
    let output = quotactl(directory, &arguments);
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

const SIGNING: [&str; 3] =
    ["--checkpoint.key_file=key", "--checkpoint.file=checkpoints", "--checkpoint.every_entries=2"];

/// A ledger with signed checkpoints, closed in order.
fn signed() -> TempDir {
    let directory = TempDir::new().unwrap();
    let made =
        quotactl(directory.path(), &["ledger", "keygen", "key", "--origin", "ledger.example.com"]);
    assert!(made.status.success(), "{made:?}");
    let quotad = Quotad::start(directory.path(), &SIGNING);
    set_quota(&quotad);
    for number in 0..5 {
        observe(&quotad, &format!("w{number}"), 1);
    }
    assert_eq!(quotad.stop().code(), Some(0));
    directory
}

fn copy(directory: &Path, from: &str, to: &str) {
    let copied = Command::new("cp").current_dir(directory).args(["-r", from, to]).status().unwrap();
    assert!(copied.success());
}

#[test]
fn a_ledger_is_proven_to_extend_its_checkpoints() {
    let directory = signed();
    let path = directory.path();
    let (code, said) = verify(path, "data");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("the ledger extends"), "{said}");
    let quotad = Quotad::start(path, &SIGNING);
    observe(&quotad, "later", 1);
    assert_eq!(quotad.stop().code(), Some(0));
    assert_eq!(verify(path, "data").0, Some(0));
    let notes = std::fs::read_to_string(path.join("checkpoints")).unwrap();
    assert!(notes.starts_with("ledger.example.com\n"));
    std::fs::write(path.join("checkpoints"), notes.replacen("\ntime 20", "\ntime 19", 1)).unwrap();
    let (code, said) = verify(path, "data");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("is wrong"), "{said}");
}

#[test]
fn who_asks_for_a_proof_and_has_no_whole_checkpoints_is_told_so() {
    let directory = signed();
    let file = directory.path().join("checkpoints");
    let whole = std::fs::read_to_string(&file).unwrap();
    let refusal = |what: &str| {
        let (code, said) = verify(directory.path(), "data");
        assert_eq!(code, Some(4), "{what}: {said}");
        assert!(said.contains("checkpoints: "), "{what}: {said}");
        said
    };
    for cut in [3, 10, whole.len() / 2] {
        std::fs::write(&file, &whole[..whole.len() - cut]).unwrap();
        assert!(refusal("cut").contains("cut off"));
    }
    std::fs::write(&file, &whole[..20]).unwrap();
    assert!(refusal("the first is cut").contains("cut off"));
    std::fs::write(&file, "").unwrap();
    assert!(refusal("empty").contains("it holds no checkpoint"));
    std::fs::remove_file(&file).unwrap();
    assert!(refusal("missing").contains("No such file"));
    std::fs::create_dir(&file).unwrap();
    refusal("a directory");
}

/// The exit code of a daemon that does not get as far as serving.
fn refused(path: &Path, arguments: &[&str]) -> Option<i32> {
    let ended = Quotad::try_start(path, command(path).args(arguments)).err();
    ended.unwrap().status.code()
}

#[test]
fn a_ledger_that_was_rolled_back_is_reported_and_not_served() {
    let directory = signed();
    let path = directory.path();
    copy(path, "data", "older");
    let quotad = Quotad::start(path, &SIGNING);
    observe(&quotad, "later", 1);
    assert_eq!(quotad.stop().code(), Some(0));
    let (code, said) = verify(path, "older");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("the ledger ends with sequence"), "{said}");
    std::fs::remove_dir_all(path.join("data")).unwrap();
    std::fs::rename(path.join("older"), path.join("data")).unwrap();
    assert_eq!(refused(path, &SIGNING), Some(4));
}

#[test]
fn another_history_of_the_same_length_is_reported() {
    let directory = signed();
    let path = directory.path();
    std::fs::rename(path.join("data"), path.join("signed")).unwrap();
    let quotad = Quotad::start(path, &[]);
    set_quota(&quotad);
    for number in 0..9 {
        observe(&quotad, &format!("other{number}"), 1);
    }
    assert_eq!(quotad.stop().code(), Some(0));
    let (code, said) = verify(path, "data");
    assert_eq!(code, Some(4), "{said}");
    assert!(said.contains("was signed"), "{said}");
    assert_eq!(refused(path, &SIGNING), Some(4));
    let key_in_data = [SIGNING[0], "--checkpoint.file=data/checkpoints"];
    assert_eq!(refused(path, &key_in_data), Some(3));
}
