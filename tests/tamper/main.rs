//! Tampering: whatever is changed in the stored bytes is repaired or reported, never silently accepted.
//!
//! `QUOTAD_TAMPER_CASES` says how often each kind of file is changed in each way, `QUOTAD_TAMPER_SEED` how.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod checkpoints;
mod ledger;
mod mutation;
use quota_testkit as support;

use std::{
    collections::BTreeMap,
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    time::Duration,
};

use check::{Found, Outcome};
use ledger::{Ledger, copy_directory, files};
use mutation::{Kind, Mutation, SINGLE, apply, kind, roll_back_set};
use support::{in_memory, number, random::Random};

/// How often each combination is tried, unless the environment says otherwise.
const CASES: u64 = 3;

/// Longest time that a check of this ledger can take.
const LIMIT: Duration = Duration::from_secs(60);

/// What cannot be done: there is only one such file, it has no number, or it is never written again.
fn cannot_be(kind: Kind, mutation: Mutation) -> bool {
    use Kind::{Archive, Closed, LogSegment, Seal, SealedConf, SealedDb, SealedSnap, Snapshot};
    match mutation {
        // sled's configuration is the same everywhere.
        Mutation::SwapFiles => {
            ![LogSegment, Seal, SealedDb, SealedSnap, Snapshot, Archive].contains(&kind)
        }
        Mutation::Duplicate => ![LogSegment, Snapshot, Archive].contains(&kind),
        Mutation::RollBack => [
            Seal,
            Closed,
            SealedConf,
            SealedSnap,
            Snapshot,
            Archive,
            Kind::LiveConf,
            Kind::LiveSnap,
        ]
        .contains(&kind),
        _ => false,
    }
}

/// Whether there is an earlier version of a file.
fn was_another(ledger: &Ledger, path: &Path) -> bool {
    let now = fs::read(ledger.directory.join(path)).unwrap();
    let another = |copy: &PathBuf| fs::read(copy.join(path)).is_ok_and(|then| then != now);
    ledger.earlier.iter().any(another)
}

type Counts = BTreeMap<(Kind, Mutation), BTreeMap<Outcome, u64>>;

/// Checks a changed ledger by both; what must not be is an error.
fn judge(ledger: &Ledger, home: &Path) -> Result<Outcome, String> {
    let ran = catch_unwind(AssertUnwindSafe(|| {
        let copy = home.join("opened");
        copy_directory(&home.join("changed"), &copy);
        let verified = check::verify(ledger, &home.join("changed"));
        (verified, check::open(ledger, &copy))
    }));
    match ran {
        Err(_) => Err("it panicked".to_owned()),
        Ok((Found::Wrong(why), _)) => Err(format!("verify: {why}")),
        Ok((_, Found::Wrong(why))) => Err(format!("open: {why}")),
        Ok((Found::Same, Found::Same)) => Ok(Outcome::Repaired),
        // The epoch that was filled from a log shows that the log was rolled back; the daemon fills the epoch again.
        Ok((Found::Damage(_), Found::Same | Found::Damage(_) | Found::Earlier)) => {
            Ok(Outcome::Reported)
        }
        Ok((Found::Earlier, Found::Earlier)) => Ok(Outcome::Checkpoint),
        Ok((verified, opened)) => Err(format!("verify: {verified}; open: {opened}")),
    }
}

/// One case, on a copy; none if it changes nothing.
fn case(ledger: &Ledger, job: &Job) -> Option<Result<Outcome, String>> {
    let home = in_memory();
    let changed = home.path().join("changed");
    copy_directory(&ledger.directory, &changed);
    let mut random = Random::new(job.seed, "tamper");
    let change = match &job.path {
        Some(path) => {
            let change = apply(job.mutation, &changed, path, &ledger.earlier, &mut random)?;
            format!("{}: {change}", path.display())
        }
        None => {
            let earlier = random.of(&ledger.earlier).clone();
            roll_back_set(&changed, &earlier, &mut random)
        }
    };
    let judged = judge(ledger, home.path());
    Some(judged.map_err(|why| format!("{job:?}: {change}: {why}")))
}

/// One thing to do.
#[derive(Clone, Debug)]
struct Job {
    ledger: usize,
    /// None: to many files.
    path: Option<PathBuf>,
    kind: Kind,
    mutation: Mutation,
    seed: u64,
}

/// Each kind of file in each way, so many times.
fn jobs(ledgers: &[Ledger], cases: u64, seed: u64) -> Vec<Job> {
    let mut random = Random::new(seed, "tamper");
    let mut jobs = Vec::new();
    for (number, ledger) in ledgers.iter().enumerate() {
        let mut kinds: BTreeMap<Kind, Vec<PathBuf>> = BTreeMap::new();
        for path in files(&ledger.directory) {
            if let Some(kind) = kind(&ledger.directory, &path) {
                kinds.entry(kind).or_default().push(path);
            }
        }
        kinds.remove(&Kind::Checkpoints);
        for (kind, paths) in &kinds {
            for mutation in SINGLE {
                let mut paths = paths.clone();
                if mutation == Mutation::RollBack {
                    paths.retain(|path| was_another(ledger, path));
                }
                if paths.is_empty() {
                    continue;
                }
                jobs.extend((0..cases).map(|_| Job {
                    ledger: number,
                    path: Some(random.of(&paths).clone()),
                    kind: *kind,
                    mutation,
                    seed: random.next(),
                }));
            }
        }
        jobs.extend((0..cases * 15).map(|_| Job {
            ledger: number,
            path: None,
            kind: Kind::Many,
            mutation: Mutation::RollBackSet,
            seed: random.next(),
        }));
    }
    jobs
}

/// Does all jobs; gives what became of them, and what must not be.
fn run(ledgers: &[Ledger], jobs: &[Job]) -> (Counts, Vec<String>) {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let next = AtomicUsize::new(0);
    let under_way: Vec<Mutex<Option<Job>>> = (0..workers).map(|_| Mutex::default()).collect();
    let (sender, done) = mpsc::channel();
    std::thread::scope(|scope| {
        for slot in &under_way {
            let (sender, next) = (sender.clone(), &next);
            scope.spawn(move || {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    *slot.lock().unwrap() = Some(job.clone());
                    let judged = case(&ledgers[job.ledger], job);
                    sender.send((job, judged)).unwrap();
                }
            });
        }
        drop(sender);
        let (mut counts, mut wrong) = (Counts::new(), Vec::new());
        loop {
            match done.recv_timeout(LIMIT) {
                Ok((job, judged)) => {
                    let counts = counts.entry((job.kind, job.mutation)).or_default();
                    match judged {
                        Some(Ok(outcome)) => *counts.entry(outcome).or_default() += 1,
                        Some(Err(why)) => wrong.push(why),
                        None => {}
                    }
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => return (counts, wrong),
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    // A thread that hangs cannot be joined.
                    eprintln!("it hangs: {under_way:?}");
                    std::process::abort();
                }
            }
        }
    })
}

#[test]
fn whatever_is_changed_is_repaired_or_reported() {
    // sled's own panics are caught and reported as damage; there are thousands of them.
    std::panic::set_hook(Box::new(|_| {}));
    let cases = number("QUOTAD_TAMPER_CASES").unwrap_or(CASES);
    let seed = number("QUOTAD_TAMPER_SEED").unwrap_or(1);
    let ledgers = [Ledger::new(true), Ledger::new(false)];
    let jobs = jobs(&ledgers, cases, seed);
    let (counts, wrong) = run(&ledgers, &jobs);
    drop(std::panic::take_hook());
    let mut sum = 0;
    for ((kind, mutation), outcomes) in &counts {
        sum += outcomes.values().sum::<u64>();
        println!("{:12} {:12} {outcomes:?}", format!("{kind:?}"), format!("{mutation:?}"));
    }
    println!("{sum} changes, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{} of {sum}:\n{}", wrong.len(), wrong.join("\n"));
    for kind in Kind::ALL {
        for mutation in SINGLE {
            let fired = counts.get(&(kind, mutation)).is_some_and(|outcomes| !outcomes.is_empty());
            assert!(fired != cannot_be(kind, mutation), "{kind:?} {mutation:?}: {fired}");
        }
    }
    let many = &counts[&(Kind::Many, Mutation::RollBackSet)];
    assert_eq!(many.len(), 3, "{many:?}");
}
