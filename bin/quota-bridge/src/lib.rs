//! `quota-bridge`: publishes the objects of a Kubernetes API to NATS, for the quota ledger.
//!
//! ```text
//! discovery ─► a task per kind: list → watch ─┐
//! Lease ─► may this one try?                  ├─► bounded queue ─► publisher, one message at a time ─► JetStream ─► quotad
//! probe: consistent read → watermark ─────────┘
//! ```
//!
//! The bridge stores no state: after a start it lists all objects. Its guarantees: `docs/bridge.md`.

mod config;
pub mod discovery;
pub mod kind;
pub mod kinds;
pub mod kubernetes;
mod leader;
mod lease;
mod line;
mod metrics;
pub mod publisher;
pub mod run;
mod status;
mod watermarks;
mod webhook;
