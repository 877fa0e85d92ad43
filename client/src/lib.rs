//! The HTTP API of Quota Ledger.

pub mod paths;
