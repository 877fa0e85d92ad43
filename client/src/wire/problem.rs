//! Errors, denials, and the result of a check.

use quota_semantics::{Name, Timestamp, quantity::Quantity};
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false, is_zero};

/// An error response: `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The URI of the reason: `urn:quota-ledger:problem:` and the reason.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// A short summary of the reason, the same for all problems with this reason.
    #[serde(default)]
    pub title: String,
    /// The HTTP status code.
    #[serde(default)]
    pub status: u16,
    /// The reason for programs, as in [`Reason`](super::Reason).
    #[serde(default)]
    pub reason: String,
    /// The message for people.
    #[serde(default)]
    pub detail: String,
    /// The index of the refused item of a batch, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The errors of single fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// The checked quotas and groups, if one of them denied the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Vec<QuotaCheck>>,
    /// The number of checked quotas that `quotas` leaves out: the denials of a batch share the space for quotas.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub quotas_omitted: usize,
    /// The time at which the expiry of pending reservations alone makes room, if it can be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether the request would fit if nothing else counted. If not, the request or a quota has to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_when_empty: Option<bool>,
    /// The last entry of the ledger at the time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// The state of the requested reservation, if it was granted before and has ended since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// The time at which that reservation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// The cause of its end: `released`, `returned`, `expired` or `superseded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldProblem {
    /// The path of the field, such as `spec.hard[pods]`.
    pub field: String,
    /// The error message.
    pub message: String,
    /// The kind of error, as in Kubernetes' `status.details.causes`.
    #[serde(rename = "type", default)]
    pub kind: String,
}

/// A quota or group that a decision checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaCheck {
    /// The name of the quota or group.
    pub name: Name,
    /// `ResourceQuota` or, for a group, `ClusterResourceQuota`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub kind: String,
    /// The checked limits.
    pub resources: Vec<ResourceCheck>,
}

/// A limit that a decision checked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceCheck {
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// The amount of observed objects and commits.
    #[serde(default)]
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    #[serde(default)]
    pub reserved: Quantity,
    /// The amount guaranteed to other groups, and therefore not available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
    /// The limit above which a grant comes with a warning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub soft: Option<Quantity>,
    /// The requested amount.
    #[serde(default)]
    pub requested: Quantity,
}

/// The result of a check: `POST /v1/namespaces/{namespace}/check`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Verdict {
    /// Whether the request would be granted.
    pub fits: bool,
    /// The reason of the denial, as in [`Reason`](super::Reason); absent if the request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The message for people; absent if the request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// The checked quotas and groups.
    pub quotas: Vec<QuotaCheck>,
    /// The requested resources that no quota and no group limits.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unlimited: Vec<Name>,
    /// The warnings that a grant would come with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// The time at which the expiry of pending reservations alone makes room, if it can be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// The last entry that the check includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}
