//! Refusals and errors as `application/problem+json` (RFC 9457): the only place that writes them.

use std::num::NonZero;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use quota_core::{
    decide::{CheckedQuota, Refusal},
    state::{Head, ReservationView},
};
use quota_journal::Damage;
use quota_semantics::{
    Timestamp, in_microseconds,
    quota::{FieldError, field},
};
use serde::{Serialize, Serializer};

use crate::{metrics::Limit, reason, writer::Unavailable};

pub(crate) use crate::reason::Reason;

/// Marks responses that say that nothing was decided, since another node leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotDecided;

/// Marks responses that say that perhaps only a part was decided, since another node leads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutcomeUnknown;

/// Marks responses that say that nothing was decided, since the ledger has not caught up with the sources.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NotReady;

/// The media type of a problem.
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cause {
    /// The path of the field, such as `spec.hard[pods]`.
    pub field: String,
    /// The error message.
    pub message: String,
    /// The kind of error, as in Kubernetes' `status.details.causes`.
    #[serde(rename = "type")]
    pub kind: &'static str,
}

impl Cause {
    /// Keeps of long texts what is shown. The path of a group's field is longer than that of a quota's; a message has a
    /// value and an explanation.
    fn cut(&mut self) {
        for (text, most) in [
            (&mut self.field, field::SHOWN_BYTES_MAX + 16),
            (&mut self.message, 3 * field::SHOWN_BYTES_MAX),
        ] {
            if text.len() > most {
                *text = field::shown(text, most).into_owned();
            }
        }
    }

    /// A required field is missing.
    #[must_use]
    pub fn required(field: &str, why: &str) -> Self {
        let message = format!("Required value: {why}");
        Self {
            field: field.to_owned(),
            message,
            kind: "FieldValueRequired",
        }
    }

    /// A value is not allowed.
    #[must_use]
    pub fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        let message = format!("Invalid value: {value:?}: {why}");
        Self {
            field: field.into(),
            message,
            kind: "FieldValueInvalid",
        }
    }

    /// A field is forbidden here.
    #[must_use]
    pub fn forbidden(field: &str, why: &str) -> Self {
        let message = format!("Forbidden: {why}");
        Self {
            field: field.to_owned(),
            message,
            kind: "FieldValueForbidden",
        }
    }
}

/// Most bytes of the causes of a problem: all field errors that are shown of one object have room.
const CAUSES_BYTES_MAX: usize = 2 * field::ERRORS_BYTES_MAX;

/// The causes that are shown. The last one says whether there are more.
fn truncate_causes(causes: Vec<Cause>) -> Vec<Cause> {
    let most = match causes.len() > field::ERRORS_MAX {
        true => field::ERRORS_MAX - 1,
        false => field::ERRORS_MAX,
    };
    let mut bytes = 0;
    let mut shown = Vec::new();
    for mut cause in causes {
        cause.cut();
        bytes += cause.field.len() + cause.message.len();
        if shown.len() == most || bytes > CAUSES_BYTES_MAX {
            shown.push(Cause {
                message: format!("Invalid value: {}", field::FURTHER_ERRORS),
                kind: "FieldValueInvalid",
                ..cause
            });
            break;
        }
        shown.push(cause);
    }
    shown
}

impl From<FieldError> for Cause {
    fn from(error: FieldError) -> Self {
        Self {
            message: error.message(),
            kind: error.kind.reason(),
            field: error.field,
        }
    }
}

/// Why a request was not carried out.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Problem(Box<Content>);

#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    #[serde(rename = "type", serialize_with = "as_uri")]
    kind: Reason,
    title: &'static str,
    #[serde(serialize_with = "as_code")]
    status: StatusCode,
    #[serde(serialize_with = "as_text")]
    reason: Reason,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<usize>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<Cause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas: Option<Vec<CheckedQuota>>,
    /// How many further quotas were checked.
    #[serde(skip_serializing_if = "Option::is_none")]
    quotas_omitted: Option<NonZero<usize>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fits_when_empty: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    as_of: Option<Head>,
    #[serde(flatten)]
    ended: Option<Ended>,
    /// Whether the ledger refused the request.
    #[serde(skip)]
    is_refusal: bool,
    /// The limit that was hit.
    #[serde(skip)]
    limit: Option<Limit>,
}

/// How a requested reservation has ended before.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Ended {
    state: &'static str,
    ended_time: Timestamp,
    cause: &'static str,
}

impl Ended {
    fn of(view: &ReservationView) -> Option<Self> {
        let (end, ended_time) = view.end?;
        Some(Self {
            state: end.state().as_str(),
            ended_time,
            cause: end.as_str(),
        })
    }
}

fn as_uri<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.uri())
}

fn as_text<S: Serializer>(reason: &Reason, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(reason.as_str())
}

fn as_code<S: Serializer>(status: &StatusCode, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_u16(status.as_u16())
}

impl Problem {
    /// A problem with its detail text.
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self(Box::new(Content {
            kind: reason,
            title: reason.title(),
            status: reason::status(reason),
            reason,
            detail: detail.into(),
            index: None,
            errors: Vec::new(),
            quotas: None,
            quotas_omitted: None,
            retry_after: None,
            fits_when_empty: None,
            as_of: None,
            ended: None,
            is_refusal: false,
            limit: None,
        }))
    }

    /// Invalid fields; there must be at least one. Of many, or of long ones, only a part is shown.
    #[must_use]
    pub fn invalid(causes: Vec<Cause>) -> Self {
        let causes = truncate_causes(causes);
        let said: Vec<_> = causes
            .iter()
            .map(|cause| format!("{}: {}", cause.field, cause.message))
            .collect();
        let mut problem = Self::new(Reason::Invalid, said.join("; "));
        problem.0.errors = causes;
        problem
    }

    /// An internal error: the log has the details, the caller learns only that it happened.
    #[must_use]
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        tracing::error!(%error, "request failed");
        Self::new(
            Reason::Internal,
            "the request could not be handled; the log says why",
        )
    }

    /// The same problem, about one item of a batch.
    #[must_use]
    pub fn at(mut self, index: usize) -> Self {
        self.0.index = Some(index);
        self
    }

    /// The same problem, with the position of the ledger at the decision.
    #[expect(
        clippy::wrong_self_convention,
        reason = "it is named as the field of the response"
    )]
    #[must_use]
    pub fn as_of(mut self, head: Head) -> Self {
        self.0.as_of = Some(head);
        self
    }

    /// The problem as JSON.
    #[must_use]
    pub(crate) fn to_text(&self) -> String {
        in_microseconds(|| serde_json::to_string(self)).expect("a problem has text keys only")
    }

    /// The reason.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.0.reason
    }

    /// Whether the ledger refused the request; otherwise it was not decided.
    pub(crate) fn is_refusal(&self) -> bool {
        self.0.is_refusal
    }

    /// The limit that was hit, if any.
    pub(crate) fn limit(&self) -> Option<Limit> {
        self.0.limit
    }

    /// The detail text.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// The quotas that were checked, if a quota denied the request.
    #[must_use]
    pub fn quotas(&self) -> Option<&[CheckedQuota]> {
        self.0.quotas.as_deref()
    }

    /// The number of amounts in the problem.
    pub(crate) fn amounts(&self) -> usize {
        let quotas = self.quotas().unwrap_or_default();
        1 + quotas
            .iter()
            .map(|quota| 1 + quota.resources.len())
            .sum::<usize>()
    }

    /// When there will be room, if the expiry of reservations is enough for that.
    #[must_use]
    pub fn retry_after(&self) -> Option<Timestamp> {
        self.0.retry_after
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let detail = refusal.to_string();
        let limit = Limit::hit_by(&refusal);
        let reason = reason::of_refusal(&refusal);
        let mut problem = match refusal {
            Refusal::Denied(denied) => {
                let mut problem = Self::new(reason, denied.detail);
                problem.0.quotas = Some(denied.quotas);
                problem.0.quotas_omitted = NonZero::new(denied.quotas_omitted);
                problem.0.retry_after = denied.retry_after;
                problem.0.fits_when_empty = Some(denied.fits_when_empty);
                problem
            }
            Refusal::Ended(view) => {
                let mut problem = Self::new(reason, detail);
                problem.0.ended = Ended::of(&view);
                problem
            }
            Refusal::Invalid(errors) => {
                Self::invalid(errors.into_iter().map(Cause::from).collect())
            }
            Refusal::InvalidTtl { .. } => Self::invalid(vec![Cause {
                field: "ttl".to_owned(),
                message: detail,
                kind: "FieldValueInvalid",
            }]),
            _ => Self::new(reason, detail),
        };
        problem.0.is_refusal = true;
        problem.0.limit = limit;
        problem
    }
}

impl From<Unavailable> for Problem {
    fn from(unavailable: Unavailable) -> Self {
        Self::new(unavailable.into(), unavailable.to_string())
    }
}

impl From<quota_journal::Error> for Problem {
    fn from(error: quota_journal::Error) -> Self {
        match error {
            quota_journal::Error::Compacted { .. } => {
                Self::new(Reason::Compacted, error.to_string())
            }
            quota_journal::Error::Damaged(Damage {
                sequence: Some(first),
                through: Some(last),
                ..
            }) => {
                tracing::error!(%error, "the requested part of the ledger is damaged");
                let detail = format!(
                    "the entries {first} to {last} are damaged; the log says where, and `quotactl ledger repair` may help"
                );
                Self::new(Reason::Internal, detail)
            }
            _ => Self::internal(&error),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = in_microseconds(|| serde_json::to_vec(&self));
        self.respond(text)
    }
}

impl Problem {
    /// The response with this text.
    pub(crate) fn respond(&self, text: serde_json::Result<Vec<u8>>) -> Response {
        let status = self.0.status;
        let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
        let text = text.expect("a problem has text keys only");
        let mut response = (status, content_type, text).into_response();
        match self.0.reason {
            Reason::NotLeader => _ = response.extensions_mut().insert(NotDecided),
            Reason::NotReady => _ = response.extensions_mut().insert(NotReady),
            Reason::OutcomeUnknown => _ = response.extensions_mut().insert(OutcomeUnknown),
            _ => {}
        }
        if matches!(
            status,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS
        ) {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
