//! Quotas, groups and reservations, and their usage.

use std::{borrow::Cow, collections::BTreeMap};

use quota_semantics::{
    Name, Period, Timestamp,
    admission::LimitKind,
    group::{Enforcement, Override, Selector, selector::LabelSelector},
    quantity::Quantity,
    quota::{Spec, manifest::Metadata, spec::ScopeSelector},
    resource::ResourceList,
    uid::Uid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AsOf, Condition, is_false, is_zero, no_items};

/// A v1 ResourceQuota with its usage: `GET /v1/namespaces/{namespace}/quotas/{name}`.
///
/// The daemon writes it from borrowed data; clients read `Quota<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Quota<'a> {
    /// `v1`.
    #[serde(default)]
    pub api_version: Cow<'a, str>,
    /// `ResourceQuota`.
    #[serde(default)]
    pub kind: Cow<'a, str>,
    /// The metadata. `resourceVersion` is the sequence of the entry that last set the quota.
    pub metadata: Metadata,
    /// The limits and scopes, as in Kubernetes.
    #[serde(default)]
    pub spec: Cow<'a, Spec>,
    /// The limits in force, and the usage.
    #[serde(default)]
    pub status: QuotaStatus<'a>,
    /// The last entry that the response includes; absent in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The limits of a quota in force, and the usage: `hard` and `used` as in Kubernetes, and the reserved amounts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaStatus<'a> {
    /// The limits in force.
    pub hard: Cow<'a, ResourceList>,
    /// The amounts of observed objects and commits.
    pub used: ResourceList,
    /// The amounts that pending reservations hold beyond `used`.
    pub reserved: ResourceList,
    /// The pending reservations that the quota counts, at most 200.
    pub reservations: Vec<QuotaReservation<'a>>,
    /// The number of pending reservations of the namespace that were left out.
    #[serde(skip_serializing_if = "is_zero")]
    pub reservations_omitted: usize,
    /// The parts of the quota that are not in effect: `Enforced=False` names limits that are not enforced.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A pending reservation that a quota counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "QuotaHold")]
#[serde(rename_all = "camelCase")]
pub struct QuotaReservation<'a> {
    /// The object that the reservation is for.
    pub reserved_by: Holder<'a>,
    /// The amounts that the reservation holds of the quota's limits.
    pub reserved: Cow<'a, ResourceList>,
    /// The time at which the reservation expires.
    pub expiration_time: Timestamp,
}

// Groups: quotas over many namespaces.

/// A group: `GET /v1/groups/{name}`. It can be changed and sent back by `PUT`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Group {
    /// The name of the group.
    pub name: Name,
    /// The uid of the group; a group that was deleted and created again has another one.
    #[serde(default)]
    pub uid: String,
    /// The sequence of the entry that last set the group.
    #[serde(default)]
    pub resource_version: String,
    /// The time at which the group was created; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created_time: Option<Timestamp>,
    /// Labels of the group itself.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the group itself, without those with the prefix `quota-ledger.io/`, which are fields here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// The selector of the member namespaces; the members of the children are members, too.
    #[serde(default)]
    pub selector: Selector,
    /// The limits. While an override lasts, `status.hard` has the limits in force.
    #[serde(default)]
    pub hard: ResourceList,
    /// The scopes that an object must match to count, as in a ResourceQuota.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scopes: Vec<Name>,
    /// The scope selector that an object must match to count, as in a ResourceQuota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope_selector: Option<ScopeSelector>,
    /// The parent group, whose members include those of this group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Name>,
    /// The amounts that no other group below the parent can take.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed: ResourceList,
    /// The label selector that an object must match to count; absent: all objects count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<LabelSelector>,
    /// Whether `hard` applies to each member namespace separately, instead of their sum.
    #[serde(default, skip_serializing_if = "is_false")]
    pub each: bool,
    /// The limits above which a grant comes with a warning.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub soft: ResourceList,
    /// The treatment of a request that exceeds `hard`.
    #[serde(default)]
    pub enforcement: Enforcement,
    /// Limits that replace those in `hard` until a time.
    #[serde(rename = "override", default, skip_serializing_if = "Option::is_none")]
    pub r#override: Option<Override>,
    /// The limits in force, and the usage.
    pub status: GroupStatus,
    /// The last entry that the response includes; absent in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The limits of a group in force, and the usage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupStatus {
    /// The limits in force.
    pub hard: ResourceList,
    /// The amounts of the members' observed objects and commits.
    pub used: ResourceList,
    /// The amounts that pending reservations of the members hold beyond `used`.
    pub reserved: ResourceList,
    /// The amounts that are guaranteed to descendants, and not used or reserved by them.
    #[serde(default, skip_serializing_if = "ResourceList::is_empty")]
    pub guaranteed_to_others: ResourceList,
    /// The time at which the override in force ends; absent if none is in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub override_until: Option<Timestamp>,
    /// The groups that name this group as their parent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<Name>,
    /// The number of member namespaces.
    pub members: usize,
    /// The first 1,000 members, sorted by name; absent in a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespaces: Option<Vec<MemberUsage>>,
    /// The number of members that `namespaces` leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespaces_omitted: usize,
    /// The parts of the group that are not in effect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// A member namespace of a group, and its part of the group's usage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MemberUsage {
    /// The namespace.
    pub namespace: Name,
    /// The amounts of its observed objects and commits.
    pub used: ResourceList,
    /// The amounts that its pending reservations hold beyond `used`.
    pub reserved: ResourceList,
}

/// The usage of a group, and the remaining amount of each limit: `GET /v1/groups/{name}/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupUsage {
    /// The group.
    pub group: Name,
    /// One item per limit in force.
    pub resources: Vec<ResourceUsage>,
    /// The first 1,000 members, sorted by name.
    pub namespaces: Vec<MemberUsage>,
    /// The number of members that `namespaces` leaves out.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub namespaces_omitted: usize,
    /// The last entry that the response includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

// Usage of namespaces, now and in the past.

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

/// A reservation.
///
/// The daemon writes it from borrowed data; clients read `Reservation<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation<'a> {
    /// The namespace.
    pub namespace: Cow<'a, str>,
    /// The object that the reservation is for.
    pub reserved_by: Holder<'a>,
    /// The reserved amounts.
    pub reserved: Cow<'a, ResourceList>,
    /// The state: `pending`, `observed`, `committed`, `released` or `expired`.
    #[schemars(schema_with = "super::reservation_state")]
    pub state: Cow<'a, str>,
    /// An explanation of the state, for people; only for superseded and returned reservations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The time at which the reservation was granted.
    pub created_time: Timestamp,
    /// The time at which the reservation expires.
    pub expiration_time: Timestamp,
    /// The time at which the reservation ended; absent while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// The quotas that count the reservation; absent in a list, and once the reservation holds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Cow<'a, [Name]>>,
    /// The groups that count the reservation, children before parents.
    #[serde(default, skip_serializing_if = "no_items")]
    pub groups: Cow<'a, [Name]>,
    /// The reserved resources that no quota and no group limits; absent where `quotas` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<Cow<'a, [Name]>>,
    /// The warnings of the grant; only in the response to the request, and also sent as `Warning` headers.
    #[serde(default, skip_serializing_if = "no_items")]
    pub warnings: Cow<'a, [String]>,
    /// The last entry that the response includes; absent in a list, which has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The object that a reservation is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReservedBy")]
#[serde(rename_all = "camelCase")]
pub struct Holder<'a> {
    /// The apiVersion of the object; empty if it was not given.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub api_version: Cow<'a, str>,
    /// The kind of the object; empty if it was not given.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'a, str>,
    /// The name of the object; empty if it was not given.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    /// The uid of the object.
    pub uid: Cow<'a, Uid>,
}

impl Holder<'static> {
    /// An object with its apiVersion, kind, name and uid.
    pub fn new(api_version: &str, kind: &str, name: &str, uid: Uid) -> Self {
        Self {
            api_version: api_version.to_owned().into(),
            kind: kind.to_owned().into(),
            name: name.to_owned().into(),
            uid: Cow::Owned(uid),
        }
    }
}

/// A request to reserve or check amounts: `POST /v1/namespaces/{namespace}/reservations`, `…/check`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReserveRequest {
    /// The namespace; required in a batch, where the path has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The object that the reservation is for; optional if `object` has its fields, and for a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<Holder<'static>>,
    /// The amounts to reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ResourceList>,
    /// In place of `reserved`: the object as a Kubernetes manifest. The daemon computes its amounts and matches scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
    /// The time to live of the reservation; absent: the configured default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Period>,
}

impl ReserveRequest {
    /// A request for these amounts.
    pub fn of_amounts(
        holder: Holder<'static>,
        amounts: impl IntoIterator<Item = (Name, Quantity)>,
    ) -> Self {
        Self {
            reserved_by: Some(holder),
            reserved: Some(amounts.into_iter().collect()),
            ..Self::default()
        }
    }

    /// A request for the amounts of a Kubernetes object; its `metadata.uid` becomes the uid of the reservation.
    pub fn of_object(object: Value) -> Self {
        Self { object: Some(object), ..Self::default() }
    }

    /// The same request with a time to live.
    pub fn for_time(self, ttl: Period) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// The same request with a namespace, for a batch.
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }
}
