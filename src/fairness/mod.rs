//! Fair shares of what principals compete for: the writer, and the processors.
//!
//! Every principal has one share, however many requests, connections or namespaces it has. For processor time, two
//! places enforce it, with the same parts (watches, expensive readers and bytes of bodies have bounds of their own:
//! `watch_slots`, `api::readers`, `server::body_budget`):
//!
//! - [`Lanes`]: the writer's queue. Principals take turns, one decision each, behind the cluster's own jobs.
//! - [`Permit`]: the bounded pool of threads for expensive reads, [`pool`]. Principals take turns, one answer each.
//!
//! Both keep jobs in [`Turns`], and the processor time of each principal in [`Accounts`](turns::Accounts). A principal whose work was
//! expensive waits while others are active ([`ACTIVITY`]); a principal that is alone never waits. Work that takes long
//! yields the processor after each step ([`throttle`]).

mod lanes;
mod pool;
#[cfg(test)]
mod tests;
pub(crate) mod throttle;
mod turns;

pub(crate) use lanes::{Lane, Lanes, Queued};
pub(crate) use pool::{AMOUNTS_AT_ONCE, BYTES_PER_AMOUNT, NAMES_AT_ONCE, Permit, Turn, make_sized};
pub(crate) use turns::ACTIVITY;
use turns::Turns;
