//! Histories of a ledger, for tests: what can happen in them, and a world that runs them. The laws of the core choose
//! their steps at random, and a fuzz target reads them from its input, so that there is only one model of a history.

#![allow(clippy::unwrap_used, reason = "it is for tests, which fail by panicking")]

pub mod groups;
pub mod listings;
pub mod steps;
pub mod things;
pub mod world;
