//! ResourceQuota: hard limits, scopes, validation.

pub mod extension;
pub mod limited;
pub mod manifest;
pub(crate) mod metadata;
pub(crate) mod names;
pub mod scopes;
pub mod selector;
pub mod spec;
pub mod validation;

pub use crate::field::FieldError;
pub use limited::LimitedResource;
pub use manifest::Manifest;
pub use names::is_count;
pub use spec::{ScopeExpression, ScopeSelector, Spec};
