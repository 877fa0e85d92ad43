//! The records of entries: quotas, groups, namespaces, objects, reservations, and what sources have reported.

use std::sync::Arc;

use quota_semantics::{
    Name, Timestamp,
    group::{self, manifest::adopted_version, selector::Labels},
    object::Footprint,
    quota,
    uid::Uid,
};
use serde::Serialize;

/// A quota as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaRecord {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// Its identity, fresh with each creation.
    pub uid: Uid,
    /// When it was created.
    pub created: Timestamp,
    /// Limits and scopes.
    pub spec: quota::spec::Spec,
    /// The rest of its `metadata` (labels, annotations, …) as JSON text; empty: none.
    pub metadata: Box<str>,
}

/// A group as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupRecord {
    /// Its name.
    pub name: Name,
    /// Its identity, fresh with each creation.
    pub uid: Uid,
    /// When it was created.
    pub created: Timestamp,
    /// Members, limits and extensions.
    pub spec: group::Spec,
    /// The rest of its `metadata` (labels, annotations, …) as JSON text, without the annotations that can be derived
    /// from `spec`; empty: none. The metadata of an adopted group has `adoptedVersion`, and all annotations.
    pub metadata: Box<str>,
}

impl GroupRecord {
    /// The version in which a source has reported the group (0: unknown); none: no source has reported it.
    #[must_use]
    pub fn adopted_version(&self) -> Option<u64> {
        adopted_version(&self.metadata)
    }
}

/// The longest value of an annotation that is recorded, in bytes. Annotations can hold whole documents, by which no
/// group selects.
pub const ANNOTATION_MAX_BYTES: usize = 256;

/// A namespace as it was observed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceRecord {
    /// Its name.
    pub name: Name,
    /// Its identity.
    pub uid: Uid,
    /// Its resourceVersion as a number; 0: unknown, always taken for newer.
    pub version: u64,
    /// Its labels.
    pub labels: Labels,
    /// Its annotations, except those with values longer than [`ANNOTATION_MAX_BYTES`].
    pub annotations: Labels,
}

impl NamespaceRecord {
    /// Whether this is the same namespace with the same labels and annotations, in any version.
    #[must_use]
    pub fn is_equivalent(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.labels == other.labels
            && self.annotations == other.annotations
    }
}

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
    /// The reserved footprint; shared with the request, unless that asked for another one.
    pub footprint: Arc<Footprint>,
    /// When it was granted.
    pub created: Timestamp,
    /// When it expires.
    pub expiration: Timestamp,
    /// It ends when a later version than this one is observed; 0: when the object is first observed. Requests for later
    /// versions raise it.
    pub after_version: u64,
    /// What was requested, to recognize repeated requests; none: to create an object with the reserved footprint.
    #[serde(skip)]
    pub requested: Option<Box<Requested>>,
}

/// What a reservation was requested for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requested {
    /// The footprint.
    pub footprint: Arc<Footprint>,
    /// Of an update: the version before it, 0 if unknown. None: a creation.
    pub after_version: Option<u64>,
}

impl Reservation {
    /// The footprint that was requested first.
    pub(crate) fn requested_footprint(&self) -> &Arc<Footprint> {
        self.requested.as_ref().map_or(&self.footprint, |requested| &requested.footprint)
    }

    /// Raises it to another footprint and expiration.
    pub(crate) fn grow(&mut self, footprint: Arc<Footprint>, expiration: Timestamp) {
        let before = std::mem::replace(&mut self.footprint, footprint);
        self.requested
            .get_or_insert_with(|| Box::new(Requested { footprint: before, after_version: None }));
        self.expiration = expiration;
    }

    /// Whether it ends when its object is observed in this version; 0: unknown.
    #[must_use]
    pub const fn is_awaiting(&self, version: u64) -> bool {
        version == 0 || version > self.after_version
    }
}

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

/// A source reported watermarks of these kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watermarks {
    /// The source: the principal that sends the events.
    pub source: Name,
    /// Identity of the cluster that is watched; empty: unknown.
    pub cluster_uid: Name,
    /// The instance of the publisher; empty: unknown.
    pub instance: Name,
    /// The kinds whose watermarks have advanced.
    pub resources: Vec<Watermark>,
}

/// How far a source has reported one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watermark {
    /// The kind, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// All events up to this time have been reported.
    pub watermark: Timestamp,
    /// The version of the kind at that time; 0: unknown.
    #[serde(rename = "resourceVersion")]
    pub version: u64,
    /// Whether the cluster does not have the kind, so that there is nothing to report.
    #[serde(rename = "absent")]
    pub is_absent: bool,
    /// Why the source cannot list or watch the kind, as in `403`; empty: it can.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub failing: Name,
}
