//! The core of Quota Ledger: entries, the state that they fold to, and decisions.
//!
//! Pure: plain data in, plain data out, no clock, no disk, no network, no randomness. The daemon around it (crate
//! `quotad`) does all input and output.

pub mod audit;
pub mod bounded_memory;
pub mod codec;
pub mod decide;
pub mod event;
pub mod simulate;
pub mod size;
pub mod source;
pub mod state;
pub mod suggest;
pub mod time;
pub mod transaction;
