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
    /// The rest of its `metadata` (labels, annotations, …) as JSON text, without the annotations that are in `spec` as
    /// they would be written from there; empty: none. That of a group that a source has reported has `adoptedVersion`, and
    /// all annotations.
    pub metadata: Box<str>,
}

impl GroupRecord {
    /// In which version a source has reported the group, if it is one that a source has reported (0: unknown).
    #[must_use]
    pub fn adopted_version(&self) -> Option<u64> {
        adopted_version(&self.metadata)
    }
}
