//! Backups of a running daemon, and what is made of them.

use std::{
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tempfile::TempDir;

use super::{checkpoints::quotactl, observe, reserve, set_quota, support::quotad::Quotad};

fn backup(path: &Path, quotad: &Quotad, name: &str) -> (Option<i32>, Value, String) {
    let made = quotactl(path, &["--server", &quotad.api, "-o", "json", "backup", name]);
    let said = serde_json::from_slice(&made.stdout).unwrap_or_default();
    let errors = String::from_utf8(made.stderr).unwrap();
    (made.status.code(), said, errors)
}

fn restore(path: &Path, backup: &str, data: &str) -> (Option<i32>, String) {
    let arguments = ["ledger", "restore", backup, "--data-dir", data];
    let done = quotactl(path, &arguments);
    (done.status.code(), String::from_utf8(done.stderr).unwrap())
}

const QUESTIONS: [&str; 5] = [
    "usage",
    "quotas",
    "reservations",
    "objects",
    "explain?resource=requests.example.com/units&quota=compute",
];

/// What it answers to everything.
pub(crate) fn answers(quotad: &Quotad) -> Vec<Value> {
    let ask = |question: &&str| quotad.ask(&format!("/v1/namespaces/team-a/{question}"));
    QUESTIONS.iter().map(|question| ask(question).1).collect()
}

#[test]
fn a_backup_of_a_busy_daemon_holds_all_that_was_acknowledged() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    // Little is kept, so that epochs are sealed and archived while snapshots come and go.
    let quotad = Quotad::start(
        path,
        &[
            "--journal.segment_bytes=1MiB",
            "--journal.epoch_bytes=1MiB",
            "--snapshot.every_entries=50",
            "--retention.max_bytes=64KiB",
            "--retention.archive_dir=archive",
        ],
    );
    set_quota(&quotad);
    let stop = AtomicBool::new(false);
    // Sequences of what was acknowledged, in the order of the answers.
    let acknowledged = Mutex::new(Vec::new());
    let work = |worker: u32| {
        for number in 0.. {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            let name = format!("w{worker}-{number}");
            let sequence = observe(&quotad, &name, 0);
            acknowledged.lock().unwrap().push(sequence);
            let (status, granted) = reserve(&quotad, &format!("r{name}"), 0);
            assert_eq!(status, 201, "{granted}");
            let sequence = granted["asOf"]["sequence"].as_u64().unwrap();
            acknowledged.lock().unwrap().push(sequence);
        }
    };
    let last = || acknowledged.lock().unwrap().iter().copied().max();
    let made: Vec<(Option<u64>, Value)> = std::thread::scope(|scope| {
        for worker in 0..3 {
            scope.spawn(move || work(worker));
        }
        while !path.join("archive").exists() || acknowledged.lock().unwrap().len() < 600 {
            std::thread::park_timeout(Duration::from_millis(5));
        }
        let take = |number: u32| {
            let before = last();
            let (code, made, said) = backup(path, &quotad, &format!("backup-{number}"));
            assert_eq!(code, Some(0), "{said}");
            assert!(last() > before, "nothing was granted meanwhile");
            (before, made)
        };
        let made = (0..4).map(take).collect();
        stop.store(true, Ordering::Relaxed);
        made
    });
    let (_, metrics) = quotad.ask_admin("/metrics");
    let metric = |name: &str| metrics.lines().find(|line| line.starts_with(name)).unwrap();
    let sequence = &made[3].1["lastSequence"];
    assert_eq!(
        metric("quota_ledger_backup_last_sequence"),
        format!("quota_ledger_backup_last_sequence {sequence}")
    );
    assert_eq!(
        metric("quota_ledger_backup_failures_total"),
        "quota_ledger_backup_failures_total 0"
    );
    assert!(made[3].1["firstSequence"].as_u64() > Some(1), "{made:?}");
    for (number, (before, made)) in made.iter().enumerate() {
        assert!(made["lastSequence"].as_u64() >= *before, "{made} {before:?}");
        let (code, said) = restore(path, &format!("backup-{number}"), &format!("data-{number}"));
        assert_eq!(code, Some(0), "{said}");
        let restored = Quotad::start(path, &[&format!("--data-dir=data-{number}")]);
        let (_, usage) = restored.ask("/v1/namespaces/team-a/usage");
        let sequence = &usage["asOf"]["sequence"];
        assert!(*sequence == made["lastSequence"], "{usage} {made}");
        let then = format!("/v1/namespaces/team-a/usage?sequence={sequence}");
        assert_eq!(quotad.ask(&then), (200, usage));
        assert_eq!(restored.stop().code(), Some(0));
    }
}

#[test]
fn a_restored_daemon_gives_the_same_answers() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let quotad = Quotad::start(path, &["--snapshot.every_entries=4"]);
    set_quota(&quotad);
    for number in 0..10 {
        observe(&quotad, &format!("w{number}"), number % 2);
    }
    assert_eq!(reserve(&quotad, "promised", 2).0, 201);
    assert_eq!(reserve(&quotad, "too-much", 90).0, 403);
    let before = answers(&quotad);
    let (code, made, said) = backup(path, &quotad, "backup");
    assert_eq!(code, Some(0), "{said}");
    assert_eq!(made["lastSequence"], before[0]["asOf"]["sequence"]);
    let (code, _, said) = backup(path, &quotad, "backup");
    assert_eq!(code, Some(12), "{said}");
    observe(&quotad, "later", 1);
    assert_eq!(quotad.stop().code(), Some(0));
    let (code, said) = restore(path, "backup", "restored");
    assert_eq!(code, Some(0), "{said}");
    let quotad = Quotad::start(path, &["--data-dir=restored"]);
    assert_eq!(answers(&quotad), before);
    assert_eq!(reserve(&quotad, "promised", 2).0, 200, "it is remembered");
    assert_eq!(quotad.stop().code(), Some(0));
    let (code, said) = restore(path, "backup", "restored");
    assert_eq!(code, Some(12), "{said}");
    let (code, said) = restore(path, "nothing", "other");
    assert_eq!(code, Some(11), "{said}");
    assert!(!path.join("other").exists() && !path.join("other.partial").exists());
}

#[test]
fn a_damaged_backup_is_not_restored() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    let quotad = Quotad::start(path, &["--snapshot.every_entries=2"]);
    set_quota(&quotad);
    for number in 0..5 {
        observe(&quotad, &format!("w{number}"), 1);
    }
    assert_eq!(quotad.stop().code(), Some(0));
    let quotad = Quotad::start(path, &[]);
    let (code, made, said) = backup(path, &quotad, "backup");
    assert_eq!((code, made["snapshots"].as_u64() > Some(0)), (Some(0), true), "{said}");
    assert_eq!(quotad.stop().code(), Some(0));
    let backup = path.join("backup");
    let first = |directory: &str| {
        let mut found = std::fs::read_dir(backup.join(directory)).unwrap();
        let file = found.next().unwrap().unwrap().path();
        file.strip_prefix(path).unwrap().to_path_buf()
    };
    for file in [first("log"), first("snapshots"), "backup/LEDGER".into()] {
        let right = std::fs::read(path.join(&file)).unwrap();
        let mut wrong = right.clone();
        wrong[100.min(right.len() - 1)] ^= 1;
        std::fs::write(path.join(&file), wrong).unwrap();
        let (code, said) = restore(path, "backup", "restored");
        assert_eq!(code, Some(4), "{said}");
        assert!(said.contains(&file.display().to_string()), "{said}");
        assert!(!path.join("restored").exists() && !path.join("restored.partial").exists());
        std::fs::write(path.join(&file), right).unwrap();
    }
    assert_eq!(restore(path, "backup", "restored").0, Some(0));
}

#[test]
fn a_backup_that_was_cut_off_is_none() {
    let directory = TempDir::new().unwrap();
    let path = directory.path();
    // A daemon that ends in the middle of its answer.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let daemon = std::thread::spawn(move || {
        use std::io::{Read as _, Write as _};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let head = "HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nQLK\u{1}";
        stream.write_all(head.as_bytes()).unwrap();
    });
    let made = quotactl(path, &["--server", &url, "backup", "backup"]);
    daemon.join().unwrap();
    let said = String::from_utf8(made.stderr).unwrap();
    assert_eq!(made.status.code(), Some(1), "{said}");
    assert!(said.contains("at byte 0: cut off"), "{said}");
    assert_eq!(std::fs::read_dir(path).unwrap().count(), 0);
}
