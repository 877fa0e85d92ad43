//! The core of Quota Ledger: what counts, what is decided, what happened, and how it is kept.
//!
//! Everything but [`journal`] is pure: plain data in, plain data out, no clock, no disk, no network,
//! no randomness. The daemon around it (crate `quotad`) does the waiting.

pub mod admission;
pub mod audit;
pub mod batcher;
pub mod codec;
pub mod decide;
pub mod desk;
pub mod event;
pub mod journal;
pub mod name;
pub mod object;
#[doc(hidden)]
pub mod planted;
pub mod quantity;
pub mod quota;
pub mod replay;
pub mod resource;
pub mod size;
pub mod source;
pub mod state;
pub mod time;
pub mod uid;

pub use name::Name;
pub use time::{Span, Timestamp};
