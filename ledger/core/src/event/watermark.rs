//! How far a source has reported what happens to each kind of objects.

use serde::Serialize;

use quota_semantics::{Name, Timestamp};

/// A source said how far it has reported each of these kinds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watermarks {
    /// The source: the principal whose events these are.
    pub source: Name,
    /// Identity of the cluster that is watched; empty: unknown.
    pub cluster_uid: Name,
    /// The instance of the publisher; empty: unknown.
    pub instance: Name,
    /// The kinds that have got further.
    pub resources: Vec<Watermark>,
}

/// How far a source has reported one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Watermark {
    /// The kind, as in `pods` or `deployments.apps`.
    pub resource: Name,
    /// What happened up to this time has been reported.
    pub watermark: Timestamp,
    /// The version that the kind had then; 0: unknown.
    #[serde(rename = "resourceVersion")]
    pub version: u64,
    /// The cluster has no such kind, so that there is nothing to show.
    #[serde(rename = "absent")]
    pub is_absent: bool,
}
