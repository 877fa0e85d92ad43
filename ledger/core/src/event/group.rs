//! Groups: one quota over many namespaces.

use serde::Serialize;

use quota_semantics::{Name, Timestamp, group::Spec, group::manifest::adopted_version, uid::Uid};

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
