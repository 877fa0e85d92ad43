//! Errors, denials, and the result of a check.

use std::borrow::Cow;

use quota_semantics::{Name, Timestamp, admission::CheckedQuota, field::shown, quota::FieldError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false, is_zero, no_items};

/// An error response: `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The URI of the reason: `urn:quota-ledger:problem:` and the reason.
    #[serde(rename = "type", default)]
    pub kind: Cow<'static, str>,
    /// A short summary of the reason, the same for all problems with this reason.
    #[serde(default)]
    pub title: Cow<'static, str>,
    /// The HTTP status code.
    #[serde(default)]
    pub status: u16,
    /// The reason, for programs.
    #[serde(default)]
    #[schemars(with = "super::Reason")]
    pub reason: Cow<'static, str>,
    /// The message for people.
    #[serde(default)]
    pub detail: String,
    /// The index of the refused item of a batch, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The entry that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The errors of single fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// The checked quotas and groups, if one of them denied the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Vec<CheckedQuota>>,
    /// The number of checked quotas that `quotas` leaves out: the space for quotas is bounded, and the denials of a batch share it.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1))]
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
    #[schemars(schema_with = "super::reservation_state")]
    pub state: Option<Cow<'static, str>>,
    /// The time at which the requested reservation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// The cause of the reservation's end: `released`, `returned`, `expired` or `superseded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'static, str>>,
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FieldError")]
pub struct FieldProblem {
    /// The path of the field, such as `spec.hard[pods]`.
    pub field: String,
    /// The error message.
    pub message: String,
    /// The kind of error, as in Kubernetes' `status.details.causes`.
    #[serde(rename = "type", default)]
    pub kind: Cow<'static, str>,
}

impl FieldProblem {
    /// A required field is missing.
    pub fn required(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            message: format!("Required value: {why}"),
            kind: Cow::Borrowed("FieldValueRequired"),
        }
    }

    /// A value is not allowed. Of a long one only the start is shown, so that it does not hide the reason.
    pub fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        const VALUE_MAX_BYTES: usize = 512;
        let value = shown(value, VALUE_MAX_BYTES);
        Self {
            field: field.into(),
            message: format!("Invalid value: {value:?}: {why}"),
            kind: Cow::Borrowed("FieldValueInvalid"),
        }
    }

    /// A field is forbidden here.
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            message: format!("Forbidden: {why}"),
            kind: Cow::Borrowed("FieldValueForbidden"),
        }
    }
}

impl From<FieldError> for FieldProblem {
    fn from(error: FieldError) -> Self {
        Self {
            message: error.message(),
            kind: Cow::Borrowed(error.kind.reason()),
            field: error.field,
        }
    }
}

/// How many of the pods of a workload would fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PodsVerdict")]
#[serde(rename_all = "camelCase")]
pub struct PodsVerdict<'a> {
    /// The number of pods that the workload runs at once.
    pub replicas: u64,
    /// The number of them that would be admitted.
    pub fit: u64,
    /// The reason why not all of them would be, for programs; absent if they would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "super::Reason")]
    pub reason: Option<Cow<'a, str>>,
    /// The message for people, about all pods together; absent if they fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The checked quotas and groups, with what all pods together request; absent if they fit.
    #[serde(default, skip_serializing_if = "no_items")]
    pub quotas: Cow<'a, [CheckedQuota]>,
}

/// The result of a check: `POST /v1/namespaces/{namespace}/check`.
///
/// The daemon writes it from borrowed data; clients read `Verdict<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict<'a> {
    /// Whether the request would be granted.
    pub fits: bool,
    /// The reason of the denial, for programs; absent if the request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "super::Reason")]
    pub reason: Option<Cow<'a, str>>,
    /// The message for people; absent if the request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The checked quotas and groups.
    pub quotas: Cow<'a, [CheckedQuota]>,
    /// The requested resources that no quota and no group limits.
    #[serde(default, skip_serializing_if = "no_items")]
    pub unlimited: Cow<'a, [Name]>,
    /// The warnings that a grant would come with; also sent as `Warning` headers.
    #[serde(default, skip_serializing_if = "no_items")]
    pub warnings: Cow<'a, [String]>,
    /// The time at which the expiry of pending reservations alone makes room, if it can be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether the pods of a workload would fit as well: `fits` is about the object alone, unless the workload is charged
    /// for its pods. Absent for other objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsVerdict<'a>>,
    /// The last entry that the check includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}
