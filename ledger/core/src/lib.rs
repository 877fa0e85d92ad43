//! The core of Quota Ledger: what happened, what follows from it, and what is decided.
//!
//! Pure: plain data in, plain data out, no clock, no disk, no network, no randomness. The daemon around it (crate
//! `quotad`) does the waiting.

pub mod audit;
pub mod codec;
pub mod decide;
pub mod event;
pub mod shares;
pub mod size;
pub mod source;
pub mod state;
pub mod transaction;
