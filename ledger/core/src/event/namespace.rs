//! Namespaces: the labels and annotations by which groups select their members.

use serde::Serialize;

use quota_semantics::{Name, group::selector::Labels, uid::Uid};

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
