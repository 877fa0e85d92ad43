//! The specification of a quota: its limits, and the objects that they apply to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Name,
    nullable::{is_default, nullable},
    resource::ResourceList,
};

/// The specification of a ResourceQuota, as in `spec` of its manifest.
///
/// It is kept as it was given, including scopes and operators that cannot match: their effect is decided where scopes
/// are matched.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QuotaSpec")]
#[serde(default, rename_all = "camelCase")]
pub struct Spec {
    /// The limit of each resource.
    #[serde(skip_serializing_if = "ResourceList::is_empty")]
    pub hard: ResourceList,
    /// Scopes that an object must match, all of them.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub scopes: Vec<Name>,
    /// Scope expressions that an object must match as well, all of them.
    #[serde(rename = "scopeSelector", skip_serializing_if = "Option::is_none")]
    pub selector: Option<ScopeSelector>,
}

/// Scope expressions, joined by "and".
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeSelector {
    /// The expressions.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub match_expressions: Vec<ScopeExpression>,
}

/// One scope expression: a scope, an operator and values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(default, rename_all = "camelCase")]
pub struct ScopeExpression {
    /// The scope, such as `PriorityClass`.
    #[serde(deserialize_with = "nullable")]
    pub scope_name: Name,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, or any other text: an invalid operator makes an invalid quota, and has
    /// to be kept for that.
    #[serde(deserialize_with = "nullable")]
    pub operator: Name,
    /// The values of `In` and `NotIn`.
    #[serde(deserialize_with = "nullable", skip_serializing_if = "is_default")]
    pub values: Vec<Name>,
}
