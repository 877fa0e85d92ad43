//! Ledgers of which the first entries were compacted away.

use std::{fs, path::Path, sync::Arc};

use quota_core::{
    codec::encode_entries,
    event::{Actor, DeadLetter, Entry, Event},
    state::State,
};
use quota_journal::{Batch, FileJournal, Hash, Journal, Options, Retention, disk::RealDisk};
use quota_semantics::{Span, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

use super::{Run, run, run_with};

fn time(sequence: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(sequence.cast_signed()))
}

fn entry(sequence: u64) -> Entry {
    let letter = DeadLetter {
        source: "OBJECTS".into(),
        position: sequence,
        reason: "no".into(),
        payload: "x".repeat(250).into(),
    };
    Entry {
        sequence,
        time: time(sequence),
        actor: Actor::named("test"),
        event: Event::MessageRejected(Box::new(letter)),
    }
}

/// A ledger of 160 entries, of which the first ones are only in the archive; and the digest of its state.
fn ledger() -> (TempDir, String) {
    let directory = tempfile::tempdir().unwrap();
    let options = Options {
        segment_bytes: 4096,
        epoch_bytes: 6000,
        background: false,
        archive: Some(directory.path().join("archive")),
        ..Options::default()
    };
    let data = directory.path().join("data");
    let (mut journal, reader, _) = FileJournal::open(Arc::new(RealDisk), &data, options).unwrap();
    let mut state = State::default();
    for sequence in 1..=160 {
        let entry = entry(sequence);
        state.apply(&entry);
        let payload = encode_entries(&[entry]);
        journal
            .append(Batch { first_sequence: sequence, count: 1, time: time(sequence), payload })
            .unwrap();
        let durable = journal.sync().unwrap();
        while journal.work().unwrap() {}
        if [100, 130].contains(&sequence) {
            let mut writer = reader.snapshots().create(durable).unwrap();
            state.image().write(&mut writer).unwrap();
            writer.finish().unwrap();
        }
    }
    let retention = Retention { max_age: Some(Span::from_seconds(60)), max_bytes: None };
    assert!(reader.compact(time(160), &retention).unwrap().archived > 0);
    journal.close().unwrap();
    (directory, Hash::from_bytes(state.digest()).to_string())
}

fn offline(arguments: &str, directory: &Path) -> Run {
    let data = directory.join("data");
    run("http://127.0.0.1:1", &format!("ledger {arguments} --data-dir {}", data.display()))
}

fn with_archive(arguments: &str, directory: &Path) -> Run {
    let archive = directory.join("archive");
    offline(&format!("{arguments} --archive {}", archive.display()), directory)
}

fn json(run: &Run) -> Value {
    assert_eq!(run.code, 0, "{run:?}");
    serde_json::from_str(&run.out).unwrap()
}

#[test]
fn a_replay_begins_with_the_archive_or_with_a_snapshot() {
    let (directory, digest) = ledger();
    let whole = with_archive("replay -o json", directory.path());
    assert_eq!((&json(&whole)["digest"], whole.err.as_str()), (&digest.as_str().into(), ""));
    let rest = offline("replay -o json", directory.path());
    assert_eq!(json(&rest)["digest"], digest);
    assert!(rest.err.contains("beginning with the snapshot of entry 100"), "{}", rest.err);
    let early = with_archive("replay -o json --until 50", directory.path());
    assert_eq!(json(&early)["asOf"]["sequence"], 50);
    let lost = offline("replay --until 50", directory.path());
    assert_eq!((lost.code, lost.out.as_str()), (1, ""));
    assert!(
        lost.err.contains("compacted away\nhint: read compacted entries with --archive"),
        "{}",
        lost.err
    );
}

#[test]
fn data_and_archive_are_verified_together_and_apart() {
    let (directory, _) = ledger();
    let whole = with_archive("verify -o json", directory.path());
    let found = json(&whole);
    assert_eq!((&found["firstSequence"], &found["lastSequence"]), (&1.into(), &160.into()));
    assert_eq!(found["snapshots"], 2);
    let data = json(&offline("verify -o json", directory.path()));
    assert!(data["firstSequence"].as_u64() > Some(1));
    let archive = directory.path().join("archive");
    let alone = format!("ledger verify --data-dir {} -o json", archive.display());
    let found = json(&run("http://127.0.0.1:1", &alone));
    assert_eq!(found["firstSequence"], 1);

    let file = fs::read_dir(&archive).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&file).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).unwrap();
    let damaged = run("http://127.0.0.1:1", &alone);
    assert_eq!(damaged.code, 4);
    assert!(damaged.err.contains(&file.display().to_string()), "{}", damaged.err);
}

#[test]
fn what_is_left_can_be_printed_but_only_a_whole_ledger_imported() {
    let (directory, _) = ledger();
    assert_eq!(with_archive("dump", directory.path()).out.lines().count(), 160);
    let rest = offline("dump --from 1 --to 159", directory.path());
    assert!(rest.err.contains("were compacted away") && rest.out.lines().count() < 159);
    let home = tempfile::tempdir().unwrap();
    let import = |text: &str, name: &str| {
        let copy = home.path().join(name);
        run_with(
            "http://127.0.0.1:1",
            &format!("ledger import - --data-dir {}", copy.display()),
            text,
        )
    };
    let part = offline("export -", directory.path()).out;
    let refused = import(&part, "part");
    assert_eq!(refused.code, 1, "{refused:?}");
    assert!(refused.err.contains("hint: only a whole ledger can be imported"), "{}", refused.err);
    let whole = with_archive("export -", directory.path()).out;
    assert_eq!(import(&whole, "whole").code, 0);
}

#[test]
fn figures_tell_what_is_where() {
    let (directory, _) = ledger();
    let found = json(&with_archive("stat -o json", directory.path()));
    assert_eq!((&found["firstSequence"], &found["entries"]), (&1.into(), &160.into()));
    assert!(found["keptFrom"].as_u64() > Some(1) && found["archiveBytes"].as_u64() > Some(0));
    assert_eq!(found["snapshots"][0]["sequence"], 100);
}
