//! Usage of namespaces, now and in the past.

use quota_semantics::{Name, Timestamp, quantity::Quantity};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// What a namespace uses: `GET /v1/namespaces/{namespace}/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// The namespace.
    pub namespace: Name,
    /// What counts for each resource, whatever the quotas.
    pub resources: Vec<Total>,
    /// The limits.
    pub quotas: Vec<QuotaUsage>,
    /// How far the ledger was.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// What counts for a resource in a namespace, whatever the quotas.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Total {
    /// The resource.
    pub resource: Name,
    /// What objects count for.
    pub used: Quantity,
    /// What pending reservations hold beside that.
    pub reserved: Quantity,
}

/// The limits of a quota, and what counts against them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaUsage {
    /// The quota.
    pub name: Name,
    /// One for each limit.
    pub resources: Vec<ResourceUsage>,
}

/// A limit, and what counts against it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceUsage {
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// What objects count for; none: the quota does not count it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Quantity>,
    /// What pending reservations hold beside that.
    pub reserved: Quantity,
    /// What is left. Negative if objects are there that nobody requested.
    pub available: Quantity,
    /// Of a group: what is guaranteed to the groups below it, and not used or reserved by them. It counts as taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
}

/// Usage over time: `GET /v1/namespaces/{namespace}/usage/history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsageHistory {
    /// The namespace.
    pub namespace: Name,
    /// Time between two points, as in `30s`.
    pub step: String,
    /// Oldest first.
    pub points: Vec<UsagePoint>,
    /// How far the ledger was.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// Usage at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsagePoint {
    /// The time.
    pub time: Timestamp,
    /// The last entry at that time.
    pub sequence: u64,
    /// What counted for each resource.
    pub resources: Vec<Total>,
    /// The limits as they were.
    pub quotas: Vec<QuotaUsage>,
}

/// A namespace, and the limit of it that is taken the most of: `GET /v1/usage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceUsage {
    /// The namespace.
    pub namespace: Name,
    /// How many quotas it has.
    pub quotas: usize,
    /// How many reservations are pending.
    pub reservations: usize,
    /// Its fullest limit; none if it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest: Option<Fullest>,
}

/// The limit of a namespace that is taken the most of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fullest {
    /// The quota.
    pub quota: Name,
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// What objects count for.
    pub used: Quantity,
    /// What pending reservations hold beside that.
    pub reserved: Quantity,
    /// Used and reserved as a share of the limit; none if the limit is 0 and something is taken nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
}
