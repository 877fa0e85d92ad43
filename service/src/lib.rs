//! The common part of the programs of Quota Ledger, so that operators find the same configuration layers, log format,
//! exit codes and health endpoints in all of them.

pub mod config;
pub mod exit;
pub mod health;
pub mod hosts;
pub mod metrics;
pub mod nats;
pub mod outbound;
pub mod program;
pub mod shutdown;
pub mod telemetry;
pub mod traces;
