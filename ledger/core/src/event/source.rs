//! Entries about sources of events.

use quota_semantics::{Name, Timestamp};
use serde::Serialize;

/// How far a source has been consumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// The incarnation of the source: a stream's creation time.
    pub incarnation: Name,
    /// Last position consumed.
    pub position: u64,
    /// When the source received the message at that position.
    pub time: Timestamp,
    /// Checksum of that message: shows that the source is still the same.
    pub checksum: u32,
}

/// A message that was not understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// The source.
    pub source: Name,
    /// Its position there, or its line in a request.
    pub position: u64,
    /// The error.
    pub reason: Box<str>,
    /// The message, cut to [`DEAD_LETTER_MAX_BYTES`], with bytes that are not UTF-8 replaced.
    pub payload: Box<str>,
}

/// Most bytes of a rejected message that are kept.
pub const DEAD_LETTER_MAX_BYTES: usize = 16 * 1024;
