//! Simulation: the whole core on a simulated disk, clock, network and stream, from a seed. See `docs/simulation.md`, and
//! `quota_testkit::simulation` for the settings.

#![allow(clippy::unwrap_used, reason = "a test may fail")]
#![allow(clippy::result_large_err, reason = "a job that is refused comes back")]

mod account;
mod clients;
mod daemon;
mod session;
mod settings;
mod settle;
mod stream;
mod world;

use quota_testkit::histories::things;
use world::World;

/// Runs one seed, and prints everything that happens.
#[test]
fn one() {
    quota_testkit::simulation::one::<World>();
}

#[test]
fn the_same_seed_is_the_same_world() {
    quota_testkit::simulation::repeat::<World>(100);
}

#[test]
fn seeds() {
    quota_testkit::simulation::seeds::<World>();
}
