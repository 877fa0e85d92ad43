//! What a ledger lets happen to itself: one daemon at a time, no damage unnoticed, an orderly end.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{
    PATIENCE,
    quotad::{Quotad, agent, command},
};

const OBJECTS: usize = 30;

/// Starts a daemon and has it acknowledge objects, each in a batch of its own.
fn with_objects(directory: &Path) -> Quotad {
    let daemon = Quotad::start(directory, &[]);
    let agent = agent(PATIENCE);
    for number in 0..OBJECTS {
        let event = json!({
            "type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com",
            "name": format!("widget-{number}."), "uid": format!("u-{number}")
        });
        let answer = agent
            .post(format!("{}/v1/events", daemon.api))
            .content_type("application/x-ndjson")
            .send(event.to_string());
        let mut answer = answer.unwrap();
        let text = answer.body_mut().read_to_string().unwrap();
        assert_eq!(answer.status(), 200, "{text}");
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["accepted"], 1, "{text}");
    }
    daemon
}

/// How a daemon ends that does not get as far as serving, and what it says.
fn refused(directory: &Path) -> (Option<i32>, String) {
    let output = command(directory).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_second_daemon_on_the_same_ledger_is_refused() {
    let directory = TempDir::new().unwrap();
    let first = with_objects(directory.path());
    let (code, said) = refused(directory.path());
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("data directory data is in use"), "{said}");
    // The first one does not mind.
    let (objects, _) = first.list("/v1/namespaces/team-a/objects");
    assert_eq!(objects.len(), OBJECTS);
    first.kill();
    let second = Quotad::start(directory.path(), &[]);
    let (objects, _) = second.list("/v1/namespaces/team-a/objects");
    assert_eq!(objects.len(), OBJECTS);
}

#[test]
fn a_damaged_entry_is_noticed_and_named() {
    for number in [0, OBJECTS / 2, OBJECTS - 1] {
        let directory = TempDir::new().unwrap();
        with_objects(directory.path()).kill();
        let file = flip(directory.path(), &format!("widget-{number}."));
        let (code, said) = refused(directory.path());
        assert_eq!(code, Some(4), "{said}");
        let name = file.file_name().unwrap().to_str().unwrap();
        assert!(said.contains(name), "{name}: {said}");
    }
}

/// Changes one bit of this text, where it is in the write-ahead log.
fn flip(directory: &Path, text: &str) -> PathBuf {
    let mut changed = None;
    for entry in std::fs::read_dir(directory.join("data/log")).unwrap() {
        let path = entry.unwrap().path();
        let mut bytes = std::fs::read(&path).unwrap();
        let found = bytes.windows(text.len()).position(|window| window == text.as_bytes());
        if let Some(place) = found {
            bytes[place] ^= 1;
            std::fs::write(&path, bytes).unwrap();
            changed = Some(path);
        }
    }
    changed.expect("the text stands in the write-ahead log")
}

#[test]
fn it_leaves_a_snapshot_when_it_is_told_to_stop() {
    let directory = TempDir::new().unwrap();
    let daemon = with_objects(directory.path());
    let (_, sequence) = daemon.list("/v1/entries");
    assert_eq!(daemon.stop().code(), Some(0));
    let snapshots = std::fs::read_dir(directory.path().join("data/snapshots")).unwrap();
    assert_eq!(snapshots.count(), 1);
    let again = Quotad::start(directory.path(), &[]);
    let log = std::fs::read_to_string(directory.path().join("quotad.log")).unwrap();
    let mut lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let recovered = lines.rfind(|line| line["message"] == "recovered").unwrap();
    assert_eq!(recovered["from_snapshot"], sequence, "{recovered}");
    assert_eq!(recovered["replayed"], 0, "{recovered}");
    let (objects, _) = again.list("/v1/namespaces/team-a/objects");
    assert_eq!(objects.len(), OBJECTS);
    assert_eq!(again.stop().code(), Some(0));
}
