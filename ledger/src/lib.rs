//! A ledger: what the core decides and folds (`quota-core`), kept in a journal (`quota-journal`).
//!
//! Neither of the two knows the other: here a decision becomes a durable batch, and a data directory a state.

pub mod group_commit;
pub mod replay;
