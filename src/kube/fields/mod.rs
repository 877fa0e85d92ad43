//! Who manages which field: `metadata.managedFields`, and server-side apply.
//!
//! The rules are those of `sigs.k8s.io/structured-merge-diff` and of `managedfields` in the API machinery, for the
//! one schema that there is here.

mod apply;
mod managers;
mod set;

pub(super) use apply::apply;
pub(super) use managers::updated;
