//! The real daemon on a disk that fails: every call that changes a file may be the last one, may fail, or may be
//! forgotten by a power cut. What was acknowledged is there again, or the daemon says what is damaged.
//!
//! By default some calls are tried; `QUOTAD_FAULTS=all` tries each of them, `QUOTAD_FAULTS=5` each fifth one of each kind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod full;
mod power;
mod session;
use quota_test_support as support;
mod tape;

use std::path::Path;

use tempfile::TempDir;

/// A directory in memory, where there is one: what is synced there does not wait for a disk.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    TempDir::new_in(memory).unwrap_or_else(|_| TempDir::new().unwrap())
}
