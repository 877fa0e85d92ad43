//! The Quota Ledger daemon.
