//! The Quota Ledger daemon.

pub mod admission;
pub mod api;
pub mod auth;
pub mod checkpoint;
pub mod config;
pub mod cpu_throttle;
mod daemon;
pub mod denials;
mod fatal;
pub mod history;
pub mod intake;
pub mod kube;
mod kubernetes_status;
pub mod metrics;
pub mod peer;
mod place;
pub mod problem;
pub mod reason;
pub mod recovery;
mod reload;
pub mod routes;
pub mod run;
pub mod server;
pub mod space;
mod throttle;
mod ui;
pub mod upkeep;
pub mod watches;
pub mod writer;

pub use quota_service::{exit, shutdown};
