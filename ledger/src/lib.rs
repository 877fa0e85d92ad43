//! A ledger: the decisions and the fold of the core (`quota-core`), stored in a journal (`quota-journal`).
//!
//! Neither of the two depends on the other: here decisions become durable batches, and a data directory becomes a
//! state.

pub mod group_commit;
pub mod period;
pub mod replay;
