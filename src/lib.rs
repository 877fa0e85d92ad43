//! The Quota Ledger daemon.

pub mod config;
pub mod writer;
