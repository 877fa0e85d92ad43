//! Simulation: members of a cluster on a simulated stream and network, with simulated clocks and clients, from a seed.
//! The state machine on top is the ledger's own. See `docs/simulation.md`, and `quota_testkit::simulation` for the settings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod account;
mod clients;
mod process;
mod stream;
mod world;

use world::World;

/// Runs one seed, and prints everything that happens.
#[test]
fn one() {
    quota_testkit::simulation::one::<World>();
}

#[test]
fn the_same_seed_is_the_same_world() {
    quota_testkit::simulation::repeat::<World>(50);
}

#[test]
fn seeds() {
    quota_testkit::simulation::seeds::<World>();
}
