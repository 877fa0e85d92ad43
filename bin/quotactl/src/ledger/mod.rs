//! `ledger`: a data directory or an archive, read without a daemon and without changing it.

mod copies;
mod replay;
mod verify;

use std::{
    collections::BTreeMap,
    io::{self, BufWriter, ErrorKind, Write},
    path::Path,
    sync::Arc,
};

use quota_core::{codec, event::Entry};
use quota_journal::{BatchRef, Damage, Hash, Offline, SnapshotInfo, disk::RealDisk};
use quota_ledger::replay::Error;
use quota_semantics::Timestamp;
use serde::Serialize;
use serde_json::{Value, json};

pub(super) use copies::Building;
pub use copies::import_from;
use verify::Claims;
pub(super) use verify::{check, verify_checkpoints};

use crate::{
    args::{Ledger, LedgerPath, Signed},
    failure::{Exit, Failure, Outcome},
    output::{Output, Progress, note, written},
    session::Scope,
    table::{Table, one_line},
};

/// Runs a `ledger` command.
pub(crate) fn run(command: &Ledger, output: &Output, scope: &Scope) -> Outcome {
    match command {
        Ledger::Verify { place, signed, jobs } => verify::run(place, claims(signed)?, jobs, output),
        Ledger::Restore { backup, data_dir, signed, jobs } => {
            copies::restore(backup, data_dir, claims(signed)?, jobs, output)
        }
        Ledger::Repair { data_dir, from } => verify::repair(data_dir, from.as_deref(), output),
        Ledger::Keygen { file, origin } => verify::keygen(file, origin, output),
        Ledger::Replay { place, until } => replay::replay(&open(place)?, output, *until),
        Ledger::Report { place, report } => {
            replay::report(&open(place)?, report, output, scope.filter())
        }
        Ledger::Simulate { place, limits } => {
            replay::simulate(&open(place)?, output, scope, limits)
        }
        Ledger::Suggest { place, wish } => replay::suggest(&open(place)?, output, scope, wish),
        Ledger::Dump { place, from, to } => dump(&open(place)?, scope.filter(), *from, *to),
        Ledger::Stat { place } => stat(&open(place)?, output),
        Ledger::Export { file, place } => copies::export(&open(place)?, file),
        Ledger::Import { file, data_dir } => copies::import(file, data_dir, output),
    }
}

fn claims(signed: &Signed) -> Outcome<Claims> {
    match (&signed.checkpoint, &signed.public_key) {
        (Some(file), Some(key)) => Claims::load(std::slice::from_ref(file), key),
        _ => Ok(Claims::default()),
    }
}

fn open(place: &LedgerPath) -> Outcome<Offline> {
    Offline::open(Arc::new(RealDisk), &place.data_dir, place.archive.as_deref())
        .map_err(|error| unopened(error, &place.data_dir))
}

/// The failure for an error at opening.
fn unopened(error: quota_journal::Error, directory: &Path) -> Failure {
    match &error {
        quota_journal::Error::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            Failure::new(Exit::NotFound, "neither a data directory nor an archive")
                .about(directory.display())
                .hint("set the directory with --data-dir")
        }
        _ => unread(error),
    }
}

/// The failure for an error of the journal.
pub(super) fn unread(error: quota_journal::Error) -> Failure {
    match &error {
        quota_journal::Error::Damaged(damage) => {
            let failure = Failure::new(Exit::Damaged, error.to_string());
            match is_repairable(damage) {
                true => failure.hint(REPAIR),
                false => failure,
            }
        }
        quota_journal::Error::Locked { .. } => Failure::general(error.to_string())
            .hint("stop the daemon, or use the online commands: get, describe, watch"),
        quota_journal::Error::Compacted { .. } => Failure::general(error.to_string())
            .hint("read compacted entries with --archive DIRECTORY"),
        _ => Failure::general(error.to_string()),
    }
}

/// The failure for an error of a replay.
fn unfolded(error: Error) -> Failure {
    match error {
        Error::Journal(error) => unread(error),
        Error::Entries { .. } | Error::Snapshot { .. } => {
            Failure::new(Exit::Damaged, format!("ledger damaged: {error}"))
        }
    }
}

/// A hint on the repair of a damaged epoch.
const REPAIR: &str =
    "`quotactl ledger repair --from ARCHIVE|BACKUP` puts back what an archive or a backup holds";

/// Whether the damage has a recorded end.
const fn is_repairable(damage: &Damage) -> bool {
    damage.through.is_some()
}

pub(super) fn damage_as_json(damage: &Damage) -> Value {
    json!({
        "file": damage.file,
        "offset": damage.offset,
        "sequence": damage.sequence,
        "through": damage.through,
        "why": damage.why,
    })
}

/// Reads the batches with the entries `from..=to`, in order. Damage with a recorded end is reported and skipped, and
/// the command fails at the end.
fn each_batch(
    ledger: &Offline,
    from: u64,
    to: u64,
    mut act: impl FnMut(&BatchRef<'_>) -> Outcome,
) -> Outcome {
    let last = ledger.last_sequence().min(to);
    let mut next = from.max(ledger.first_sequence());
    let mut is_damaged = false;
    let mut batches = ledger.batches(next);
    while next <= last {
        match batches.next_batch() {
            None => break,
            Some(Ok(batch)) => {
                next = batch.last_sequence().saturating_add(1);
                act(&batch)?;
            }
            Some(Err(quota_journal::Error::Damaged(damage))) if is_repairable(&damage) => {
                let through = damage.through.filter(|through| *through >= next);
                let failure = unread(damage.into());
                let Some(through) = through else {
                    return Err(failure);
                };
                note(failure.to_string());
                is_damaged = true;
                next = through.saturating_add(1);
                batches = ledger.batches(next);
            }
            Some(Err(error)) => return Err(unread(error)),
        }
    }
    match is_damaged {
        true => Err(Failure::silent(Exit::Damaged)),
        false => Ok(()),
    }
}

/// Reads the entries `from..=to`, in order, as [`each_batch`] does.
fn each_entry(
    ledger: &Offline,
    from: u64,
    to: u64,
    mut act: impl FnMut(&Entry) -> Outcome,
) -> Outcome {
    each_batch(ledger, from, to, |batch| {
        let wanted = entries(batch)?.into_iter();
        let mut wanted = wanted.filter(|entry| (from..=to).contains(&entry.sequence));
        wanted.try_for_each(|entry| act(&entry))
    })
}

/// The entries of a batch.
fn entries(batch: &BatchRef<'_>) -> Outcome<Vec<Entry>> {
    decoded(batch.first_sequence, batch.count, batch.payload)
}

fn decoded(first: u64, count: u32, payload: &[u8]) -> Outcome<Vec<Entry>> {
    codec::decode_entries(first, count, payload)
        .map_err(|source| unfolded(Error::Entries { first, source }))
}

/// Prints the entries `from..=to`, of one namespace or of all.
fn dump(ledger: &Offline, namespace: Option<&str>, from: u64, to: u64) -> Outcome {
    let first = ledger.first_sequence();
    if from.max(1) < first {
        note(format!("note: the entries before {first} were compacted away"));
    }
    let mut out = BufWriter::new(io::stdout().lock());
    let read = each_entry(ledger, from, to, |entry| {
        let own = entry.event.namespace();
        if namespace.is_none_or(|wanted| own.is_some_and(|own| *own == *wanted)) {
            print_entry(&mut out, entry)?;
        }
        Ok(())
    });
    written(out.flush())?;
    read
}

fn print_entry(out: &mut impl Write, entry: &Entry) -> Outcome {
    let line = serde_json::to_string(entry).map_err(|error| Failure::general(error.to_string()))?;
    written(writeln!(out, "{}", one_line(&line)))
}

/// The figures of a ledger: number and size of all its parts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Figures {
    first_sequence: u64,
    last_sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    first_time: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_time: Option<Timestamp>,
    /// The chain hash after the last batch.
    head: String,
    batches: u64,
    payload_bytes: u64,
    entries: u64,
    entries_by_type: BTreeMap<&'static str, u64>,
    #[serde(flatten)]
    files: Files,
}

/// Numbers and sizes of files on disk.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct Files {
    #[serde(skip_serializing_if = "Option::is_none")]
    kept_from: Option<u64>,
    wal_segments: usize,
    wal_bytes: u64,
    sealed_epochs: usize,
    epochs_bytes: u64,
    snapshots: Vec<Snapshot>,
    archive_bytes: u64,
}

#[derive(Debug, Serialize)]
struct Snapshot {
    sequence: u64,
    time: Timestamp,
    bytes: u64,
}

impl From<SnapshotInfo> for Snapshot {
    fn from(info: SnapshotInfo) -> Self {
        Self { sequence: info.position.sequence, time: info.position.time, bytes: info.bytes }
    }
}

/// Reads everything, and prints the figures.
fn stat(ledger: &Offline, output: &Output) -> Outcome {
    let (figures, read) = count(ledger)?;
    match output.is_structured() {
        true => output.value(&figures),
        false => output.table(&table(&figures)),
    }?;
    read
}

/// The figures of the readable part, and whether the whole ledger could be read.
fn count(ledger: &Offline) -> Outcome<(Figures, Outcome)> {
    let (first, last) = (ledger.first_sequence(), ledger.last_sequence());
    let mut figures = Figures {
        first_sequence: first,
        last_sequence: last,
        first_time: None,
        last_time: None,
        head: Hash::GENESIS.to_string(),
        batches: 0,
        payload_bytes: 0,
        entries: 0,
        entries_by_type: BTreeMap::new(),
        files: files(ledger)?,
    };
    let progress = Progress::over("counting", first, last);
    let read = each_batch(ledger, first, last, |batch| {
        for entry in entries(batch)? {
            let Entry { time, event, .. } = entry;
            figures.first_time.get_or_insert(time);
            figures.entries += 1;
            *figures.entries_by_type.entry(event.name()).or_default() += 1;
        }
        figures.batches += 1;
        figures.payload_bytes += batch.payload.len() as u64;
        figures.last_time = Some(batch.time);
        figures.head = batch.hash.to_string();
        progress.at(batch.last_sequence());
        Ok(())
    });
    match read {
        Err(failure) if !failure.is_silent() => Err(failure),
        read => Ok((figures, read)),
    }
}

fn files(ledger: &Offline) -> Outcome<Files> {
    match ledger {
        Offline::Data(data) => {
            let reader = data.reader();
            let stats = reader.stats().map_err(unread)?;
            let (_, damaged) = reader.snapshots().list().map_err(unread)?;
            for damage in damaged {
                note(format!("warning: {damage}"));
            }
            Ok(Files {
                kept_from: Some(stats.kept_from),
                wal_segments: stats.wal_segments,
                wal_bytes: stats.wal_bytes,
                sealed_epochs: stats.sealed_epochs,
                epochs_bytes: stats.epochs_bytes,
                snapshots: stats.snapshots.into_iter().map(Snapshot::from).collect(),
                archive_bytes: stats.archive_bytes,
            })
        }
        Offline::Archive(archive) => Ok(Files {
            archive_bytes: archive.files().iter().map(|file| file.bytes).sum(),
            ..Files::default()
        }),
    }
}

fn table(figures: &Figures) -> Table {
    let mut table = Table::new(&["FIGURE", "VALUE"]);
    let mut add = |name: &str, value: String| table.row([name.to_owned(), value]);
    let time = |time: Option<Timestamp>| time.map_or("-".to_owned(), |time| time.to_string());
    add("first entry", figures.first_sequence.to_string());
    add("first time", time(figures.first_time));
    add("last entry", figures.last_sequence.to_string());
    add("last time", time(figures.last_time));
    add("head hash", figures.head.clone());
    add("batches", figures.batches.to_string());
    add("payload bytes", figures.payload_bytes.to_string());
    add("entries", figures.entries.to_string());
    for (kind, count) in &figures.entries_by_type {
        add(&format!("entries {kind}"), count.to_string());
    }
    let files = &figures.files;
    if let Some(kept_from) = files.kept_from {
        add("kept from", kept_from.to_string());
    }
    add("log segments", files.wal_segments.to_string());
    add("log bytes", files.wal_bytes.to_string());
    add("sealed epochs", files.sealed_epochs.to_string());
    add("epochs bytes", files.epochs_bytes.to_string());
    for Snapshot { sequence, time, bytes } in &files.snapshots {
        add(&format!("snapshot {sequence}"), format!("{bytes} bytes, {time}"));
    }
    add("archive bytes", files.archive_bytes.to_string());
    table
}

#[cfg(test)]
mod tests {
    use quota_core::event::{Actor, Event};
    use quota_semantics::Timestamp;
    use serde_json::{Value, to_value};

    use super::*;

    #[test]
    fn what_misleads_is_escaped_and_stays_the_same_entry() {
        let entry = Entry {
            sequence: 1,
            time: Timestamp::EPOCH,
            actor: Actor::named("a\u{9b}b\u{202e}c"),
            event: Event::QuotaDeleted { namespace: "team\u{7f}".into(), name: "q\u{9b}".into() },
        };
        let mut out = Vec::new();
        print_entry(&mut out, &entry).unwrap();
        let line = String::from_utf8(out).unwrap();
        assert!(line.is_ascii() && !line.trim_end().contains(char::is_control));
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read, to_value(&entry).unwrap());
    }
}
