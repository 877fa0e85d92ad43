//! The bridge as a process, between an API server that does what a test wants, a real nats-server and the real quotad.
//! Whatever goes wrong, in the end the ledger holds what the cluster holds, and nothing that lives was ever ended.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "planted-bugs")]
mod bugs;
mod certificates;
mod groups;
mod kinds;
mod leaders;
mod lists;
mod many;
mod namespaces;
#[allow(dead_code, reason = "a bench uses the rest")]
mod programs;
mod rules;
mod scene;
#[path = "../../examples/fake-api/server.rs"]
mod server;
mod streams;
mod watches;
mod watermarks;
#[path = "../../examples/fake-api/world.rs"]
mod world;

use std::time::Duration;

use quota_test_support::{nats, proxy};

/// How long something may take that has to happen at some time.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);
