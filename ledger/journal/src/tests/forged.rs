//! Payloads that hold the bytes of frames, as callers can write them: what is left of such a payload after a power loss
//! is no evidence of later groups.

use super::*;
use crate::{
    Hash, frame,
    simulation::{Crash, Faults, SimDisk},
};

/// Size of a segment that holds everything.
const LARGE: u64 = 16 * 1024;

/// The sequence up to which the ledger is durable before a forged batch is appended.
const BEFORE: u64 = 6;

/// Groups of later sequences, each of which continues some chain and is continued.
fn forged(sequence: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for _ in 0..20 {
        let mut hash = Hash::from(blake3::hash(b"anything"));
        bytes.extend_from_slice(hash.as_bytes());
        for first_sequence in [sequence, sequence + 2] {
            hash = frame::encode(&batch(first_sequence, 2, 20), &hash, true, &mut bytes);
        }
        bytes.extend_from_slice(&[0; 100]);
    }
    bytes
}

fn forged_batch(first_sequence: u64) -> Batch {
    Batch { payload: forged(first_sequence + 2), ..batch(first_sequence, 2, 0) }
}

fn opened(disk: &SimDisk, segment_bytes: u64) -> Result<Opened, Error> {
    let options = Options { segment_bytes, ..small() };
    FileJournal::open(Arc::new(disk.clone()), Path::new("/data"), options)
}

fn crash_at(call: u64) -> Faults {
    Faults { crash_at: Some(call), ..Faults::default() }
}

/// Appends a forged batch behind plain ones, until the crash.
fn append(journal: &mut FileJournal, is_replica: bool) -> Result<(), Error> {
    let batches = [batch(BEFORE + 1, 2, 300), forged_batch(BEFORE + 3), batch(BEFORE + 5, 2, 300)];
    for batch in batches {
        journal.append(batch)?;
        if is_replica {
            journal.write()?;
        }
    }
    journal.sync()?;
    Ok(())
}

/// Whether recovery found a torn write.
fn recovers(disk: &SimDisk, segment_bytes: u64) -> bool {
    let (mut journal, reader, recovery) = opened(disk, segment_bytes).unwrap();
    let last = recovery.durable.sequence;
    assert!((BEFORE..=BEFORE + 6).contains(&last), "{last}");
    assert_eq!(read(&reader, 1).unwrap().len() as u64, last / 2);
    fill(&mut journal, last + 4, 100);
    drop((journal, reader));
    let (_journal, reader, again) = opened(disk, segment_bytes).unwrap();
    assert_eq!(again.durable.sequence, last + 4);
    assert_eq!(read(&reader, 1).unwrap().len() as u64, last / 2 + 2);
    recovery.repaired.iter().any(|what| what.contains("a torn write"))
}

/// Loses the power at each call of appending, and again at calls of the recovery.
fn lose_power(segment_bytes: u64, is_replica: bool) {
    let mut torn = 0;
    for seed in 0..60 {
        for call in 1.. {
            let disk = SimDisk::new(seed);
            let (mut journal, _, _) = opened(&disk, segment_bytes).unwrap();
            fill(&mut journal, BEFORE, 100);
            if seed % 2 == 0 {
                // The next segment is prepared; otherwise it grows.
                journal.work().unwrap();
            }
            disk.inject(crash_at(call));
            let appended = append(&mut journal, is_replica);
            drop(journal);
            if appended.is_ok() {
                break;
            }
            disk.reboot(Crash::PowerLoss, Faults::default());
            torn += u64::from(recovers(&disk.copy(), segment_bytes));
            for again in (1..=25).step_by(4) {
                let disk = disk.copy();
                disk.inject(crash_at(again + seed % 4));
                let _ = opened(&disk, segment_bytes);
                disk.reboot(Crash::PowerLoss, Faults::default());
                recovers(&disk, segment_bytes);
            }
        }
    }
    assert!(torn > 30, "{torn}");
}

#[test]
fn a_torn_payload_is_no_damage() {
    lose_power(LARGE, false);
}

#[test]
fn a_torn_payload_at_the_beginning_of_a_segment_is_no_damage() {
    lose_power(small().segment_bytes, false);
}

#[test]
fn a_torn_payload_of_a_replica_is_no_damage() {
    lose_power(LARGE, true);
    lose_power(small().segment_bytes, true);
}

#[test]
fn only_payloads_that_may_hold_frames_cost_a_second_sync() {
    let calls = |batch: Batch| {
        let disk = SimDisk::new(0);
        let (mut journal, _, _) = opened(&disk, LARGE).unwrap();
        fill(&mut journal, BEFORE, 100);
        disk.inject(Faults::default());
        journal.append(batch).unwrap();
        journal.sync().unwrap();
        disk.calls()
    };
    let plain = calls(batch(BEFORE + 1, 2, 3000));
    assert_eq!(calls(forged_batch(BEFORE + 1)), plain + 2);
}

#[test]
fn a_forged_batch_is_read_as_any_other() {
    let directory = scratch();
    let (mut journal, reader, _) = open(directory.path());
    let durable = fill(&mut journal, BEFORE, 100);
    append(&mut journal, false).unwrap();
    let found = read(&reader, durable.sequence + 3).unwrap();
    assert_eq!(found[0].batch, forged_batch(BEFORE + 3));
    drop((journal, reader));
    let (_journal, reader, recovery) = open(directory.path());
    assert_eq!(recovery.repaired, Vec::<String>::new());
    assert_eq!(read(&reader, durable.sequence + 3).unwrap(), found);
}

/// After a power loss that also lost the anchor's note of what is damaged.
#[test]
fn damage_to_a_forged_batch_that_others_follow_is_refused() {
    let directory = scratch();
    let options = Options { segment_bytes: LARGE, ..small() };
    let (mut journal, _, _) = try_open(directory.path(), options.clone()).unwrap();
    fill(&mut journal, BEFORE, 100);
    drop(journal);
    let log = files(directory.path())
        .into_iter()
        .find(|path| path.extension().is_some_and(|ending| ending == "log"))
        .unwrap();
    let before = fs::read(&log).unwrap();
    let start = before.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let anchor = fs::read(directory.path().join("anchor")).unwrap();
    let (mut journal, _, _) = try_open(directory.path(), options.clone()).unwrap();
    journal.append(forged_batch(BEFORE + 1)).unwrap();
    journal.sync().unwrap();
    fill(&mut journal, BEFORE + 4, 100);
    drop(journal);
    fs::write(directory.path().join("anchor"), anchor).unwrap();
    let right = fs::read(&log).unwrap();
    let last = forged(0).len() + frame::OVERHEAD_BYTES - 1;
    for place in (0..40).chain([1000, last - 40, last]) {
        let mut wrong = right.clone();
        wrong[start + place] ^= 1;
        fs::write(&log, wrong).unwrap();
        let Err(error) = try_open(directory.path(), options.clone()) else {
            panic!("byte {place} was accepted");
        };
        assert!(error.is_damage(), "{error}");
    }
}
