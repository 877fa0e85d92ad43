//! How far a source has reported each kind of objects.

use serde::Serialize;

use quota_semantics::{Name, Timestamp};

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
