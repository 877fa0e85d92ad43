//! Simulations: what other limits would have done.

use quota_semantics::{
    Actor, Name, Timestamp, admission::LimitKind, quantity::Quantity, resource::ResourceList,
    uid::Uid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A question about other limits: `POST /v1/simulate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SimulateRequest {
    /// The beginning of the period.
    pub from: Timestamp,
    /// The end of the period [default: now].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<Timestamp>,
    /// Manifests of quotas (v1 ResourceQuota) that hold through the whole period, instead of the recorded ones of the
    /// same names.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub quotas: Vec<Value>,
    /// The same of groups (quota.openshift.io/v1 ClusterResourceQuota).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<serde_json::Map<String, Value>>")]
    pub groups: Vec<Value>,
    /// Quotas and groups that are left out of the period.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delete: Vec<LimitName>,
}

/// The name of a quota or group.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LimitName {
    /// Whether it is a quota or a group.
    #[serde(default)]
    pub kind: LimitKind,
    /// The namespace of a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// Its name.
    pub name: Name,
}

/// What other limits would have done.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Simulation {
    /// The beginning of the period.
    pub from: Timestamp,
    /// The end of the period.
    pub to: Timestamp,
    /// The first entry of the period; one more than the last one, if there is none.
    pub first_sequence: u64,
    /// The last entry of the period.
    pub last_sequence: u64,
    /// The check that recorded decisions follow from the limits of their time.
    pub identity: Identity,
    /// Recorded grants that would have been granted.
    pub granted: u64,
    /// Recorded grants that would have been refused.
    pub refused: u64,
    /// Recorded grants about objects that would not have existed, since an earlier one would have been refused.
    pub left_out: u64,
    /// The limits in question, and others that refuse something.
    pub limits: Vec<SimulatedLimit>,
    /// The first hundred refused grants.
    pub refusals: Vec<SimulatedRefusal>,
    /// Remembered denials that would have been granted.
    pub denials_granted: u64,
    /// The time of the oldest denial that is remembered; absent: none of the period is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denials_since: Option<Timestamp>,
    /// What a simulation cannot know.
    pub unknown: Vec<String>,
}

/// The check that recorded decisions follow from the limits of their time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Identity {
    /// The number of recorded grants that were decided again, each with the same result.
    pub decisions: u64,
}

/// What a limit would have done.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedLimit {
    /// Whether it is one of a quota or of a group.
    #[serde(default)]
    pub kind: LimitKind,
    /// The namespace; absent: it is one of a group, for all of its namespaces together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The name of the quota or group.
    pub name: Name,
    /// The resource.
    pub resource: Name,
    /// The limit; absent: the recorded one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hard: Option<Quantity>,
    /// Recorded grants that need some of it.
    #[serde(default)]
    pub grants: u64,
    /// Those that it would have refused.
    pub refused: u64,
    /// When it would have refused the first one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_refused: Option<Timestamp>,
    /// The most that was used and reserved, with nothing refused.
    pub peak: Quantity,
    /// When that was reached first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_time: Option<Timestamp>,
    /// The entry with which it was reached first.
    #[serde(default)]
    pub peak_sequence: u64,
    /// The least limit that refuses no recorded grant.
    pub least_refusing_none: Quantity,
    /// A limit that refuses at most one of a hundred recorded grants: that which they exceed with nothing refused.
    #[serde(rename = "leastRefusing1Percent")]
    pub least_refusing_1_percent: Quantity,
    /// How long as much as the limit was used and reserved, with nothing refused.
    #[schemars(with = "String")]
    pub time_full: String,
}

/// A recorded grant that would have been refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedRefusal {
    /// The entry that records the grant.
    pub sequence: u64,
    /// Its time.
    pub time: Timestamp,
    /// The namespace.
    pub namespace: Name,
    /// The object.
    pub object: SimulatedObject,
    /// The requester.
    pub owner: Actor,
    /// The limits that refuse it.
    pub limits: Vec<RefusingLimit>,
}

/// The object of a refused grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SimulatedObject {
    /// Its uid.
    pub uid: Uid,
    /// Its kind, as in `deployments.apps`.
    pub resource: Name,
    /// Its apiVersion, as the holder gave it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub api_version: Name,
    /// Its kind, as the holder gave it.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub kind: Name,
    /// Its name; empty: unknown.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The requested amounts.
    pub requested: ResourceList,
}

/// A limit that refuses a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RefusingLimit {
    /// Whether it is one of a quota or of a group.
    #[serde(default)]
    pub kind: LimitKind,
    /// The name of the quota or group.
    pub name: Name,
    /// The resource, if one is exceeded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<Name>,
}

/// Suggested limits: `GET /v1/suggestions`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Suggestions {
    /// The beginning of the period.
    pub from: Timestamp,
    /// The end of the period.
    pub to: Timestamp,
    /// The limits that there are at the end, by namespace, name and resource; groups first.
    pub items: Vec<Suggestion>,
}

/// A limit, and the suggested one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Suggestion {
    /// Whether it is one of a quota or of a group.
    #[serde(default)]
    pub kind: LimitKind,
    /// The namespace of a quota.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The name of the quota or group.
    pub name: Name,
    /// The resource.
    pub resource: Name,
    /// The present limit.
    pub hard: Quantity,
    /// The most that was used and reserved.
    pub peak: Quantity,
    /// When that was reached first; absent: it was so from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_time: Option<Timestamp>,
    /// The entry with which it was reached first.
    #[serde(default)]
    pub peak_sequence: u64,
    /// The percentile of what was used and reserved.
    pub percentile: Quantity,
    /// The suggested limit; absent: nothing can be said, since the group limits each member alone, or has children.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suggested: Option<Quantity>,
    /// How long the limit was reached.
    pub time_full: String,
    /// Remembered denials of this limit in the period.
    #[serde(default)]
    pub denials: u64,
    /// In how many seconds the limit is reached, or that of a group that counts the namespace, by the trend of the daily
    /// peaks; absent: not by that trend, or there are fewer than five days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub full_in_seconds: Option<u64>,
}
