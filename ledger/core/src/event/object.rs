//! Objects, as entries record them.

use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};
use serde::Serialize;

/// An object as it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Observed {
    /// Its identity.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Name,
    /// Its resource and group, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// Its name.
    pub name: Box<str>,
    /// Its resourceVersion as a number; 0: unknown, always taken for newer.
    pub version: u64,
    /// Its footprint.
    pub footprint: Footprint,
    /// When it stops counting without an event.
    pub lapse: Option<Timestamp>,
    /// Whether this ended the object's pending reservation.
    pub ends_reservation: bool,
}
