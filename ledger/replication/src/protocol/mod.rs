//! The agreement of several replicas of one ledger on its log.
//!
//! The log is a replicated stream that accepts a message only if the message follows the sequence that its sender
//! expects. Everything depends on one rule: **the sender of a decision had applied every message before it**. So the
//! expected sequence is always the one that the sender itself has applied; and an append with an ambiguous outcome is
//! resolved by reading the message at its sequence, never by giving up, and never by sending other bytes.
//!
//! Pure: [`Member`] is a state machine that takes the time, replies and messages, and returns actions. The daemon
//! carries them out.

mod member;
mod message;
mod verify;

pub use member::{Action, Counts, Member, Reply, Role, Settings, Stored};
pub use message::{DecodeError, Identity, Kind, LedgerId, Message, NodeName, ParseError};
pub use verify::{Leader, Millis, PendingPosition, Position, Stop};
