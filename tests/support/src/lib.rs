//! What tests and benches of several subjects have in common: daemons, servers and faults, as processes of their own.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::should_implement_trait,
    reason = "it is for tests, which fail by panicking"
)]

pub mod callers;
pub mod cluster;
pub mod docs;
pub mod linear;
pub mod nats;
pub mod nodes;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod publisher;
pub mod quotad;
pub mod random;
pub mod shim;

use std::time::{Duration, Instant};

/// How long something may take that has to happen at some time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until the answer is there.
pub async fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// As [`until`], without a runtime, for at most so long.
pub fn wait_for<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + patience;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
