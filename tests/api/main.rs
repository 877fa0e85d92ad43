//! The HTTP API, call by call, on a real journal in a directory of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test fails by panicking")]

mod batches;
mod bounds;
mod commits;
mod described;
mod drift;
mod groups;
mod invalid;
mod namespaces;
mod overview;
mod problems;
mod quotas;
mod races;
mod reading;
mod relists;
mod reservations;
mod room;
mod simulate;
mod subjects;
mod unlimited;
mod watching;
mod world;
