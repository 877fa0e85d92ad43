//! The real daemon on a disk that fails: every call that changes a file may be the last one, may fail, or may be
//! forgotten by a power cut. What was acknowledged is there again, or the daemon says what is damaged.
//!
//! By default some calls are tried; `QUOTAD_FAULTS=all` tries each of them, `QUOTAD_FAULTS=5` each fifth one of each kind.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod calls;
mod full;
mod power;
mod session;
use quota_testkit as support;
mod tape;
