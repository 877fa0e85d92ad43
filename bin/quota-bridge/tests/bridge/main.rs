//! The bridge as a process, between an API server that does what a test wants, a real nats-server and the real quotad.
//! Whatever goes wrong, in the end the ledger holds what the cluster holds, and nothing that lives was ever ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod certificates;
mod groups;
mod kinds;
mod large;
mod leaders;
mod lists;
mod many;
mod namespaces;
mod rules;
mod scene;
mod sign_in;
mod streams;
mod watches;
mod watermarks;

use std::time::Duration;

use quota_testkit::fake_api::{server, world};
use quota_testkit::{nats, process, proxy, wait_for};

/// How long something may take that has to happen at some time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// Asks again until the answer is there.
pub(crate) fn until<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    wait_for(what, PATIENCE, ask)
}
