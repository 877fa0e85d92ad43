//! Reservations, as entries record them.

use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};
use serde::Serialize;

/// Capacity that is reserved for one object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation {
    /// The object that it is for.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Name,
    /// Its resource and group, as in `pods`.
    pub resource: Name,
    /// Its name; empty: unknown.
    pub name: Box<str>,
    /// Its apiVersion as the holder gave it; may be empty.
    pub api_version: Name,
    /// Its kind as the holder gave it; may be empty.
    pub kind: Name,
    /// The reserved footprint.
    pub footprint: Footprint,
    /// When it was granted.
    pub created: Timestamp,
    /// When it expires.
    pub expiration: Timestamp,
    /// It ends when a later version than this one is observed; 0: when the object is first observed. Requests for later
    /// versions raise it.
    pub after_version: u64,
    /// The digest of the request, which identifies repetitions.
    #[serde(skip)]
    pub request: [u8; 16],
}

impl Reservation {
    /// Whether it ends when its object is observed in this version; 0: unknown.
    #[must_use]
    pub const fn is_awaiting(&self, version: u64) -> bool {
        version == 0 || version > self.after_version
    }
}
