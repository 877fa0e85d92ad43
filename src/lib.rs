//! The Quota Ledger daemon.

pub mod admission;
pub mod api;
pub mod auth;
pub mod checkpoint;
mod clock;
pub mod cluster;
pub mod config;
pub mod cpu_throttle;
mod daemon;
mod data_dir_guard;
pub mod denials;
pub mod disk_space;
mod fatal;
pub mod history;
pub mod intake;
pub mod kube;
mod kubernetes_status;
mod label_selector;
mod large;
pub mod maintenance;
pub mod metrics;
mod pacing;
pub mod peer;
pub mod problem;
pub mod reason;
pub mod recovery;
mod reload;
pub mod router;
pub mod routes;
pub mod run;
pub mod server;
mod throttle;
mod ui;
pub mod watches;
pub mod writer;

pub use quota_service::{exit, shutdown};
