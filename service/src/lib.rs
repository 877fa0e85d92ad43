//! What the programs of Quota Ledger have in common, so that an operator meets one way to configure them, one form of
//! log lines, one meaning of exit codes, and the same health endpoints.

pub mod config;
pub mod exit;
pub mod health;
pub mod nats;
mod openmetrics;
pub mod outbound;
pub mod program;
pub mod shutdown;
pub mod systemd;
pub mod telemetry;
pub mod traces;
