//! What entries record of sources of events.

use quota_semantics::{Name, Timestamp};
use serde::Serialize;

/// How far a source has been consumed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Cursor {
    /// Tells one life of the source from another: a stream's creation time.
    pub incarnation: Name,
    /// Last position consumed.
    pub position: u64,
    /// When the source received what stood there.
    pub time: Timestamp,
    /// Checksum of what stood there: proof that the source is still the same.
    pub checksum: u32,
}

/// A message that could not be understood.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// Where it came from.
    pub source: Name,
    /// Its position there, or its line in a request.
    pub position: u64,
    /// What was wrong with it.
    pub reason: Box<str>,
    /// The message, cut to [`DEAD_LETTER_MAX_BYTES`], with bytes that are not UTF-8 replaced.
    pub payload: Box<str>,
}

/// How much of a message that could not be understood is kept, in bytes.
pub const DEAD_LETTER_MAX_BYTES: usize = 16 * 1024;
