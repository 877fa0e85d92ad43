//! The common part of simulations: seeds run on all processors, and a seed always gives the same run. The worlds are in the tests of `quota-ledger` and `quota-replication`.
//!
//! `QUOTAD_SIM_SEEDS`: the number of seeds, from 0 on (100). `QUOTAD_SIM_FRESH`: the number of additional new seeds (20),
//! from `QUOTAD_SIM_BASE` or from the clock. `QUOTAD_SIM_SEED`: the seed of the test `one`.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by panicking"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "a test reads its settings, and takes new seeds from the clock"
)]

mod random;
mod report;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Mutex,
    time::{SystemTime, UNIX_EPOCH},
};

pub use random::Random;
pub use report::Report;

/// A simulated world.
pub trait World: Sized {
    /// Events that have to happen in a run of many seeds; otherwise the simulation itself is faulty.
    const EXPECTED: &'static [&'static str];
    /// Runs of fewer seeds may lack an expected event.
    const ENOUGH: u64;
    /// Seeds that have failed before, one per line: the seed, then the error.
    const KEPT: &'static str = "";

    /// The world of a seed. If `verbose`, all events are printed.
    fn new(seed: u64, verbose: bool) -> Self;

    /// Runs until the world is at rest.
    ///
    /// # Errors
    /// The violated invariant.
    fn run(&mut self) -> Result<(), String>;

    /// A hash of all events.
    fn trace(&self) -> String;

    /// How often each event happened.
    fn report(&self) -> &Report;
}

/// The result of a run.
#[derive(Debug)]
struct Outcome {
    seed: u64,
    /// The error.
    failed: Option<String>,
    trace: String,
    report: Report,
}

/// Runs `QUOTAD_SIM_SEED`, if it is set, and prints all events.
pub fn one<W: World>() {
    let Some(seed) = number("QUOTAD_SIM_SEED") else {
        return;
    };
    let outcome = run::<W>(seed, true);
    println!("{}trace {}", outcome.report, outcome.trace);
    assert_eq!(outcome.failed, None, "seed {seed}");
}

/// Runs each of this many seeds twice: both runs have to be the same.
pub fn repeat<W: World>(count: u64) {
    let quiet = |seed| run::<W>(seed, false);
    for seed in 0..count {
        let (once, again) = (quiet(seed), quiet(seed));
        assert_eq!((once.trace, once.report), (again.trace, again.report), "seed {seed}");
    }
    assert_ne!(quiet(1).trace, quiet(2).trace);
}

/// Runs the kept seeds, those from 0 on, and some new ones: none may fail.
pub fn seeds<W: World>() {
    let count = number("QUOTAD_SIM_SEEDS").unwrap_or(100);
    let fresh = number("QUOTAD_SIM_FRESH").unwrap_or(20);
    let base = number("QUOTAD_SIM_BASE").unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        (since.as_secs() << 20) | (1 << 15)
    });
    let kept = kept(W::KEPT);
    let all = kept.iter().copied().chain(0..count);
    let (report, failed) = run_all::<W>(all.chain(base..base + fresh));
    println!("{report}seeds: {} kept, {count} from 0, {fresh} from {base}", kept.len());
    for Outcome { seed, failed, .. } in failed.iter().take(20) {
        println!("seed {seed}: {}", failed.as_deref().unwrap_or_default());
        println!("    QUOTAD_SIM_SEED={seed} tests/simulate one --nocapture");
    }
    assert!(failed.is_empty(), "{} seeds failed: keep them", failed.len());
    let missing = report.missing(W::EXPECTED);
    assert!(count < W::ENOUGH || missing.is_empty(), "never happened: {missing:?}");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn kept(text: &str) -> Vec<u64> {
    let first = |line: &str| line.split_whitespace().next()?.parse().ok();
    text.lines().filter_map(first).collect()
}

/// Runs one seed.
fn run<W: World>(seed: u64, verbose: bool) -> Outcome {
    let mut world = W::new(seed, verbose);
    let ended = catch_unwind(AssertUnwindSafe(|| world.run()));
    let failed = match ended {
        Ok(checked) => checked.err(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Some(format!("panic: {}", text.unwrap_or_default()))
        }
    };
    Outcome { seed, failed, trace: world.trace(), report: world.report().clone() }
}

/// Runs seeds on all processors; returns the sum of their reports, and the runs that failed, by seed.
fn run_all<W: World>(seeds: impl Iterator<Item = u64> + Send) -> (Report, Vec<Outcome>) {
    let result = Mutex::new((Report::default(), Vec::new()));
    each(seeds, |seed| {
        let outcome = run::<W>(seed, false);
        let mut result = result.lock().unwrap();
        result.0.merge(&outcome.report);
        if outcome.failed.is_some() {
            result.1.push(outcome);
        }
        true
    });
    let (report, mut failed) = result.into_inner().unwrap();
    failed.sort_by_key(|outcome| outcome.seed);
    (report, failed)
}

/// Distributes seeds in order to one thread per processor, until a visit returns false or none are left.
fn each(seeds: impl Iterator<Item = u64> + Send, visit: impl Fn(u64) -> bool + Sync) {
    let seeds = Mutex::new(seeds);
    let work = || {
        loop {
            let next = seeds.lock().unwrap().next();
            if !next.is_some_and(&visit) {
                return;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
}
