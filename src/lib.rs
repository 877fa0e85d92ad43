//! The Quota Ledger daemon.

pub mod config;
