//! The journal as a whole: on this machine's disk, and on a simulated one that crashes.

mod backups;
mod crashes;
mod damage;
mod forged;
mod hooked;
mod parts;
mod preparing;
mod repairs;
mod room;
mod upkeep;
mod verifying;

use std::{
    fs,
    io::Write,
    path::{Path, PathBuf},
    sync::Arc,
};

use super::{
    Batch, Durable, Error, FileJournal, FileReader, Journal, Options, Reader, Recovery,
    StoredBatch, disk::RealDisk,
};
use quota_semantics::{Span, Timestamp};

/// A directory in memory, if available: these tests sync often, and test nothing of the machine's disk.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() {
        tempfile::tempdir_in(memory).unwrap()
    } else {
        tempfile::tempdir().unwrap()
    }
}

/// Small segments and epochs, and no background threads.
fn small() -> Options {
    Options { segment_bytes: 4096, epoch_bytes: 6000, background: false, ..Options::default() }
}

type Opened = (FileJournal, FileReader, Recovery);

fn try_open(directory: &Path, options: Options) -> Result<Opened, Error> {
    FileJournal::open(Arc::new(RealDisk), directory, options)
}

fn open(directory: &Path) -> Opened {
    try_open(directory, small()).unwrap()
}

/// The files below a directory, except for the lock.
fn files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.file_name().unwrap() != "LOCK" {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn copy(from: &Path, to: &Path) {
    for path in files(from) {
        let target = to.join(path.strip_prefix(from).unwrap());
        fs::create_dir_all(target.parent().unwrap()).unwrap();
        fs::copy(path, target).unwrap();
    }
}

/// Stores a snapshot with opaque content.
fn snapshot(reader: &FileReader, position: Durable) {
    let mut writer = reader.snapshots().create(position).unwrap();
    write!(writer, "state at {}", position.sequence).unwrap();
    writer.finish().unwrap();
}

/// A payload that differs from all others, and does not compress.
fn payload(sequence: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&sequence.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn batch(first_sequence: u64, count: u32, length: usize) -> Batch {
    Batch {
        first_sequence,
        count,
        time: time(first_sequence),
        payload: payload(first_sequence, length),
    }
}

/// Ledger time: one second per entry.
fn time(sequence: u64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(sequence.cast_signed()))
}

/// Appends batches of two entries, each in a group of its own, until `sequence` is durable.
fn fill(journal: &mut FileJournal, sequence: u64, length: usize) -> Durable {
    let mut durable = journal.sync().unwrap();
    while durable.sequence < sequence {
        journal.append(batch(durable.sequence + 1, 2, length)).unwrap();
        durable = journal.sync().unwrap();
    }
    durable
}

/// As [`fill`], and does all background work.
fn fill_and_work(journal: &mut FileJournal, sequence: u64, length: usize) -> Durable {
    let mut durable = journal.sync().unwrap();
    while durable.sequence < sequence {
        durable = fill(journal, durable.sequence + 2, length);
        while journal.work().unwrap() {}
    }
    durable
}

/// Everything from a sequence on, if all of it is valid.
fn read(reader: &FileReader, from: u64) -> Result<Vec<StoredBatch>, Error> {
    reader.read(from).collect()
}

/// Checks that exactly the batches of [`fill`] up to `last` can be read.
fn assert_holds(reader: &FileReader, last: u64, length: usize) {
    let found = read(reader, 1).unwrap();
    let sequences: Vec<u64> = found.iter().map(|b| b.batch.first_sequence).collect();
    assert_eq!(sequences, (1..last).step_by(2).collect::<Vec<_>>());
    for stored in found {
        assert_eq!(stored.batch, batch(stored.batch.first_sequence, 2, length));
    }
}
