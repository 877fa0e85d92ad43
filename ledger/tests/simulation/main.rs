//! Simulation: the whole core on a simulated disk, clock, network and stream, from a seed. See `docs/simulation.md`.
//!
//! `QUOTAD_SIM_SEEDS`: how many seeds from 0 on (20,000). `QUOTAD_SIM_FRESH`: how many besides that nobody has seen
//! (2,000), from `QUOTAD_SIM_BASE` or from the clock. `QUOTAD_SIM_SEED`: the seed of the test `one`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::result_large_err, reason = "a job that is refused comes back")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test asks for its settings and its time"
)]

mod account;
mod clients;
mod daemon;
mod random;
mod report;
mod run;
mod session;
mod settings;
mod settle;
mod stream;
#[path = "../laws/things.rs"]
#[allow(dead_code, reason = "shared with the laws")]
mod things;
mod world;

use std::time::{SystemTime, UNIX_EPOCH};

use planted::Bug;

use run::{Outcome, first_failing, run, shards};

/// Seeds that have failed once, with what was wrong.
const KEPT: &str = include_str!("seeds.txt");

/// A planted bug has to be found within so many seeds: the fewest that are ever run.
const BUDGET: u64 = 20_000;

/// Reports that hold fewer seeds may lack a kind of fault.
const ENOUGH: u64 = 2_000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn kept() -> impl Iterator<Item = u64> {
    let seeds = KEPT
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    seeds.filter_map(|seed| seed.parse().ok())
}

/// One seed, and everything that happens in it.
#[test]
fn one() {
    let Some(seed) = number("QUOTAD_SIM_SEED") else {
        return;
    };
    let outcome = run(seed, None, true);
    println!("{}trace {}", outcome.report, outcome.trace);
    assert_eq!(outcome.failed, None, "seed {seed}");
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..100 {
        let (once, again) = (run(seed, None, false), run(seed, None, false));
        assert_eq!(
            (once.trace, once.report),
            (again.trace, again.report),
            "seed {seed}"
        );
    }
    assert_ne!(run(1, None, false).trace, run(2, None, false).trace);
}

#[test]
fn seeds() {
    let count = number("QUOTAD_SIM_SEEDS").unwrap_or(BUDGET);
    let fresh = number("QUOTAD_SIM_FRESH").unwrap_or(2_000);
    let base = number("QUOTAD_SIM_BASE").unwrap_or_else(|| {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        (since.as_secs() << 20) | BUDGET.next_power_of_two()
    });
    let (report, failed) = shards(kept().chain(0..count).chain(base..base + fresh));
    println!(
        "{report}seeds: {} kept, {count} from 0, {fresh} from {base}",
        kept().count()
    );
    for Outcome { seed, failed, .. } in failed.iter().take(20) {
        println!("seed {seed}: {}", failed.as_deref().unwrap_or_default());
        println!("    QUOTAD_SIM_SEED={seed} tests/simulate one --nocapture");
    }
    assert!(
        failed.is_empty(),
        "{} seeds failed: keep them in seeds.txt",
        failed.len()
    );
    let missing = report.missing();
    assert!(
        count < ENOUGH || missing.is_empty(),
        "never happened: {missing:?}"
    );
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::LEDGER {
        match first_failing(0..BUDGET, *bug) {
            Some(Outcome { seed, failed, .. }) => {
                let why: String = failed.unwrap_or_default().chars().take(90).collect();
                println!("| {} | {seed} | {} |", bug.what(), why.replace('|', "/"));
            }
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
