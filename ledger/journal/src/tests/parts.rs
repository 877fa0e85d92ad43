//! Appended batches are read back, from whichever part holds them.

use super::*;
use crate::{Hash, MAX_PAYLOAD_BYTES, golden};

#[test]
fn a_new_ledger_is_empty() {
    let directory = scratch();
    let (mut journal, reader, recovery) = open(directory.path());
    assert_eq!(recovery.durable, Durable::NOTHING);
    assert_eq!((recovery.first_sequence, recovery.snapshot), (1, None));
    assert_eq!(recovery.repaired, Vec::<String>::new());
    assert_eq!(read(&reader, 1).unwrap(), []);
    assert_eq!(journal.sync().unwrap(), Durable::NOTHING);
}

#[test]
fn version_1_of_a_segment_has_these_bytes() {
    let directory = scratch();
    let (mut journal, _, _) = open(directory.path());
    fill(&mut journal, 4, 3);
    let bytes = fs::read(directory.path().join("log/00000000000000000001.log")).unwrap();
    assert_eq!(bytes.len(), 4096);
    let end = bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    golden::check("segment", &bytes[..end]);
}

#[test]
fn segments_that_were_not_prepared_fill_up_too() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    fill(&mut journal, 100, 300);
    let stats = reader.stats().unwrap();
    assert_eq!((stats.wal_segments, stats.flushed), (5, 0));
    drop(journal);
    let (_journal, reader, _) = open(directory.path());
    assert_holds(&reader, 100, 300);
}

#[test]
fn nothing_is_read_before_it_is_durable() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    journal.append(batch(1, 2, 10)).unwrap();
    journal.append(batch(3, 1, 0)).unwrap();
    assert_eq!(read(&reader, 1).unwrap(), []);
    let durable = journal.sync().unwrap();
    let found = read(&reader, 1).unwrap();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].previous, Hash::GENESIS);
    assert_eq!(found[1].previous, found[0].hash);
    assert_eq!((durable.sequence, durable.hash), (3, found[1].hash));
    assert_eq!(reader.durable(), durable);
}

#[test]
fn reading_begins_with_the_batch_that_holds_the_entry() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    fill_and_work(&mut journal, 200, 300);
    for from in [1, 2, 3, 50, 99, 100, 150, 199, 200] {
        let found = read(&reader, from).unwrap();
        assert!(found[0].batch.first_sequence <= from);
        assert!(found[0].batch.last_sequence() >= from);
        assert_eq!(found.last().unwrap().batch.last_sequence(), 200);
    }
    assert_eq!(read(&reader, 201).unwrap(), []);
    assert_eq!(read(&reader, u64::MAX).unwrap(), []);
}

#[test]
fn everything_is_read_from_log_and_epochs_and_after_reopening() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    fill_and_work(&mut journal, 300, 200);
    let stats = reader.stats().unwrap();
    assert!(stats.sealed_epochs >= 2, "{stats:?}");
    assert!(stats.wal_segments <= 3, "{stats:?}");
    assert_eq!(stats.flushed, 300);
    assert_holds(&reader, 300, 200);
    let durable = journal.close().unwrap();

    let (mut journal, reader, recovery) = open(directory.path());
    assert_eq!(recovery.durable, durable);
    assert_eq!(recovery.repaired, Vec::<String>::new());
    assert!(recovery.checked_bytes > 6000);
    assert_holds(&reader, 300, 200);
    fill(&mut journal, 310, 200);
    assert_holds(&reader, 310, 200);
}

#[test]
fn a_killed_process_loses_nothing() {
    let directory = scratch();
    let mut sequence = 0;
    for round in 0..8 {
        let (mut journal, reader, recovery) = open(directory.path());
        assert_eq!(recovery.durable.sequence, sequence);
        let again = |what: &String| what.contains("rebuilt from the write-ahead log");
        assert!(recovery.repaired.iter().all(again), "{:?}", recovery.repaired);
        assert_holds(&reader, sequence, 300);
        sequence += 14;
        if round % 2 == 0 {
            fill(&mut journal, sequence, 300);
        } else {
            fill_and_work(&mut journal, sequence, 300);
        }
    }
}

#[test]
fn large_batches_pass_through_every_part() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let lengths = [10, MAX_PAYLOAD_BYTES, 100, 700_000, 5];
    for (sequence, length) in (1..).zip(lengths) {
        journal.append(batch(sequence, 1, length)).unwrap();
        journal.sync().unwrap();
        assert_eq!(read(&reader, sequence).unwrap().len(), 1);
        while journal.work().unwrap() {}
    }
    journal.close().unwrap();
    let (_journal, reader, recovery) = open(directory.path());
    assert_eq!(recovery.repaired, Vec::<String>::new());
    for (sequence, length) in (1..).zip(lengths) {
        let found = reader.read(sequence).next().unwrap().unwrap();
        assert!(found.batch == batch(sequence, 1, length), "{sequence}");
    }
}

#[test]
fn what_does_not_fit_is_refused_and_changes_nothing() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    fill(&mut journal, 2, 10);
    let refused = |journal: &mut FileJournal, batch: Batch| {
        let error = journal.append(batch).unwrap_err();
        assert!(matches!(error, Error::TooLarge { .. } | Error::OutOfOrder { .. }), "{error}");
    };
    refused(&mut journal, batch(3, 1, MAX_PAYLOAD_BYTES + 1));
    refused(&mut journal, batch(4, 1, 1));
    refused(&mut journal, batch(2, 1, 1));
    refused(&mut journal, batch(3, 0, 1));
    refused(&mut journal, Batch { time: Timestamp::EPOCH, ..batch(3, 1, 1) });
    for sequence in 3..6 {
        journal.append(batch(sequence, 1, MAX_PAYLOAD_BYTES)).unwrap();
    }
    refused(&mut journal, batch(6, 1, MAX_PAYLOAD_BYTES));
    assert_eq!(journal.sync().unwrap().sequence, 5);
    assert_eq!(read(&reader, 1).unwrap().len(), 4);
}

#[test]
fn a_second_opener_is_told_who_has_it() {
    let directory = scratch();
    let opened = open(directory.path());
    let Err(error) = try_open(directory.path(), small()) else {
        panic!("opened twice");
    };
    let text = error.to_string();
    assert!(text.contains(&directory.path().display().to_string()), "{text}");
    assert!(text.contains(&std::process::id().to_string()), "{text}");
    drop(opened);
    open(directory.path());
}

#[test]
fn readers_on_other_threads_see_a_growing_prefix() {
    let directory = scratch();
    let options = Options { background: true, ..small() };
    let (mut journal, reader, _) = try_open(directory.path(), options).unwrap();
    let last = 600;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let reader = reader.clone();
            scope.spawn(move || {
                let mut batches = reader.batches(1);
                let mut seen = 0;
                while seen < last {
                    match batches.next_batch() {
                        Some(batch) => seen = batch.unwrap().last_sequence(),
                        None => std::thread::yield_now(),
                    }
                    assert!(seen <= reader.durable().sequence);
                }
            });
        }
        fill(&mut journal, last, 200);
    });
    journal.close().unwrap();
    let (_journal, reader, _) = open(directory.path());
    assert_holds(&reader, last, 200);
    assert!(reader.stats().unwrap().sealed_epochs > 3);
}
