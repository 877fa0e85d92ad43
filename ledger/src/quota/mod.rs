//! ResourceQuota: hard limits, scopes, validation.

pub mod spec;

pub use spec::{ScopeExpression, ScopeSelector, Spec};
