//! What a group says.

use serde::Serialize;

use super::{extension::Extensions, selector::Selector};
use crate::quota;

/// The specification of a group: a ClusterResourceQuota's, and the extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Its member namespaces, beside those of its children.
    pub selector: Selector,
    /// Limits and scopes.
    pub quota: quota::Spec,
    /// What is in annotations.
    #[serde(flatten)]
    pub extensions: Extensions,
}

impl Spec {
    /// Whether it counts only some objects of the namespaces that it selects.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.quota.is_scoped() || self.extensions.objects.is_some()
    }
}
