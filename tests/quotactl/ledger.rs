//! Ledgers at rest.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use quota_core::{
    codec::encode_entries,
    event::{Actor, Cursor, Entry, Event, Observed, QuotaRecord, Reservation},
    state::State,
};
use quota_journal::{Batch, FileJournal, Journal, Options, Reader, disk::RealDisk};
use quota_semantics::{
    Name, Timestamp, object::Footprint, quota::Spec, resource::ResourceList, uid::Uid,
};
use serde_json::Value;
use tempfile::TempDir;

use super::{Run, run, run_with};

fn list(amounts: &[(&str, &str)]) -> ResourceList {
    amounts.iter().map(|(name, amount)| (Name::from(*name), amount.parse().unwrap())).collect()
}

fn pod() -> Footprint {
    Footprint {
        resources: list(&[("pods", "1"), ("requests.cpu", "500m")]),
        ..Footprint::default()
    }
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn events(time: Timestamp) -> Vec<Event> {
    let quota = |hard: &[(&str, &str)]| {
        Event::QuotaSet(Arc::new(QuotaRecord {
            namespace: "team-a".into(),
            name: "q".into(),
            uid: uid("quota-1"),
            created: time,
            spec: Spec { hard: list(hard), ..Spec::default() },
            metadata: "".into(),
        }))
    };
    let granted = |name: &str, namespace: &str| {
        Event::ReservationGranted(Arc::new(Reservation {
            uid: uid(name),
            namespace: namespace.into(),
            resource: "pods".into(),
            name: name.into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: pod().into(),
            created: time,
            expiration: time,
            after_version: 0,
            requested: None,
        }))
    };
    let observed = |name: &str, ends_reservation| {
        Event::ObjectObserved(Box::new(Observed {
            uid: uid(name),
            namespace: "team-a".into(),
            resource: "pods".into(),
            name: name.into(),
            version: 3,
            footprint: pod(),
            lapse: None,
            ends_reservation,
        }))
    };
    vec![
        quota(&[("pods", "2"), ("requests.cpu", "4")]),
        granted("p1", "team-a"),
        granted("p2", "team-a"),
        observed("p1", true),
        observed("p3", false),
        granted("p4", "team-b"),
        Event::ReservationReleased { uid: uid("p4"), namespace: Name::from("team-b") },
        Event::SourceAdvanced { source: "OBJECTS".into(), cursor: Cursor::default() },
    ]
}

fn entries() -> Vec<Entry> {
    let begin: Timestamp = "2026-11-20T10:00:00Z".parse().unwrap();
    let entry = |(sequence, event): (u64, Event)| Entry {
        sequence,
        time: Timestamp::from_nanoseconds(
            begin.nanoseconds() + i64::try_from(sequence).unwrap() * 1_000_000_000,
        ),
        actor: Actor::named("test"),
        event,
    };
    (1..).zip(events(begin)).map(entry).collect()
}

fn open(directory: &Path) -> (FileJournal, quota_journal::FileReader) {
    let options = Options { background: false, ..Options::default() };
    let (journal, reader, _) = FileJournal::open(Arc::new(RealDisk), directory, options).unwrap();
    (journal, reader)
}

/// A ledger of eight entries in batches of three, and the state that they amount to.
fn ledger() -> (TempDir, State) {
    let directory = tempfile::tempdir().unwrap();
    let (mut journal, _) = open(directory.path());
    let mut state = State::default();
    for entries in entries().chunks(3) {
        let batch = Batch {
            first_sequence: entries[0].sequence,
            count: u32::try_from(entries.len()).unwrap(),
            time: entries.last().unwrap().time,
            payload: encode_entries(entries),
        };
        journal.append(batch).unwrap();
        journal.sync().unwrap();
        entries.iter().for_each(|entry| state.apply(entry));
    }
    journal.close().unwrap();
    (directory, state)
}

fn offline(arguments: &str, directory: &Path) -> Run {
    run("http://127.0.0.1:1", &format!("ledger {arguments} --data-dir {}", directory.display()))
}

fn hexadecimal(bytes: [u8; 32]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Stores a state as the snapshot of the entries so far.
fn snapshot(directory: &Path, state: &State) {
    let (_journal, reader) = open(directory);
    let mut writer = reader.snapshots().create(reader.durable()).unwrap();
    state.image().write(&mut writer).unwrap();
    writer.finish().unwrap();
}

#[test]
fn a_whole_ledger_is_found_to_be_whole() {
    let (directory, state) = ledger();
    snapshot(directory.path(), &state);
    let run = offline("verify", directory.path());
    assert!(run.code == 0 && !run.err.contains("error"), "{run:?}");
    assert!(
        run.out.starts_with("whole: entries 1 to 8, batches: 3, snapshots: 1, head: "),
        "{}",
        run.out
    );
    let more = offline("verify --jobs 4", directory.path());
    assert_eq!((more.code, more.out), (0, run.out));
    assert_eq!(offline("verify --jobs 0", directory.path()).code, 2);
    let json = offline("verify -o json", directory.path()).out;
    assert_eq!(serde_json::from_str::<Value>(&json).unwrap()["whole"], true);
}

/// Flips a bit of the first such text in the write-ahead log; gives the segment.
fn flip(directory: &Path, text: &[u8]) -> PathBuf {
    let segment = fs::read_dir(directory.join("log")).unwrap().next().unwrap().unwrap().path();
    let mut bytes = fs::read(&segment).unwrap();
    let at = bytes.windows(text.len()).position(|window| window == text).unwrap();
    bytes[at] ^= 1;
    fs::write(&segment, bytes).unwrap();
    segment
}

#[test]
fn a_flipped_bit_is_found_and_its_place_named() {
    let (directory, _) = ledger();
    let segment = flip(directory.path(), b"team-b");
    let run = offline("verify", directory.path());
    assert_eq!((run.code, run.out.as_str()), (4, ""));
    let place = format!("error: ledger damaged: {}", segment.display());
    assert!(run.err.contains(&place), "{}", run.err);
    let json = offline("verify -o json", directory.path());
    assert_eq!(json.code, 4);
    let value: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["whole"], false);
    assert!(value["damages"][0]["file"].is_string());
}

#[test]
fn a_snapshot_that_is_not_the_fold_is_found() {
    let (directory, mut state) = ledger();
    let mut last = entries().pop().unwrap();
    last.event = Event::ReservationReleased { uid: uid("p2"), namespace: Name::from("team-a") };
    state.apply(&last);
    snapshot(directory.path(), &state);
    let run = offline("verify", directory.path());
    assert_eq!((run.code, run.out.as_str()), (4, ""));
    assert!(
        run.err.contains("its state is not what the entries up to it amount to"),
        "{}",
        run.err
    );
}

#[test]
fn a_replay_gives_the_state_and_its_digest() {
    let (directory, state) = ledger();
    let json = offline("replay -o json", directory.path());
    assert_eq!((json.code, json.err.as_str()), (0, ""));
    let value: Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(value["digest"], hexadecimal(state.digest()));
    assert_eq!(value["asOf"]["sequence"], 8);
    assert_eq!(value["objects"], 2);
    assert_eq!(value["namespaces"][0]["namespace"], "team-a");
    assert_eq!(value["namespaces"][0]["quotas"][0]["resources"][0]["used"], "2");
    assert_eq!(value["reservations"][0]["reservedBy"]["uid"], "p2");
    let table = offline("replay", directory.path()).out;
    let rows: Vec<Vec<&str>> =
        table.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["team-a", "q", "pods", "2", "2", "1", "-1", "150%"]), "{table}");
    assert!(table.contains("Pod/p2"));
}

#[test]
fn a_replay_ends_where_it_is_told_to() {
    let (directory, _) = ledger();
    let pending = |until: &str| {
        let run = offline(&format!("replay -o json --until {until}"), directory.path());
        let value: Value = serde_json::from_str(&run.out).unwrap();
        (
            value["asOf"]["sequence"].as_u64().unwrap(),
            value["pendingReservations"].as_u64().unwrap(),
        )
    };
    assert_eq!(pending("3"), (3, 2));
    assert_eq!(pending("2026-11-20T10:00:06.5Z"), (6, 2));
    assert_eq!(pending("99"), (8, 1));
}

#[test]
fn entries_are_dumped_by_range_and_namespace() {
    let (directory, _) = ledger();
    let sequences = |arguments: &str| -> Vec<u64> {
        let run = offline(&format!("dump {arguments}"), directory.path());
        assert_eq!((run.code, run.err.as_str()), (0, ""));
        let read = |line: &str| serde_json::from_str::<Value>(line).unwrap();
        run.out.lines().map(|line| read(line)["sequence"].as_u64().unwrap()).collect()
    };
    assert_eq!(sequences(""), [1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(sequences("--from 2 --to 4"), [2, 3, 4]);
    assert_eq!(sequences("--from 5 --to 4"), [0_u64; 0]);
    assert_eq!(sequences("-n team-b"), [6, 7]);
    assert_eq!(sequences("-n team-b --from 7"), [7]);
}

#[test]
fn figures_count_what_is_there() {
    let (directory, _) = ledger();
    let value: Value =
        serde_json::from_str(&offline("stat -o json", directory.path()).out).unwrap();
    assert_eq!((&value["firstSequence"], &value["lastSequence"]), (&1.into(), &8.into()));
    assert_eq!((&value["batches"], &value["entries"]), (&3.into(), &8.into()));
    assert_eq!(value["entriesByType"]["ReservationGranted"], 3);
    let (_, reader) = open(directory.path());
    assert_eq!(value["head"], reader.durable().hash.to_string());
    drop(reader);
    let table = offline("stat", directory.path()).out;
    assert!(table.lines().any(|line| line.split_whitespace().eq(["batches", "3"])), "{table}");
}

#[test]
fn a_ledger_is_exported_and_imported_byte_for_byte() {
    let (directory, _) = ledger();
    let exported = offline("export -", directory.path());
    assert_eq!((exported.code, exported.err.as_str()), (0, ""));
    assert_eq!(exported.out.lines().count(), 1 + 3 + 8 + 1);
    let home = tempfile::tempdir().unwrap();
    let copy = home.path().join("copy");
    let import = format!("ledger import - --data-dir {}", copy.display());
    let imported = run_with("http://127.0.0.1:1", &import, &exported.out);
    assert_eq!(imported.code, 0, "{imported:?}");
    let (_journal, copied) = open(&copy);
    let (_original, original) = open(directory.path());
    assert_eq!(copied.durable(), original.durable());
    let batches = |reader: &dyn Reader| reader.read(1).map(Result::unwrap).collect::<Vec<_>>();
    assert_eq!(batches(&copied), batches(&original));

    let again = run_with("http://127.0.0.1:1", &import, &exported.out);
    assert_eq!(again.code, 12);
    assert!(again.err.contains("the directory is not empty"), "{}", again.err);
}

#[test]
fn an_export_that_fails_leaves_nothing() {
    let (directory, _) = ledger();
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("ledger.ndjson");
    let export = |arguments: &str| offline(arguments, directory.path());
    let arguments = format!("export {}", file.display());
    assert_eq!(export(&arguments).code, 0);
    let again = export(&arguments);
    assert_eq!(again.code, 1);
    assert!(again.err.contains("File exists"), "{}", again.err);
    flip(directory.path(), b"team-b");
    fs::remove_file(&file).unwrap();
    let damaged = export(&arguments);
    assert_eq!(damaged.code, 4, "{damaged:?}");
    assert!(!file.exists());
}

#[test]
fn an_export_that_was_changed_is_refused() {
    let (directory, _) = ledger();
    let exported = offline("export -", directory.path()).out;
    let lines: Vec<&str> = exported.lines().collect();
    let without = |skipped: usize| {
        let kept = lines.iter().enumerate().filter(|(index, _)| *index != skipped);
        kept.map(|(_, line)| format!("{line}\n")).collect::<String>()
    };
    let cases = [
        (
            exported.replacen("\"pods\":\"2\"", "\"pods\":\"3\"", 1),
            "line 3: the entry is not what the batch holds",
        ),
        (
            exported.replacen(
                "\"time\":\"2026-11-20T10:00:03Z\"",
                "\"time\":\"2026-11-20T10:00:04Z\"",
                1,
            ),
            "line 2: the hash",
        ),
        (without(lines.len() - 1), "line 13: it ends where a batch or the end should be"),
        (without(2), "line 3: the entry is not what the batch holds"),
        (without(1), "line 2: an entry without a batch"),
        (exported.replacen("\"batches\":3", "\"batches\":4", 1), "line 13: the end does not say"),
        (
            exported.replacen("quota-ledger-export", "something", 1),
            "line 1: not a quota-ledger-export",
        ),
        (format!("{exported}{}\n", lines[1]), "line 14: data after the end line"),
        (
            exported.replacen("\"count\":3", "\"count\":3,\"more\":3", 1),
            "line 2: not a batch or the end: unknown field `more`",
        ),
        (String::new(), "line 1: it ends where the head should be"),
    ];
    for (text, why) in cases {
        let home = tempfile::tempdir().unwrap();
        let copy = home.path().join("copy");
        let import = format!("ledger import - --data-dir {}", copy.display());
        let run = run_with("http://127.0.0.1:1", &import, &text);
        assert_eq!(run.code, 4, "{why}: {run:?}");
        assert!(run.err.starts_with(&format!("error: {why}")), "{why}: {}", run.err);
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0, "something is left of it");
    }
}

#[test]
fn a_directory_without_a_ledger_stays_as_it_is() {
    let empty = tempfile::tempdir().unwrap();
    for arguments in ["replay", "stat", "dump", "export -"] {
        let run = offline(arguments, empty.path());
        assert_eq!((run.code, run.out.as_str()), (11, ""), "{arguments}");
        assert!(run.err.contains("hint: set the directory with --data-dir"), "{}", run.err);
    }
    assert_eq!(fs::read_dir(empty.path()).unwrap().count(), 0);
}

#[test]
fn a_ledger_in_use_is_left_alone() {
    let (directory, _) = ledger();
    let (_journal, _) = open(directory.path());
    let run = offline("stat", directory.path());
    assert_eq!(run.code, 1);
    assert!(run.err.contains("in use by process"), "{}", run.err);
}
