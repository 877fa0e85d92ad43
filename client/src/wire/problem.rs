//! Errors, denials, and the answer to the question whether something fits.

use quota_semantics::{Name, Timestamp, quantity::Quantity};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false, is_zero};

/// Why a request was not carried out: `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// A URI for the reason.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// The reason in a few words, the same for every such problem.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// One of a closed set: what programs decide on.
    #[serde(default)]
    pub reason: String,
    /// What is to be said about this one.
    #[serde(default)]
    pub detail: String,
    /// Which item of a batch it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// What is wrong with single fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// The quotas that were looked at, if a quota denied the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Vec<QuotaCheck>>,
    /// How many more quotas were looked at: the denials of a batch share what its answer shows of them.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quotas_omitted: usize,
    /// When there will be room, if the expiry of reservations alone makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether it would fit if nothing else were there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_when_empty: Option<bool>,
    /// How far the ledger was when it was decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// The state of the reservation, if it has ended since it was granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// What ended it: `released`, `returned`, `expired` or `superseded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// What is wrong with one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldProblem {
    /// The path of the field, such as `spec.hard[pods]`.
    pub field: String,
    /// What is wrong with it.
    pub message: String,
    /// The kind of error, as in Kubernetes' `status.details.causes`.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// A quota that a decision looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaCheck {
    /// The name of the quota or group.
    pub name: Name,
    /// What it is: `ResourceQuota` or `ClusterResourceQuota`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// Its limits.
    pub resources: Vec<ResourceCheck>,
}

/// A limit that a decision looked at.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCheck {
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// What objects count for.
    #[serde(default)]
    pub used: Quantity,
    /// What pending reservations hold beside that.
    #[serde(default)]
    pub reserved: Quantity,
    /// What is guaranteed to others, and so not to be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
    /// The limit above which a grant comes with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<Quantity>,
    /// The requested amount.
    #[serde(default)]
    pub requested: Quantity,
}

/// Whether something would fit: `POST /v1/namespaces/{namespace}/check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether it fits.
    pub fits: bool,
    /// Why not: one of a closed set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Why not, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The quotas that were looked at.
    pub quotas: Vec<QuotaCheck>,
    /// Resources that no quota and no group limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlimited: Vec<Name>,
    /// What would be said of a grant.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// When there will be room, if the expiry of reservations alone makes it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// How far the ledger was.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}
