//! Groups: one quota over many namespaces, as OpenShift's ClusterResourceQuota, and trees of them.
//!
//! A group counts an object if its own selectors match, or if one of its children counts it; once, however many
//! children do. `hard` is always an upper bound. The guarantee of a child counts as used for all other groups.

pub mod load;
pub mod manifest;
pub mod tree;
pub mod validation;

pub use load::{Load, Loads, LoadsMut, Sum};
pub use manifest::{Manifest, Spec};

pub use crate::quota::{
    extension::{self, Enforcement, Extensions, Override},
    selector::{self, LabelSelector, Requirement, Selector, Values},
};
