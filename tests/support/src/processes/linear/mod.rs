//! Clients of a ledger, their requests and the replies, and a check that the replies are possible.

pub mod clients;
pub mod history;
pub mod search;
pub mod witness;
