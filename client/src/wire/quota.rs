//! Quotas of one namespace.

use std::borrow::Cow;

use quota_semantics::{
    Timestamp,
    quota::{Spec, manifest::Metadata},
    resource::ResourceList,
};
use serde::{Deserialize, Serialize};

use super::{AsOf, Condition, Holder, is_false, is_zero};

/// A v1 ResourceQuota with its numbers: `GET /v1/namespaces/{namespace}/quotas/{name}`. The daemon borrows what it writes;
/// what is read is `Quota<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Quota<'a> {
    /// `v1`.
    #[serde(default)]
    pub api_version: Cow<'a, str>,
    /// `ResourceQuota`.
    #[serde(default)]
    pub kind: Cow<'a, str>,
    /// Name, labels and the like. The resourceVersion is the entry that set the quota.
    pub metadata: Metadata,
    /// What the quota says.
    #[serde(default)]
    pub spec: Cow<'a, Spec>,
    /// What is in force, and what counts against it.
    #[serde(default)]
    pub status: QuotaStatus<'a>,
    /// How far the ledger was; none on the items of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The status of a quota as in Kubernetes, with what is reserved beside it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct QuotaStatus<'a> {
    /// The limits in force.
    pub hard: Cow<'a, ResourceList>,
    /// What objects count for.
    pub used: ResourceList,
    /// What pending reservations hold beside that.
    pub reserved: ResourceList,
    /// The reservations that hold something of it, as many as an answer has room for.
    pub reservations: Vec<QuotaReservation<'a>>,
    /// How many pending reservations of the namespace were not looked at.
    #[serde(skip_serializing_if = "is_zero")]
    pub reservations_omitted: usize,
    /// Which parts of the quota are not in effect: `Enforced` with `False` names limits that nothing keeps.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
}

/// What a reservation holds of a quota.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct QuotaReservation<'a> {
    /// The object that it is for.
    pub reserved_by: Holder<'a>,
    /// What it holds.
    pub reserved: Cow<'a, ResourceList>,
    /// When it ends by itself.
    pub expiration_time: Timestamp,
}
