//! Quotas of one namespace.

use std::borrow::Cow;

use quota_semantics::{
    Timestamp,
    quota::{Spec, manifest::Metadata},
    resource::ResourceList,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, Condition, Holder, is_false, is_zero};

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
