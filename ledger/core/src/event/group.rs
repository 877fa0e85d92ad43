//! Groups: one quota over many namespaces.

use serde::Serialize;

use quota_semantics::{Name, Timestamp, group::Spec, uid::Uid};

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
    pub spec: Spec,
    /// The rest of its `metadata` (labels, annotations, …) as JSON text, without the annotations that are in `spec`;
    /// empty: none.
    pub metadata: Box<str>,
}
