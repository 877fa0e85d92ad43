//! The Quota Ledger daemon.

pub mod admission;
pub mod api;
pub mod auth;
mod checkpoint;
mod clock;
pub mod cluster;
pub mod config;
mod cpu_throttle;
mod daemon;
mod data_dir_guard;
mod denials;
mod disk_space;
mod fatal;
pub mod history;
pub mod intake;
pub mod kube;
mod kubernetes_status;
mod label_selector;
mod large;
mod log_limiter;
mod maintenance;
pub mod metrics;
mod pacing;
pub mod peer;
mod problem;
pub mod reason;
pub mod recovery;
mod reload;
pub mod router;
pub mod routes;
pub mod run;
pub mod server;
mod ui;
pub mod watches;
pub mod writer;

pub use quota_service::{exit, shutdown};
