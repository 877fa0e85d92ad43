//! Simulation: members of a cluster on a stream, a network, clocks and clients that do not exist, from a seed. The state
//! machine on top is the ledger's own. See `docs/simulation.md`.
//!
//! `QUOTAD_SIM_SEEDS`: how many seeds from 0 on (20,000). `QUOTAD_SIM_FRESH`: how many besides that nobody has seen
//! (2,000), from `QUOTAD_SIM_BASE` or from the clock. `QUOTAD_SIM_SEED`: the seed of the test `one`.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(
    clippy::disallowed_methods,
    reason = "a test asks for its settings and its time"
)]

mod account;
mod clients;
mod process;
#[path = "../../../tests/simulation/random.rs"]
mod random;
mod run;
mod stream;
mod world;

use std::time::{SystemTime, UNIX_EPOCH};

use planted::Bug;

use run::{Outcome, first_failing, run, shards};

/// A planted bug has to be found within so many seeds: the fewest that are ever run.
const BUDGET: u64 = 20_000;

/// Reports that hold fewer seeds may lack a kind of fault.
const ENOUGH: u64 = 500;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// One seed, and everything that happens in it.
#[test]
fn one() {
    let Some(seed) = number("QUOTAD_SIM_SEED") else {
        return;
    };
    let outcome = run(seed, None, true);
    println!("{}trace {:016x}", outcome.report, outcome.trace);
    assert_eq!(outcome.failed, None, "seed {seed}");
}

#[test]
fn the_same_seed_is_the_same_world() {
    for seed in 0..50 {
        let (once, again) = (run(seed, None, false), run(seed, None, false));
        assert_eq!(once.trace, again.trace, "seed {seed}");
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
    let (report, failed) = shards((0..count).chain(base..base + fresh));
    println!("{report}seeds: {count} from 0, {fresh} from {base}");
    for Outcome { seed, failed, .. } in failed.iter().take(20) {
        println!("seed {seed}: {}", failed.as_deref().unwrap_or_default());
        println!("    QUOTAD_SIM_SEED={seed} tests/simulate one --nocapture");
    }
    assert!(failed.is_empty(), "{} seeds failed", failed.len());
    let missing = report.missing();
    assert!(
        count < ENOUGH || missing.is_empty(),
        "never happened: {missing:?}"
    );
}

#[test]
fn every_planted_bug_is_found() {
    let mut missed = Vec::new();
    for bug in Bug::CLUSTER {
        match first_failing(0..BUDGET, *bug) {
            Some(Outcome { seed, failed, .. }) => {
                let why: String = failed.unwrap_or_default().chars().take(110).collect();
                println!("| {} | {seed} | {} |", bug.what(), why.replace('|', "/"));
            }
            None => missed.push(bug),
        }
    }
    assert!(missed.is_empty(), "not found: {missed:?}");
}
