//! What the measurements share: the load generator, the world that the core is measured with, processes, figures and
//! their report.
//!
//! Except for the load generator, each function panics where a measurement cannot go on.

pub mod disk;
pub mod document;
pub mod events;
pub mod load;
pub mod machine;
pub mod measured;
pub mod process;
pub mod world;

use std::{env, path::PathBuf, str::FromStr};

pub use quota_testkit::programs;

/// Whether this was started to measure: cargo runs benches without `--bench` to see whether they start.
pub fn is_wanted() -> bool {
    env::args().any(|argument| argument == "--bench")
}

/// A setting of a run, from the environment.
pub fn setting<T: FromStr>(name: &str, default: T) -> T {
    match env::var(name) {
        Err(_) => default,
        Ok(text) => {
            text.parse().unwrap_or_else(|_| panic!("{name}={text:?} is not what it should be"))
        }
    }
}

/// Directories of what is measured: all on one file system, which must be a real disk.
pub fn directory() -> tempfile::TempDir {
    let parent = setting("BENCH_DIR", PathBuf::from("/var/tmp"));
    let mut builder = tempfile::Builder::new();
    builder.prefix("quota-ledger-bench-");
    builder
        .tempdir_in(&parent)
        .unwrap_or_else(|error| panic!("BENCH_DIR {}: {error}", parent.display()))
}
