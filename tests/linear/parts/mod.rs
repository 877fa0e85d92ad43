//! Clients of a ledger, what they requested and were told, and whether that can be.

#![allow(dead_code, reason = "each test uses a part")]

pub(crate) mod clients;
pub(crate) mod history;
pub(crate) mod search;
pub(crate) mod witness;
