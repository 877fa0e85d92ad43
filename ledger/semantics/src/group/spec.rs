//! The specification of a group.

use serde::Serialize;

use super::{extension::Extensions, selector::Selector};
use crate::quota;

/// The specification of a group: that of a ClusterResourceQuota, and the extensions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spec {
    /// Its member namespaces, in addition to those of its children.
    pub selector: Selector,
    /// Limits and scopes.
    pub quota: quota::Spec,
    /// The extensions from annotations.
    #[serde(flatten)]
    pub extensions: Extensions,
}

impl Spec {
    /// Whether it counts only some objects of the selected namespaces.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.quota.is_scoped() || self.extensions.objects.is_some()
    }
}
