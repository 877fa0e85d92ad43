//! Daemons, servers and faults, as processes of their own, and a Kubernetes API without a cluster.

pub mod callers;
pub mod certificates;
pub mod cluster;
pub mod docs;
pub mod exchange;
pub mod fake_api;
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

use std::{
    fmt::Debug,
    str::FromStr,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// How long something may take that has to happen at some time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// What an environment variable says, if it is set.
pub fn number<N: FromStr<Err: Debug>>(variable: &str) -> Option<N> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// A directory in memory, where there is such a thing: what is synced there does not wait for a disk.
pub fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap())
}

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

/// Asks again until it is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for(what, PATIENCE, || is_so().then_some(()));
}
