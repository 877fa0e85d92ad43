//! Usage of namespaces, now and in the past.

use quota_semantics::{Name, Timestamp, quantity::Quantity};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// The usage of a namespace, and the remaining amount of each limit: `GET /v1/namespaces/{namespace}/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The namespace.
    pub namespace: Name,
    /// The usage of each resource, independent of quotas.
    pub resources: Vec<Total>,
    /// The quotas, with the usage that counts against them.
    pub quotas: Vec<QuotaUsage>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The usage of a resource in a namespace, independent of quotas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "Sum"))]
pub struct Total {
    /// The resource.
    pub resource: Name,
    /// The amount of observed objects and commits.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
}

/// The limits of a quota, and the usage that counts against them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "QuotaLimits"))]
pub struct QuotaUsage {
    /// The name of the quota.
    pub name: Name,
    /// One item per limit.
    pub resources: Vec<ResourceUsage>,
}

/// A limit, the usage that counts against it, and the remaining amount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects and commits; absent if the quota can never count the resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// The remaining amount: `hard` minus `used`, `reserved` and `guaranteedToOthers`. Negative if usage is over the
    /// limit. Of a group that limits each member alone: the least that a listed member has left.
    pub available: Quantity,
    /// The amount that is guaranteed to descendants of a group, and not used or reserved by them; absent for a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
}

/// The usage of a namespace at points in time: `GET /v1/namespaces/{namespace}/usage/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "UsageSeries"))]
#[serde(rename_all = "camelCase")]
pub struct UsageHistory {
    /// The namespace.
    pub namespace: Name,
    /// The time between two points, as in `30s`.
    #[cfg_attr(feature = "schema", schemars(with = "quota_semantics::Period"))]
    pub step: String,
    /// The points in time, oldest first.
    pub points: Vec<UsagePoint>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The usage at a point in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(inline))]
pub struct UsagePoint {
    /// The point in time.
    pub time: Timestamp,
    /// The sequence of the last entry at that time.
    pub sequence: u64,
    /// The usage of each resource at that time, independent of quotas.
    pub resources: Vec<Total>,
    /// The quotas at that time, with the usage that counted against them.
    pub quotas: Vec<QuotaUsage>,
}

/// A namespace and its fullest limit: `GET /v1/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "NamespaceOverview"))]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    /// The namespace.
    pub namespace: Name,
    /// The number of its quotas.
    pub quotas: usize,
    /// The number of its pending reservations.
    pub reservations: usize,
    /// The limit with the largest used share; absent if the namespace has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest: Option<Fullest>,
}

/// The limit of a namespace with the largest used share.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(rename = "FullestLimit"))]
pub struct Fullest {
    /// The name of the quota.
    pub quota: Name,
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects and commits.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// `(used + reserved) / hard`; absent if `hard` is 0 and usage is not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}
