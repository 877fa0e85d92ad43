//! Simulation: members of a cluster on a stream, a network, clocks and clients that do not exist, from a seed. The state
//! machine on top is the ledger's own. See `docs/simulation.md`, and `quota_simulation` for the settings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod account;
mod clients;
mod process;
mod stream;
mod world;

use world::World;

/// One seed, and everything that happens in it.
#[test]
fn one() {
    quota_simulation::one::<World>();
}

#[test]
fn the_same_seed_is_the_same_world() {
    quota_simulation::repeat::<World>(50);
}

#[test]
fn seeds() {
    quota_simulation::seeds::<World>();
}

#[test]
fn every_planted_bug_is_found() {
    quota_simulation::planted_bugs::<World>();
}
