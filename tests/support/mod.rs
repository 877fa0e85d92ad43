//! What tests of several subjects have in common.

#![allow(
    dead_code,
    clippy::unwrap_used,
    reason = "each test uses a part; a test fails by panicking"
)]

pub(crate) mod cluster;
pub(crate) mod daemon;
pub(crate) mod nats;
pub(crate) mod nodes;
pub(crate) mod programs;
pub(crate) mod proxy;
pub(crate) mod publisher;
pub(crate) mod quotad;
pub(crate) mod random;
pub(crate) mod shim;

use std::time::{Duration, Instant};

/// How long something may take that has to happen at some time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Asks again until the answer is there.
pub(crate) async fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "never happened: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
