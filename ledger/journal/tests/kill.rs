//! A real process, killed at any moment, on the real disk and with the real sled: all acknowledged entries are there
//! again. The test runs itself as the process to be killed.

#![allow(clippy::unwrap_used, reason = "a test: an unexpected result ends it")]

use std::{
    ffi::OsStr,
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Command, Stdio},
    sync::Arc,
};

use quota_journal::{
    Batch, FileJournal, FileReader, Journal, Options, Reader, Recovery, Retention, disk::RealDisk,
    verify,
};
use quota_semantics::Timestamp;

/// The environment variable with the data directory for the process that is to be killed.
const DIRECTORY: &str = "QUOTA_LEDGER_KILL_TEST_DIRECTORY";

const ROUNDS: u64 = 40;

fn main() {
    match std::env::var_os(DIRECTORY) {
        Some(directory) => write_until_killed(Path::new(&directory)),
        None => kill_again_and_again(),
    }
}

fn open(directory: &Path) -> (FileJournal, FileReader, Recovery) {
    // Small, so that segments, epochs and compactions are frequent.
    let options =
        Options { segment_bytes: 64 * 1024, epoch_bytes: 128 * 1024, ..Options::default() };
    FileJournal::open(Arc::new(RealDisk), directory, options).unwrap()
}

fn batch(first_sequence: u64) -> Batch {
    let length = first_sequence.wrapping_mul(2_654_435_761) % 3000;
    let mut payload = vec![0; usize::try_from(length).unwrap()];
    blake3::Hasher::new().update(&first_sequence.to_le_bytes()).finalize_xof().fill(&mut payload);
    Batch {
        first_sequence,
        count: 3,
        time: Timestamp::from_nanoseconds(first_sequence.cast_signed()),
        payload,
    }
}

fn write_until_killed(directory: &Path) {
    let (mut journal, reader, recovery) = open(directory);
    let mut next = recovery.durable.sequence + 1;
    let mut out = std::io::stdout().lock();
    for round in 0.. {
        for _ in 0..=round % 4 {
            journal.append(batch(next)).unwrap();
            next += 3;
        }
        let durable = journal.sync().unwrap();
        writeln!(out, "{}", durable.sequence).unwrap();
        if round % 16 == 7 {
            let mut snapshot = reader.snapshots().create(durable).unwrap();
            snapshot.write_all(&[1; 50_000]).unwrap();
            snapshot.finish().unwrap();
            let retention = Retention { max_age: None, max_bytes: Some(2 * 1024 * 1024) };
            reader.compact(durable.time, &retention).unwrap();
        }
    }
}

/// Runs the process until it has acknowledged this many groups, kills it, and returns the last acknowledged sequence.
fn run_and_kill(directory: &OsStr, groups: u64) -> Option<u64> {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .env(DIRECTORY, directory)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(process.stdout.take().unwrap()).split(b'\n');
    let mut acknowledged = None;
    let mut take = |line: Option<std::io::Result<Vec<u8>>>| {
        let line = String::from_utf8(line?.unwrap()).unwrap();
        acknowledged = Some(line.parse().unwrap());
        acknowledged
    };
    for _ in 0..groups {
        assert!(take(lines.next()).is_some(), "it died of itself");
    }
    process.kill().unwrap();
    while take(lines.next()).is_some() {}
    assert!(!process.wait().unwrap().success());
    acknowledged
}

fn kill_again_and_again() {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data");
    let mut acknowledged = 0;
    for round in 0..ROUNDS {
        let groups = round * 37 % 61;
        acknowledged = run_and_kill(data.as_os_str(), groups).unwrap_or(acknowledged);
        if round % 3 == 0 {
            // Killed several times before the check.
            continue;
        }
        let (journal, reader, recovery) = open(&data);
        assert!(recovery.durable.sequence >= acknowledged, "round {round}");
        assert_eq!(recovery.damaged_snapshots, []);
        let mut next = reader.first_sequence();
        for stored in reader.read(next) {
            assert_eq!(stored.unwrap().batch, batch(next), "round {round}");
            next += 3;
        }
        assert_eq!(next, recovery.durable.sequence + 1);
        acknowledged = recovery.durable.sequence;
        drop(journal);
    }
    let found = verify(Arc::new(RealDisk), &data, None, 1, &()).unwrap();
    assert_eq!(found.damages, []);
    assert!(found.first_sequence > 1, "nothing was compacted");
    println!("killed {ROUNDS} times; {acknowledged} entries, all that were acknowledged");
}
