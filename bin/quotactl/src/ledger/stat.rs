//! `ledger stat`: number and size of all parts of a ledger.

use std::collections::BTreeMap;

use quota_core::event::Entry;
use quota_journal::{Hash, Offline, SnapshotInfo};
use quota_semantics::Timestamp;
use serde::Serialize;

use super::{each_batch, entries, unread};
use crate::{
    failure::Outcome,
    output::{Output, note},
    progress::Progress,
    table::Table,
};

/// The figures of a ledger.
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
pub(super) fn run(ledger: &Offline, output: &Output) -> Outcome {
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
