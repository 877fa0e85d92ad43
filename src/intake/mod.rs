//! Intake: from what sources send to entries of the ledger.
//!
//! [`payload`] reads bytes as events, [`record`] makes them entries together with how far their source was
//! consumed, [`relist`] ends what a listing did not hold, [`http`] and [`nats`] are the two ways in.

pub mod http;
pub mod nats;
pub mod payload;
pub mod record;
pub mod relist;
mod retry;
pub mod sources;
