//! Simulation: the whole core on a simulated disk, clock, network and stream, from a seed. See `docs/simulation.md`.

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

use run::{Outcome, run, shards};

/// One seed, with all that it counts: `QUOTAD_SIM_SEED=7 cargo test … --test simulation -- one --nocapture`.
#[test]
fn one() {
    let Some(seed) = number("QUOTAD_SIM_SEED") else {
        return;
    };
    let outcome = run(seed, true);
    println!("{}trace {}", outcome.report, outcome.trace);
    assert_eq!(outcome.failed, None, "seed {seed}");
}

#[test]
fn seeds() {
    let count = number("QUOTAD_SIM_SEEDS").unwrap_or(5000);
    let base = number("QUOTAD_SIM_BASE").unwrap_or(0);
    let started = std::time::Instant::now();
    let (report, failed) = shards(base..base + count);
    println!("{report}{count} seeds in {:?}", started.elapsed());
    for Outcome { seed, failed, .. } in failed.iter().take(20) {
        println!("seed {seed}: {}", failed.as_deref().unwrap_or_default());
    }
    assert!(failed.is_empty(), "{} failed", failed.len());
    // A kind of fault that never was would prove nothing.
    let missing = report.missing();
    assert!(count < 5000 || missing.is_empty(), "never was: {missing:?}");
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}
