//! Usage of namespaces, now and in the past.

use std::collections::BTreeMap;

use quota_semantics::{Name, Timestamp, admission::LimitKind, quantity::Quantity};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// The usage of a namespace, and the remaining amount of each limit: `GET /v1/namespaces/{namespace}/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The namespace.
    pub namespace: Name,
    /// The usage of each resource, independent of quotas.
    pub resources: Vec<Total>,
    /// The quotas, with the usage that counts against them.
    pub quotas: Vec<QuotaUsage>,
    /// The room for each resource that a quota of the namespace or a group above it limits.
    #[serde(default)]
    pub room: BTreeMap<Name, Room>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The room for a resource in a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Room {
    /// The least that the quotas of the namespace and the groups above it leave. It can be reserved, and not more.
    /// Negative if usage is over a limit. Limits that count some objects only, and limits that deny nothing, are left
    /// out.
    pub available: Quantity,
    /// The limit that leaves least.
    pub bound_by: BoundBy,
}

/// A limit that binds a namespace.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BoundBy {
    /// Whether it is a quota or a group.
    pub kind: LimitKind,
    /// The name of the quota or group.
    pub name: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects and commits; absent if it contains the usage of other namespaces and the caller
    /// may not read groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// The amount that pending reservations hold beyond `used`; absent as that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Quantity>,
    /// The amount that is guaranteed to other groups, and not used or reserved by them; absent as `used` is, and if there
    /// is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
}

/// The usage of a resource in a namespace, independent of quotas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Sum")]
pub struct Total {
    /// The resource.
    pub resource: Name,
    /// The amount of observed objects and commits.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
}

/// The limits of a quota, and the usage that counts against them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QuotaLimits")]
pub struct QuotaUsage {
    /// The name of the quota.
    pub name: Name,
    /// One item per limit.
    pub resources: Vec<ResourceUsage>,
}

/// A limit, the usage that counts against it, and the remaining amount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
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

/// The usage of a namespace over a period, in equal parts: `GET /v1/namespaces/{namespace}/usage/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "UsageSeries")]
#[serde(rename_all = "camelCase")]
pub struct UsageHistory {
    /// The namespace.
    pub namespace: Name,
    /// The length of a part, as in `30s`.
    #[schemars(with = "quota_semantics::Period")]
    pub step: String,
    /// The parts, oldest first. The last one ends with the period.
    pub points: Vec<UsagePoint>,
    /// The whole period: the namespace's sums, then the limits of its quotas.
    #[serde(default)]
    pub summary: Vec<UsageSummary>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The usage of a group over a period, in equal parts: `GET /v1/groups/{name}/usage/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "GroupUsageSeries")]
#[serde(rename_all = "camelCase")]
pub struct GroupUsageHistory {
    /// The group.
    pub group: Name,
    /// The length of a part, as in `30s`.
    #[schemars(with = "quota_semantics::Period")]
    pub step: String,
    /// The parts, oldest first. The last one ends with the period.
    pub points: Vec<GroupUsagePoint>,
    /// The whole period.
    #[serde(default)]
    pub summary: Vec<UsageSummary>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The usage in a part of a period: from `from` on, up to and without `to`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct UsagePoint {
    /// The first moment.
    pub from: Timestamp,
    /// The first moment behind it.
    pub to: Timestamp,
    /// The same as `to`: `used`, `reserved` and `hard` are those right before it.
    pub time: Timestamp,
    /// The last entry before `to`; 0: there is none.
    pub sequence: u64,
    /// The usage of each resource, independent of quotas.
    pub resources: Vec<SumPoint>,
    /// The quotas that existed, with the usage that counted against them.
    pub quotas: Vec<QuotaPoint>,
}

/// The usage of a group in a part of a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct GroupUsagePoint {
    /// The first moment.
    pub from: Timestamp,
    /// The first moment behind it.
    pub to: Timestamp,
    /// The same as `to`: `used`, `reserved` and `hard` are those right before it.
    pub time: Timestamp,
    /// The last entry before `to`; 0: there is none.
    pub sequence: u64,
    /// One item per limit that existed.
    pub resources: Vec<LimitPoint>,
}

/// The usage of a resource in a part of a period, independent of quotas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct SumPoint {
    /// The resource.
    pub resource: Name,
    /// The last amount of observed objects and commits.
    pub used: Quantity,
    /// The last amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// The least values in this part, as far as there was such a limit.
    pub min: Amounts,
    /// The largest values.
    pub max: Amounts,
    /// The means over time, as decimals.
    pub mean: Amounts,
    /// The last values.
    pub last: Amounts,
}

/// The limits of a quota in a part of a period.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct QuotaPoint {
    /// The name of the quota.
    pub name: Name,
    /// One item per limit that existed.
    pub resources: Vec<LimitPoint>,
}

/// A limit in a part of a period, and the usage that counted against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LimitPoint {
    /// The resource.
    pub resource: Name,
    /// The last value of the limit.
    pub hard: Quantity,
    /// The last amount of observed objects and commits.
    pub used: Quantity,
    /// The last amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// The least values in this part, as far as there was such a limit.
    pub min: Amounts,
    /// The largest values.
    pub max: Amounts,
    /// The means over time, as decimals.
    pub mean: Amounts,
    /// The last values.
    pub last: Amounts,
}

/// The amounts of a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Amounts {
    /// The amount of observed objects and commits.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// Both together.
    pub taken: Quantity,
    /// The limit; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
}

/// What an amount was in a whole period, as far as there was such a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct UsageSummary {
    /// The name of the quota or group; absent: the sum of the namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Name>,
    /// The resource.
    pub resource: Name,
    /// The least values in this part, as far as there was such a limit.
    pub min: Amounts,
    /// The largest values.
    pub max: Amounts,
    /// The means over time, as decimals.
    pub mean: Amounts,
    /// The last values.
    pub last: Amounts,
    /// The least values that were not exceeded for more than 5 % of the time.
    pub p95: Amounts,
    /// The time at which the largest `taken` was first reached.
    pub peak_time: Timestamp,
    /// The entry with which it was.
    pub peak_sequence: u64,
}

/// A namespace: `GET /v1/namespaces/{namespace}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Namespace {
    /// The namespace.
    pub namespace: Name,
    /// Its labels, as a source has reported them.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The groups that count objects of it, nearest first.
    #[serde(default)]
    pub groups: Vec<Name>,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// How many namespaces need attention, on all pages of a list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceCounts {
    /// Those with usage over a limit.
    pub over: usize,
    /// Those whose fullest limit is full, and not exceeded.
    pub full: usize,
    /// Those whose fullest limit is not full, but of which at least 90% are taken.
    pub at_risk: usize,
    /// The pending reservations of all.
    pub pending: usize,
}

/// A page of namespaces, the fullest first: as [`Page`](super::Page), with their number.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespacePage {
    /// The namespaces of this page.
    pub items: Vec<NamespaceUsage>,
    /// The number of namespaces on all pages.
    #[serde(default)]
    pub total: usize,
    /// How many of these need attention.
    #[serde(default)]
    pub counts: NamespaceCounts,
    /// The `continue` token of the next page; absent on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The last entry that the page includes.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// A namespace and its fullest limit: `GET /v1/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "NamespaceOverview")]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    /// The namespace.
    pub namespace: Name,
    /// Its labels, as a source has reported them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The number of its quotas.
    pub quotas: usize,
    /// The number of its pending reservations.
    pub reservations: usize,
    /// The limit with the largest used share; absent if the namespace has no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest: Option<Fullest>,
}

/// The limit of a namespace of which the largest share is taken. Limits that deny nothing count only if there are no
/// others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FullestLimit")]
#[serde(rename_all = "camelCase")]
pub struct Fullest {
    /// The name of the quota or group.
    pub quota: Name,
    /// Whether it is a quota or a group.
    #[serde(default)]
    pub kind: LimitKind,
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects and commits; absent if it contains the usage of other namespaces and the caller
    /// may not read groups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// The amount that pending reservations hold beyond `used`; absent as that is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved: Option<Quantity>,
    /// The remaining amount: what is guaranteed to other groups is not available.
    #[serde(default)]
    pub available: Quantity,
    /// `(hard - available) / hard`; absent if `hard` is 0 and `available` is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}
