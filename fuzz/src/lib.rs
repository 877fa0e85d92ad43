//! The fuzz targets: one function for each, which panics on an error.
//!
//! The functions are called by libFuzzer (`targets/`), and with every file of the corpus by a plain test
//! (`tests/fuzz_corpus.rs` of the daemon), which needs no nightly toolchain.

#![allow(clippy::unwrap_used, reason = "a target fails by panicking")]

pub mod admission;
pub mod audit;
pub mod checkpoint;
pub mod config;
pub mod entries;
pub mod events;
pub mod fold;
pub mod http;
pub mod import;
pub mod journal;
pub mod kube;
pub mod listing;
pub mod quantity;
pub mod snapshot;
mod world;

/// A target: its name, which is also that of its corpus, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// Every target.
pub const TARGETS: &[Target] = &[
    ("admission", admission::run),
    ("audit", audit::run),
    ("checkpoint", checkpoint::run),
    ("config", config::run),
    ("entries", entries::run),
    ("events", events::run),
    ("fold", fold::run),
    ("http", http::run),
    ("import", import::run),
    ("journal", journal::run),
    ("kube", kube::run),
    ("listing", listing::run),
    ("quantity", quantity::run),
    ("snapshot", snapshot::run),
];
