//! A process that dies at any call, on a disk that loses unsynced writes: acknowledged entries are there again.

use super::*;
use crate::{
    Retention,
    simulation::{Crash, Faults, SimDisk},
};

/// The answers to callers.
#[derive(Clone, Copy, Debug, Default)]
struct Answered {
    acknowledged: u64,
    /// Batches are only written, and acknowledged once they are synced later, as in a replica.
    is_replica: bool,
}

const REPLICA: Answered = Answered { acknowledged: 0, is_replica: true };

fn directory() -> PathBuf {
    PathBuf::from("/data")
}

fn length(sequence: u64) -> usize {
    usize::try_from(sequence.wrapping_mul(2_654_435_761) % 700).unwrap()
}

fn options() -> Options {
    Options {
        segment_bytes: 2048,
        epoch_bytes: 3000,
        archive: Some(PathBuf::from("/archive")),
        ..small()
    }
}

/// Opens, checks the content, and works until the end or until an error.
fn live(disk: &SimDisk, answered: &mut Answered, rounds: u64) -> Result<(), Error> {
    let (mut journal, reader, recovery) =
        FileJournal::open(Arc::new(disk.clone()), &directory(), options())?;
    let start = recovery.durable.sequence;
    assert!(start >= answered.acknowledged, "{start} {answered:?}");
    answered.acknowledged = start;
    check(&reader, start)?;
    if let Some(snapshot) = &recovery.snapshot {
        assert_eq!(reader.snapshots().verify(snapshot)?, None);
    }
    assert_eq!(recovery.damaged_snapshots, []);
    let mut durable = recovery.durable;
    for round in 1..=rounds {
        let mut next = durable.sequence + 1;
        for _ in 0..=round % 3 {
            journal.append(batch(next, 2, length(next)))?;
            next += 2;
        }
        durable = match answered.is_replica {
            true => journal.write()?,
            false => journal.sync()?,
        };
        if round % 4 == 0 {
            assert_eq!(reader.sync()?, durable);
        }
        answered.acknowledged = reader.synced().sequence;
        if round % 2 == 0 {
            journal.work()?;
        }
        if round % 5 == 0 {
            reader.sync()?;
            let mut writer = reader.snapshots().create(durable)?;
            write!(writer, "state at {}", durable.sequence).unwrap();
            writer.finish()?;
        }
        if round % 7 == 0 {
            while journal.work()? {}
            let retention = Retention { max_age: Some(Span::from_seconds(20)), max_bytes: None };
            reader.compact(time(durable.sequence), &retention)?;
        }
    }
    check(&reader, durable.sequence)?;
    answered.acknowledged = journal.close()?.sequence;
    assert_eq!(answered.acknowledged, durable.sequence);
    Ok(())
}

/// Everything from the beginning (of the archive) to the end is there, and is as it was written.
fn check(reader: &FileReader, last: u64) -> Result<(), Error> {
    assert_eq!(reader.first_sequence(), 1);
    let mut next = 1;
    for stored in reader.read(1) {
        let stored = stored?.batch;
        assert_eq!(stored, batch(next, 2, length(next)));
        next += 2;
    }
    assert_eq!(next, last + 1);
    Ok(())
}

fn is_simulated(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::Poisoned { .. })
}

#[test]
fn a_crash_at_any_call_loses_nothing_that_was_acknowledged() {
    crash_at_any_call(Answered::default());
}

#[test]
fn a_crash_at_any_call_loses_nothing_of_a_replica_that_was_synced() {
    crash_at_any_call(REPLICA);
}

fn crash_at_any_call(begin: Answered) {
    let disk = SimDisk::new(0);
    live(&disk, &mut begin.clone(), 40).unwrap();
    let calls = disk.calls();
    assert!(calls > 400, "{calls}");
    for crash in [Crash::Kill, Crash::PowerLoss] {
        for crash_at in 1..=calls {
            let disk = SimDisk::new(crash_at);
            let mut answered = begin;
            let faults = |crash_at| Faults { crash_at, ..Faults::default() };
            disk.reboot(Crash::Kill, faults(Some(crash_at)));
            let error = live(&disk, &mut answered, 40).unwrap_err();
            assert!(is_simulated(&error), "{crash:?} {crash_at}: {error}");
            disk.reboot(crash, faults(None));
            live(&disk, &mut answered, 8)
                .unwrap_or_else(|error| panic!("{crash:?} {crash_at}: {error}"));
        }
    }
}

#[test]
fn crash_upon_crash_loses_nothing_that_was_acknowledged() {
    crash_upon_crash(Answered::default());
}

#[test]
fn crash_upon_crash_loses_nothing_of_a_replica_that_was_synced() {
    crash_upon_crash(REPLICA);
}

fn crash_upon_crash(begin: Answered) {
    for seed in 0..400u64 {
        let disk = SimDisk::new(seed);
        let mut answered = begin;
        let mut random = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
        let mut draw = || {
            let mut bytes = [0; 8];
            random.fill(&mut bytes);
            u64::from_le_bytes(bytes)
        };
        for _ in 0..8 {
            let fails_sync = draw().is_multiple_of(4);
            // Often early, while the leftovers of the previous life are being repaired.
            let soon = draw().is_multiple_of(2);
            let at = Some(1 + draw() % if soon { 40 } else { 250 });
            let crash = if draw().is_multiple_of(2) { Crash::Kill } else { Crash::PowerLoss };
            let faults = Faults {
                crash_at: at.filter(|_| !fails_sync),
                fail_sync_at: at.filter(|_| fails_sync),
                capacity: (draw().is_multiple_of(6)).then(|| 10_000 + draw() % 60_000),
                ..Faults::default()
            };
            disk.reboot(crash, faults);
            match live(&disk, &mut answered, 1 + draw() % 30) {
                Ok(()) => {}
                Err(error) if is_simulated(&error) => {}
                Err(error) => panic!("seed {seed}: {error}"),
            }
        }
        disk.reboot(Crash::PowerLoss, Faults::default());
        live(&disk, &mut answered, 5).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

#[test]
fn a_compaction_whose_sync_fails_is_finished_or_undone() {
    let disk = SimDisk::new(3);
    let mut answered = Answered::default();
    live(&disk, &mut answered, 30).unwrap();
    let retention = Retention { max_age: Some(Span::ZERO), max_bytes: None };
    let (mut failing, mut removed) = (0, 0);
    while removed == 0 {
        failing += 1;
        let disk = disk.copy();
        let (journal, reader, _) =
            FileJournal::open(Arc::new(disk.clone()), &directory(), options()).unwrap();
        let faults = Faults { fail_sync_at: Some(failing), ..Faults::default() };
        disk.reboot(Crash::Kill, faults);
        match reader.compact(time(10_000), &retention) {
            Ok(done) => removed = done.epochs,
            Err(error) => assert!(is_simulated(&error), "{error}"),
        }
        drop(journal);
        for crash_at in 1..=40 {
            let disk = disk.copy();
            let faults = Faults { crash_at: Some(crash_at), ..Faults::default() };
            disk.reboot(Crash::Kill, faults);
            let mut answered = answered;
            let _ = live(&disk, &mut answered, 0);
            disk.reboot(Crash::PowerLoss, Faults::default());
            live(&disk, &mut answered, 0)
                .unwrap_or_else(|error| panic!("{failing} {crash_at}: {error}"));
        }
    }
    assert!(failing > 30 && removed > 1, "{failing} {removed}");
}

/// A start that is killed leaves directories with unsynced names; the next start finds them.
#[test]
fn directories_of_a_killed_start_are_not_lost_later() {
    let deep = Path::new("/srv/ledgers/one");
    for crash_at in 1..=20 {
        for seed in 0..20 {
            let disk = SimDisk::new(seed);
            let faults = Faults { crash_at: Some(crash_at), ..Faults::default() };
            disk.inject(faults);
            let _ = FileJournal::open(Arc::new(disk.clone()), deep, small());
            disk.reboot(Crash::Kill, Faults::default());
            let (mut journal, _, _) =
                FileJournal::open(Arc::new(disk.clone()), deep, small()).unwrap();
            fill(&mut journal, 4, 20);
            drop(journal);
            disk.reboot(Crash::PowerLoss, Faults::default());
            let (_, _, recovery) =
                FileJournal::open(Arc::new(disk.clone()), deep, small()).unwrap();
            assert_eq!(recovery.durable.sequence, 4, "{crash_at} {seed}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_disk() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        let faults = Faults { crash_at: Some(333), ..Faults::default() };
        disk.reboot(Crash::Kill, faults);
        assert!(live(&disk, &mut Answered::default(), 40).is_err() && disk.is_dead());
        disk.reboot(Crash::PowerLoss, Faults::default());
        disk.fingerprint()
    };
    assert_eq!(run(5), run(5));
    let different: std::collections::BTreeSet<String> = (0..20).map(run).collect();
    assert!(different.len() > 1);
}

/// The test has to detect a disk that acknowledges syncs without doing them.
#[test]
fn a_disk_that_lies_is_found_out() {
    let lost = (1..200u64).filter(|seed| {
        let disk = SimDisk::new(*seed);
        let faults = Faults { crash_at: Some(100 + seed), syncs_lie: true, ..Faults::default() };
        disk.reboot(Crash::Kill, faults);
        let mut answered = Answered::default();
        assert!(live(&disk, &mut answered, 40).is_err());
        disk.reboot(Crash::PowerLoss, Faults::default());
        let opened = FileJournal::open(Arc::new(disk), &directory(), small());
        match opened {
            Ok((_, _, recovery)) => recovery.durable.sequence < answered.acknowledged,
            Err(error) => error.is_damage(),
        }
    });
    assert!(lost.count() > 100);
}

#[test]
fn a_failed_sync_is_final() {
    let disk = SimDisk::new(1);
    let (mut journal, reader, _) =
        FileJournal::open(Arc::new(disk.clone()), &directory(), small()).unwrap();
    let durable = fill(&mut journal, 10, 20);
    let faults = Faults { fail_sync_at: Some(2), ..Faults::default() };
    disk.reboot(Crash::Kill, faults);
    journal.append(batch(11, 2, 20)).unwrap();
    let error = journal.sync().unwrap_err();
    assert!(matches!(error, Error::Io { operation: crate::Operation::SyncFile, .. }), "{error}");
    for _ in 0..3 {
        let again = journal.sync().unwrap_err().to_string();
        assert!(again.contains("fdatasync"), "{again}");
        assert!(matches!(journal.append(batch(11, 2, 20)), Err(Error::Poisoned { .. })));
    }
    assert!(reader.poisoned().is_some());
    assert_eq!(reader.durable(), durable);
    drop(journal);
    disk.reboot(Crash::PowerLoss, Faults::default());
    let (_journal, reader, recovery) =
        FileJournal::open(Arc::new(disk), &directory(), small()).unwrap();
    assert!(recovery.durable.sequence >= 10);
    assert!(read(&reader, 1).unwrap().len() >= 5);
}

/// A replica that continues without syncs has everything that a killed process leaves; a power loss loses only unsynced
/// frames.
#[test]
fn what_was_only_written_is_lost_with_the_power_alone() {
    let mut lost = 0;
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        let (mut journal, reader, _) =
            FileJournal::open(Arc::new(disk.clone()), &directory(), small()).unwrap();
        let synced = fill(&mut journal, 4, 20);
        for first in [5, 7, 9] {
            journal.append(batch(first, 2, 20)).unwrap();
            journal.write().unwrap();
        }
        assert_eq!((reader.durable().sequence, reader.synced()), (10, synced));
        assert_eq!(read(&reader, 1).unwrap().len(), 5);
        drop(journal);
        let killed = disk.copy();
        killed.reboot(Crash::Kill, Faults::default());
        let (_journal, _, recovery) =
            FileJournal::open(Arc::new(killed), &directory(), small()).unwrap();
        assert_eq!(recovery.durable.sequence, 10);
        disk.reboot(Crash::PowerLoss, Faults::default());
        let (_journal, _, recovery) =
            FileJournal::open(Arc::new(disk), &directory(), small()).unwrap();
        let end = recovery.durable.sequence;
        assert!((4..=10).contains(&end), "{end}");
        lost += u64::from(end < 10);
    }
    assert!(lost > 10, "{lost}");
}

#[test]
fn a_failed_sync_of_what_was_written_is_final() {
    let disk = SimDisk::new(1);
    let (mut journal, reader, _) =
        FileJournal::open(Arc::new(disk.clone()), &directory(), small()).unwrap();
    let synced = fill(&mut journal, 4, 20);
    let faults = Faults { fail_sync_at: Some(1), ..Faults::default() };
    disk.reboot(Crash::Kill, faults);
    journal.append(batch(5, 2, 20)).unwrap();
    journal.write().unwrap();
    assert!(reader.sync().is_err());
    assert!(reader.poisoned().is_some());
    assert_eq!(reader.synced(), synced);
    assert!(reader.sync().is_err() && journal.sync().is_err());
}
