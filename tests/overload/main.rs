//! More than the daemon can take: it stays small, answers quickly, serves the others, and recovers.
//!
//! Nothing here measures against a clock. What is compared is memory before, during and after, answers within one
//! flood with each other, and counts. `OVERLOAD_CONNECTIONS` (default 10,000) says how many connections are meant by
//! many; what was measured is printed with `--nocapture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use quota_testkit as support;

mod attack;
mod bodies;
mod client;
mod connections;
mod floods;
mod http2;
mod principals;
mod watchers;
mod wide;
