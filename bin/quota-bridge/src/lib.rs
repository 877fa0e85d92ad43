//! `quota-bridge`: brings the objects of a Kubernetes API to the quota ledger, by NATS.
//!
//! ```text
//! discovery ─► a task per kind: list → watch ─┐
//! Lease ─► may this one try?                  ├─► bounded queue ─► publisher, one message at a time ─► JetStream ─► quotad
//! probe: consistent read → watermark ─────────┘
//! ```
//!
//! It keeps nothing: whatever it does not know after a start, it lists. `docs/bridge.md` says what it promises.

mod bugs;
pub mod certificates;
pub mod clock;
pub mod config;
pub mod discovery;
pub mod filter;
pub mod kind;
pub mod kinds;
pub mod kubernetes;
mod leader;
pub mod lease;
pub mod line;
pub mod metrics;
pub mod needed;
pub mod publisher;
pub mod queue;
mod rules;
pub mod run;
mod status;
pub mod watermarks;
mod webhook;
