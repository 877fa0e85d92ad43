//! Power cuts: what the daemon did to its disk is recorded, and played up to any place; of what was not synced there
//! a part is left. Then the ledger opens, with all that was acknowledged before.

use std::{
    fs::File,
    io::Write as _,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use quota_journal::{disk::RealDisk, verify};
use quota_semantics::uid::Uid;
use quotad::{config::Config, recovery::recover};

use crate::{
    session::{Told, ask, daemon, script},
    support::{in_memory, quotad::Quotad, random::Random, shim},
    tape::{Disk, Record, acknowledgement, read},
};

/// States that are tried by default.
const STATES: usize = 400;

const WORKERS: usize = 2;

/// Two lives on one tape; the second one is killed at its end. Returns the states that clients were sent, in order.
fn record(directory: &Path, tape: &Path) -> Vec<Told> {
    let mut told = vec![Told::default()];
    let mut between = File::options().append(true).create(true).open(tape).unwrap();
    for (name, filling) in [("one", 150), ("two", 90)] {
        let mut command = daemon(directory);
        shim::load(&mut command, directory);
        command.env("FAULT_TAPE", tape);
        let started = Quotad::try_start(directory, &mut command).unwrap();
        let mut last = told.last().unwrap().clone();
        let steps = script(name, filling);
        assert!(ask(&started, &steps, &mut last, |now| {
            between.write_all(&acknowledgement(told.len())).unwrap();
            told.push(now.clone());
        }));
        match name {
            "one" => assert_eq!(started.stop().code(), Some(0)),
            _ => started.kill(),
        }
    }
    told
}

/// What is wrong with what a power cut left.
fn look(directory: &Path, told: &Told) -> Vec<String> {
    let data = directory.join("data");
    let archive = directory.join("archive");
    let mut wrong = Vec::new();
    if data.join("LEDGER").exists() {
        let archive = archive.exists().then_some(archive.as_path());
        match verify(Arc::new(RealDisk), &data, archive, 1, &()) {
            Ok(found) => {
                wrong.extend(found.damages.iter().map(|damage| format!("verify: {damage}")));
            }
            Err(error) => wrong.push(format!("verify: {error}")),
        }
    }
    let mut config = Config { data_dir: data, ..Config::default() };
    config.retention.archive_dir = Some(archive);
    let recovered = match recover(&config, quota_journal::Throttle::default()) {
        Ok(recovered) => recovered,
        Err(error) => {
            wrong.push(format!("it does not open: {error}"));
            return wrong;
        }
    };
    let state = &recovered.state;
    if state.head().sequence < told.sequence {
        wrong.push(format!("{} of {} entries", state.head().sequence, told.sequence));
    }
    let quotas = told.quotas.keys().filter(|name| state.quota("team-a", name).is_none());
    wrong.extend(quotas.map(|name| format!("quota {name} is lost")));
    for (uid, expected) in &told.reservations {
        let found = state.reservation("team-a", &Uid::new(uid).unwrap());
        if found.is_none() {
            wrong.push(format!("reservation {uid}, {expected}, is lost"));
        }
    }
    wrong
}

/// What a power cut at a place that the seed says does to what was recorded.
fn cut(mut disk: Disk, records: &[Record], told: &[Told], root: &Path, seed: u64) -> Vec<String> {
    let mut random = Random::new(seed, "power");
    let end = random.index(records.len() + 1);
    records[..end].iter().for_each(|record| disk.play(record));
    let place = in_memory();
    disk.cut(root, place.path(), &mut |bound| random.index(bound));
    let told = &told[disk.acknowledged.unwrap_or(0)];
    let wrong = look(place.path(), told);
    let kept = match wrong.is_empty() || std::env::var_os("QUOTAD_FAULTS_KEEP").is_none() {
        true => String::new(),
        false => format!(", kept in {}", place.keep().display()),
    };
    let name = |what: String| format!("seed {seed}, cut at record {end}{kept}: {what}");
    wrong.into_iter().map(name).collect()
}

#[test]
fn what_was_acknowledged_outlives_a_power_cut_at_any_place() {
    let all = std::env::var("QUOTAD_FAULTS").is_ok_and(|setting| setting == "all");
    let states = if all { 10 * STATES } else { STATES };
    let place = in_memory();
    let root = place.path().join("disk");
    std::fs::create_dir(&root).unwrap();
    let tape = place.path().join("tape");
    let told = record(&root, &tape);
    let records = read(&tape);
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= states {
                        return;
                    }
                    let found = cut(Disk::default(), &records, &told, &root, seed as u64);
                    wrong.lock().unwrap().extend(found);
                }
            });
        }
    });
    println!("{states} power cuts in {} calls", records.len());
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{} in {states}: {wrong:#?}", wrong.len());
    // That it would be seen.
    let lost = (0..20).flat_map(|seed| cut(Disk::lying(), &records, &told, &root, seed));
    assert!(lost.count() > 0, "a disk that does not sync is not noticed");
}
