//! A sealed epoch with a flipped bit: what reads the ledger leaves every byte as it is.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use quota_core::{
    codec::encode_entries,
    event::{Actor, DeadLetter, Entry, Event},
    state::State,
};
use quota_journal::{Batch, FileJournal, Journal as _, Options, disk::RealDisk};
use quota_semantics::{Span, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    Run, run,
    support::quotad::{self, Quotad},
};

/// A ledger of 200 entries with several sealed epochs and a snapshot of entry 150, closed in order.
fn ledger() -> TempDir {
    // What does not compress.
    ledger_of(|sequence| {
        (0..8).map(|part| blake3::hash(&(sequence * 8 + part).to_le_bytes()).to_string()).collect()
    })
}

/// The same with other payloads.
fn ledger_of(payload: impl Fn(i64) -> String) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 4096,
        epoch_bytes: 12_000,
        background: false,
        ..Options::default()
    };
    let data = directory.path().join("data");
    let (mut journal, reader, _) = FileJournal::open(Arc::new(RealDisk), &data, options).unwrap();
    let mut state = State::default();
    for sequence in 1..=200 {
        let time = Timestamp::EPOCH.plus(Span::from_seconds(sequence));
        let letter = DeadLetter {
            source: "OBJECTS".into(),
            position: sequence.cast_unsigned(),
            reason: "no".into(),
            payload: payload(sequence).into(),
        };
        let entry = Entry {
            sequence: sequence.cast_unsigned(),
            time,
            actor: Actor::named("test"),
            event: Event::MessageRejected(Box::new(letter)),
        };
        state.apply(&entry);
        let batch = Batch {
            first_sequence: entry.sequence,
            count: 1,
            time,
            payload: encode_entries(&[entry]),
        };
        journal.append(batch).unwrap();
        let durable = journal.sync().unwrap();
        while journal.work().unwrap() {}
        if sequence == 150 {
            let mut writer = reader.snapshots().create(durable).unwrap();
            state.image().write(&mut writer).unwrap();
            writer.finish().unwrap();
        }
    }
    journal.close().unwrap();
    directory
}

/// Every file below a directory, with its content and when it was changed.
fn contents(directory: &Path) -> Vec<(PathBuf, std::time::SystemTime, Vec<u8>)> {
    let mut all = Vec::new();
    let mut todo = vec![directory.to_path_buf()];
    while let Some(path) = todo.pop() {
        let changed = fs::metadata(&path).unwrap().modified().unwrap();
        if path.is_dir() {
            all.push((path.clone(), changed, Vec::new()));
            todo.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
        } else {
            let bytes = fs::read(&path).unwrap();
            all.push((path, changed, bytes));
        }
    }
    all.sort();
    all
}

/// The sealed epochs' directories, oldest first.
fn sealed(data: &Path) -> Vec<PathBuf> {
    let listed = fs::read_dir(data.join("epochs")).unwrap();
    let mut sealed: Vec<PathBuf> = listed.map(|entry| entry.unwrap().path()).collect();
    sealed.retain(|path| path.join("SEAL").exists());
    sealed.sort();
    sealed
}

/// Flips a bit in the middle of what a database holds.
fn flip(epoch: &Path) {
    let path = epoch.join("sled/db");
    let mut bytes = fs::read(&path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap();
    bytes[end / 2] ^= 1;
    fs::write(&path, bytes).unwrap();
}

fn offline(arguments: &str, data: &Path) -> Run {
    run("http://127.0.0.1:1", &format!("ledger {arguments} --data-dir {}", data.display()))
}

/// The entries that an epoch holds, by the names of the directories.
fn span(epochs: &[PathBuf], number: usize) -> (u64, u64) {
    let first = |epoch: &PathBuf| -> u64 {
        let name = epoch.file_name().unwrap().to_str().unwrap();
        name.parse().unwrap()
    };
    (first(&epochs[number]), first(&epochs[number + 1]) - 1)
}

/// A ledger whose second epoch is damaged; its data directory, the epoch's entries, and what everything is.
struct Damaged {
    home: TempDir,
    data: PathBuf,
    epoch: PathBuf,
    span: (u64, u64),
}

fn damaged() -> Damaged {
    let home = ledger();
    let data = home.path().join("data");
    let epochs = sealed(&data);
    assert!(epochs.len() >= 4, "{epochs:?}");
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .arg(&data)
        .arg(home.path().join("copy"))
        .status();
    assert!(copied.unwrap().success());
    flip(&epochs[1]);
    Damaged { data, epoch: epochs[1].clone(), span: span(&epochs, 1), home }
}

/// The sequences of the entries that were printed.
fn sequences(dumped: &str) -> Vec<u64> {
    let sequence = |line: &str| {
        let entry: Value = serde_json::from_str(line).unwrap();
        entry["sequence"].as_u64().unwrap()
    };
    dumped.lines().map(sequence).collect()
}

#[test]
fn nothing_that_reads_a_damaged_ledger_changes_it() {
    let ledger = damaged();
    let before = contents(&ledger.data);
    for arguments in ["verify", "stat", "dump", "export -", "replay"] {
        let run = offline(arguments, &ledger.data);
        assert_eq!(run.code, 4, "{arguments}: {run:?}");
        assert!(contents(&ledger.data) == before, "{arguments} changed the ledger");
    }
    // So putting the byte back helps.
    flip(&ledger.epoch);
    let run = offline("verify", &ledger.data);
    assert_eq!(run.code, 0, "{run:?}");
}

#[test]
fn damage_is_told_with_its_place_and_the_rest_can_be_read() {
    let ledger = damaged();
    let (first, last) = ledger.span;
    let run = offline("verify -o json", &ledger.data);
    let found: Value = serde_json::from_str(&run.out).unwrap();
    let file = ledger.epoch.join("sled/db");
    let of_file = found["damages"].as_array().unwrap().iter();
    let mut of_file = of_file.filter(|damage| damage["file"] == *file.to_str().unwrap());
    let damage = of_file.next().unwrap();
    assert_eq!((&damage["sequence"], &damage["through"]), (&first.into(), &last.into()));
    assert!(damage["offset"].is_u64());
    assert!(run.err.contains("quotactl ledger repair --from"), "{}", run.err);

    let dumped = offline("dump", &ledger.data);
    let read = sequences(&dumped.out);
    let expected = |read: &u64| (1..first).contains(read) || (last + 1..=200).contains(read);
    let outside: Vec<u64> = read.iter().copied().filter(expected).collect();
    let all: Vec<u64> = (1..first).chain(last + 1..=200).collect();
    assert_eq!(outside, all);
    assert!(dumped.err.contains(&format!("to {last})")), "{}", dumped.err);
    let behind = offline(&format!("dump --from {}", last + 1), &ledger.data);
    assert_eq!((behind.code, behind.err.as_str()), (0, ""));
    let replayed = offline("replay -o json", &ledger.data);
    assert_eq!(replayed.code, 4);
    let state: Value = serde_json::from_str(&replayed.out).unwrap();
    assert_eq!(state["asOf"]["sequence"], 200);
}

#[test]
fn a_damaged_epoch_is_made_again_from_a_copy() {
    let ledger = damaged();
    let whole = offline("replay -o json", &ledger.home.path().join("copy"));
    let alone = offline("repair", &ledger.data);
    assert_eq!(alone.code, 4, "{alone:?}");
    assert!(alone.err.contains("hint: --from"), "{}", alone.err);
    let bytes = fs::read(ledger.epoch.join("sled/db")).unwrap();

    let from = format!("repair --from {}", ledger.home.path().join("copy").display());
    let repaired = offline(&format!("{from} -o json"), &ledger.data);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    let made: Value = serde_json::from_str(&repaired.out).unwrap();
    assert_eq!(made["repaired"][0]["firstSequence"], ledger.span.0);
    let aside = made["repaired"][0]["setAside"][0].as_str().unwrap();
    assert!(fs::read(Path::new(aside).join("sled/db")).unwrap() == bytes);
    let again = offline(&from, &ledger.data);
    assert!(again.code == 0 && again.out.starts_with("no sealed epoch"), "{again:?}");

    let verified = offline("verify", &ledger.data);
    assert_eq!(verified.code, 0, "{verified:?}");
    let replayed = offline("replay -o json", &ledger.data);
    assert_eq!(replayed.out, whole.out);
}

#[test]
fn an_epoch_that_was_removed_is_made_again_and_another_history_is_not_taken() {
    let ledger = damaged();
    let from = format!("repair --from {}", ledger.home.path().join("copy").display());
    fs::remove_dir_all(&ledger.epoch).unwrap();
    let run = offline("verify", &ledger.data);
    assert_eq!(run.code, 4);
    let other = self::ledger_of(|_| "another".to_owned());
    let wrong = format!("repair --from {}", other.path().join("data").display());
    assert_eq!(offline(&wrong, &ledger.data).code, 4);
    assert_eq!(offline(&from, &ledger.data).code, 0);
    assert_eq!(offline("verify", &ledger.data).code, 0);
}

#[test]
fn a_ledger_is_verified_where_nothing_can_be_written() {
    let directory = ledger();
    let data = directory.path().join("data");
    fs::remove_file(data.join("LOCK")).unwrap();
    let before = contents(&data);
    for arguments in ["verify", "stat", "dump", "replay", "export -"] {
        let run = unprivileged(arguments, directory.path(), &data);
        assert_eq!(run.code, 0, "{arguments}: {run:?}");
        assert!(contents(&data) == before, "{arguments} changed something");
    }
}

fn owner(path: &Path) -> u32 {
    std::os::unix::fs::MetadataExt::uid(&fs::metadata(path).unwrap())
}

#[test]
fn what_root_makes_belongs_to_the_user_of_the_directory() {
    const USER: u32 = 65534;
    if owner(Path::new("/proc/self")) != 0 {
        return;
    }
    let ledger = damaged();
    let home = ledger.home.path();
    for (path, _, _) in contents(home) {
        std::os::unix::fs::chown(path, Some(USER), Some(USER)).unwrap();
    }
    let [copy, restored, text, imported] =
        ["copy", "restored", "text", "imported"].map(|name| home.join(name));
    for (command, data) in [
        (format!("repair --from {}", copy.display()), &ledger.data),
        (format!("restore {}", copy.display()), &restored),
        (format!("export {}", text.display()), &copy),
        (format!("import {}", text.display()), &imported),
    ] {
        let run = offline(&command, data);
        assert_eq!(run.code, 0, "{command}: {run:?}");
    }
    for data in [&ledger.data, &restored, &imported] {
        for (path, _, _) in contents(data) {
            assert_eq!(owner(&path), USER, "{}", path.display());
        }
    }
}

/// Runs a command that can read the directory and cannot write to it: as somebody else, if this is root.
fn unprivileged(arguments: &str, home: &Path, data: &Path) -> Run {
    use std::os::unix::fs::PermissionsExt as _;
    let chmod = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    chmod(home, 0o755);
    let mut paths = vec![data.to_path_buf()];
    let mut kept = Vec::new();
    while let Some(path) = paths.pop() {
        let metadata = fs::metadata(&path).unwrap();
        kept.push((path.clone(), metadata.permissions()));
        if metadata.is_dir() {
            paths.extend(fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().path()));
            chmod(&path, 0o555);
        } else {
            chmod(&path, 0o444);
        }
    }
    let scratch = tempfile::tempdir().unwrap();
    chmod(scratch.path(), 0o777);
    // Where the program is built, somebody else may not look.
    let program = scratch.path().join("quotactl");
    fs::copy(crate::support::programs::quotactl(), &program).unwrap();
    let mut command = match owner(Path::new("/proc/self")) == 0 {
        true => {
            let mut command = std::process::Command::new("setpriv");
            command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
            command.arg(&program);
            command
        }
        false => std::process::Command::new(&program),
    };
    command.arg("ledger").args(arguments.split_whitespace());
    command.arg("--data-dir").arg(data);
    command.env("TMPDIR", scratch.path()).current_dir("/");
    let output = command.output().unwrap();
    for (path, permissions) in kept {
        fs::set_permissions(&path, permissions).unwrap();
    }
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

#[test]
fn a_daemon_with_a_damaged_epoch_says_so_and_serves_the_rest_if_it_is_told_to() {
    let ledger = damaged();
    let (first, last) = ledger.span;
    let before = fs::read(ledger.epoch.join("sled/db")).unwrap();
    let home = ledger.home.path();
    let mut command = quotad::command(home);
    let refused = Quotad::try_start(home, &mut command).err().unwrap();
    let said = refused.said;
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains(&format!("to {last})")), "{said}");
    assert!(said.contains("quotactl ledger repair --from"), "{said}");

    let quotad = Quotad::start(home, &["--ledger.start_with_damage=true"]);
    let behind = quotad.get(&format!("/v1/entries?from={}&limit=1", last + 1));
    assert_eq!(behind["items"][0]["sequence"], last + 1);
    quotad.get("/v1/namespaces/team-a/usage");
    let url = format!("{}/v1/entries?from={first}&limit=500", quotad.api);
    let mut response = quotad::agent(quotad::REQUEST).get(url).call().unwrap();
    let answer = response.body_mut().read_to_string().unwrap();
    assert_eq!(response.status(), 500, "{answer}");
    assert!(answer.contains(&format!("to {last} are damaged")), "{answer}");
    assert_eq!(quotad.stop().code(), Some(0));
    assert!(fs::read(ledger.epoch.join("sled/db")).unwrap() == before);
}
