//! Intake: turns the events of sources into entries of the ledger.
//!
//! [`payload`] parses bytes as events. [`record`] turns events into entries, together with the position of their
//! source. [`relist`] ends the objects that a listing lacked. [`http`] and [`nats`] are the two transports.

pub mod http;
pub mod nats;
pub mod payload;
pub mod record;
pub mod relist;
pub mod sources;
