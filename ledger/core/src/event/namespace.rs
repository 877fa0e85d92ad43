//! Namespaces: the facts that groups choose their members by.

use serde::Serialize;

use quota_semantics::{Name, group::selector::Labels, uid::Uid};

/// The longest value of an annotation that is recorded, in bytes. Annotations hold whole documents, and nobody selects
/// by these.
pub const ANNOTATION_MAX_BYTES: usize = 256;

/// A namespace as it was seen.
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
    /// Its annotations, but those with values longer than [`ANNOTATION_MAX_BYTES`].
    pub annotations: Labels,
}

impl NamespaceRecord {
    /// Whether this is the same namespace with the same labels and annotations, in whatever version.
    #[must_use]
    pub fn says_the_same(&self, other: &Self) -> bool {
        self.uid == other.uid
            && self.labels == other.labels
            && self.annotations == other.annotations
    }
}
