//! How several replicas of one ledger agree on its log.
//!
//! The log is a replicated stream that takes a message only if it follows the sequence that its sender names. Everything
//! rests on one rule: **whoever decided a message had applied every message before it**. So the expected sequence is what
//! the sender itself has applied, and nothing else; and an append whose outcome is ambiguous is resolved by reading what
//! is at its place, never by giving up, and never by trying other bytes.
//!
//! Pure: [`Member`] is a state machine that takes the time, replies and messages, and says what to do. The daemon does it.

mod append;
mod bookmark;
mod clock;
mod identity;
mod member;
mod message;
mod verify;

pub use append::Reply;
pub use bookmark::Bookmark;
pub use clock::Millis;
pub use identity::{Identity, LedgerId, NodeName, ParseError};
pub use member::{Action, Counts, Member, Role, Settings};
pub use message::{DecodeError, Kind, Message};
pub use verify::{Leader, Position, Stop};
