//! The journal: group commit and reading back, beside a bare file on the same disk.

#![allow(missing_docs, reason = "criterion's macros")]

use std::{
    fs::File, hint::black_box, io::Write as _, os::unix::fs::FileExt as _, path::Path, sync::Arc,
};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use quota_journal::{Batch, FileJournal, FileReader, Journal, Options, disk::RealDisk};
use quota_semantics::Timestamp;

/// Bytes of one entry, about as long as a reservation.
const ENTRY_BYTES: usize = 150;

fn open(directory: &Path) -> (FileJournal, FileReader) {
    let (journal, reader, _) = FileJournal::open(Arc::new(RealDisk), directory, Options::default())
        .expect("an empty directory opens");
    (journal, reader)
}

fn batch(first_sequence: u64, entries: usize) -> Batch {
    Batch {
        first_sequence,
        count: u32::try_from(entries).unwrap_or(u32::MAX),
        time: Timestamp::from_nanoseconds(1_770_000_000_000_000_000),
        payload: vec![7; entries * ENTRY_BYTES],
    }
}

/// A file of zeros, as the write-ahead log has them: growing files cost a metadata write each time.
fn preallocated(path: &Path, bytes: usize) -> std::io::Result<File> {
    let mut file = File::create_new(path)?;
    file.write_all(&vec![0; bytes])?;
    file.sync_all()?;
    Ok(file)
}

fn appending(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory for the files");
    let (mut journal, reader) = open(&directory.path().join("ledger"));
    let size = 256 * 1024 * 1024;
    let file = preallocated(&directory.path().join("bare"), size).expect("a file of zeros");
    let mut offset = 0;
    for entries in [1, 64, 256, 1024] {
        let mut group = criterion.benchmark_group(format!("append a group of {entries}"));
        group.sample_size(50);
        group.throughput(Throughput::Elements(entries as u64));
        let bytes = vec![7; entries * ENTRY_BYTES];
        group.bench_function("baseline: bare write and fdatasync", |bench| {
            bench.iter(|| {
                if offset + bytes.len() > size {
                    offset = 0;
                }
                file.write_all_at(&bytes, offset as u64).expect("the file is there");
                file.sync_data().expect("the disk works");
                offset += bytes.len();
            });
        });
        let mut next = reader_next(&reader);
        group.bench_function("journal", |bench| {
            bench.iter(|| {
                journal.append(batch(next, entries)).expect("in order");
                next = journal.sync().expect("the disk works").sequence + 1;
            });
        });
        group.finish();
    }
}

fn reader_next(reader: &FileReader) -> u64 {
    use quota_journal::Reader as _;
    reader.durable().sequence + 1
}

fn reading(criterion: &mut Criterion) {
    let directory = tempfile::tempdir().expect("a directory for the files");
    let (mut journal, reader) = open(directory.path());
    let entries = 256;
    let batches: u64 = 1000;
    let mut next = 1;
    for _ in 0..batches {
        journal.append(batch(next, entries)).expect("in order");
        next = journal.sync().expect("the disk works").sequence + 1;
    }
    let mut group = criterion.benchmark_group("read back");
    group.sample_size(10);
    group.throughput(Throughput::Elements(batches * entries as u64));
    let all = vec![7_u8; entries * ENTRY_BYTES * usize::try_from(batches).unwrap_or(0)];
    group.bench_function("baseline: BLAKE3 of the payloads", |bench| {
        bench.iter(|| black_box(blake3::hash(&all)));
    });
    group.bench_function("journal, every frame checked", |bench| {
        bench.iter(|| {
            let mut batches = reader.batches(1);
            let mut read = 0;
            while let Some(batch) = batches.next_batch() {
                read += u64::from(batch.expect("undamaged").count);
            }
            black_box(read)
        });
    });
    group.finish();
}

criterion_group!(benches, appending, reading);
criterion_main!(benches);
