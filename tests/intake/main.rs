//! The intake: events by HTTP, and by a real nats-server. Every message counts once, whatever crashes when.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod daemon;
mod http;
mod nats;
mod process;

use quota_testkit as support;
