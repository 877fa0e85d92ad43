//! Quotas, as entries record them.

use quota_semantics::{Name, Timestamp, quota::spec::Spec, uid::Uid};
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
    pub spec: Spec,
    /// The rest of its `metadata` (labels, annotations, …) as JSON text; empty: none.
    pub metadata: Box<str>,
}
