//! Field management: `metadata.managedFields`, and server-side apply.
//!
//! The rules are those of `sigs.k8s.io/structured-merge-diff` and of `managedfields` in the API machinery, restricted
//! to the schema of quotas and groups.

mod apply;
mod managers;
mod set;

pub(super) use apply::apply;
pub(super) use managers::updated;
