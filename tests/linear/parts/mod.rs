//! Clients of a ledger, their requests and the replies, and a check that the replies are possible.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod clients;
pub(crate) mod history;
pub(crate) mod search;
pub(crate) mod witness;
