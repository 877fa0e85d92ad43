//! Refusals and errors as `application/problem+json` (RFC 9457): the only place that writes them.

use std::borrow::Cow;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use quota_client::wire::{self, AsOf, CheckedQuota};
use quota_core::{decide::Refusal, event::Sequence, state::Head};
use quota_journal::Damage;
use quota_semantics::{Timestamp, field, in_microseconds};
use serde::{Serialize, Serializer};

use crate::{log_limiter::LogLimiter, metrics::Limit, reason, writer::Unavailable};

pub(crate) use crate::reason::Reason;
pub(crate) use quota_client::wire::FieldProblem;

/// What of a request was not decided, for a reason that may not hold on another node or a little later: an extension of
/// the response that says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Undecided {
    /// Nothing was decided: the request can be sent to the node that leads.
    All,
    /// Another node leads, and a part of the request may have been decided.
    Part,
    /// Nothing was decided, since the ledger has not caught up with the sources.
    NotReady,
}

/// The media type of a problem.
pub(crate) const CONTENT_TYPE: &str = "application/problem+json";

/// Keeps of long texts what is shown. The path of a group's field is longer than that of a quota's; a message has a value
/// and an explanation.
fn cut(error: &mut FieldProblem) {
    for (text, most) in [
        (&mut error.field, field::SHOWN_BYTES_MAX + 16),
        (&mut error.message, 3 * field::SHOWN_BYTES_MAX),
    ] {
        if text.len() > most {
            *text = field::shown(text, most).into_owned();
        }
    }
}

/// Most bytes of the field errors of a problem: all that are shown of one object have room.
const CAUSES_BYTES_MAX: usize = 2 * field::ERRORS_BYTES_MAX;

/// The causes that are shown. The last one says whether there are more.
fn truncate_causes(causes: Vec<FieldProblem>) -> Vec<FieldProblem> {
    let most = match causes.len() > field::ERRORS_MAX {
        true => field::ERRORS_MAX - 1,
        false => field::ERRORS_MAX,
    };
    let mut bytes = 0;
    let mut shown = Vec::new();
    for mut cause in causes {
        cut(&mut cause);
        bytes += cause.field.len() + cause.message.len();
        if shown.len() == most || bytes > CAUSES_BYTES_MAX {
            shown.push(FieldProblem {
                message: format!("Invalid value: {}", field::FURTHER_ERRORS),
                kind: Cow::Borrowed("FieldValueInvalid"),
                ..cause
            });
            break;
        }
        shown.push(cause);
    }
    shown
}

/// Refuses a list in this field that has more than `most` of `what`.
pub(crate) fn at_most(field: &str, count: usize, most: usize, what: &str) -> Result<(), Problem> {
    if count <= most {
        return Ok(());
    }
    let wrong = format!("at most {most} {what}");
    Err(FieldProblem::invalid(field, &count.to_string(), &wrong).into())
}

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub struct Problem(Box<Content>);

#[derive(Clone, Debug)]
struct Content {
    reason: Reason,
    wire: wire::Problem,
    /// Whether the ledger refused the request.
    is_refusal: bool,
    /// The limit that was hit.
    limit: Option<Limit>,
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.wire.serialize(serializer)
    }
}

impl Problem {
    /// A problem with its detail text.
    #[must_use]
    pub fn new(reason: Reason, detail: impl Into<String>) -> Self {
        Self(Box::new(Content {
            reason,
            wire: wire::Problem {
                kind: Cow::Borrowed(reason.uri()),
                title: Cow::Borrowed(reason.title()),
                status: reason.status(),
                reason: Cow::Borrowed(reason.as_str()),
                detail: detail.into(),
                ..wire::Problem::default()
            },
            is_refusal: false,
            limit: None,
        }))
    }

    /// Invalid fields; there must be at least one. Of many, or of long ones, only a part is shown.
    #[must_use]
    pub fn invalid(causes: Vec<FieldProblem>) -> Self {
        let causes = truncate_causes(causes);
        let said: Vec<_> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let mut problem = Self::new(Reason::Invalid, said.join("; "));
        problem.0.wire.errors = causes;
        problem
    }

    /// An internal error: the log has the details, the caller learns only that it happened.
    #[must_use]
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        log_failure(error, "request failed");
        Self::new(Reason::Internal, "the request could not be handled; the log says why")
    }

    /// The same problem, about one item of a batch.
    #[must_use]
    pub fn at(mut self, index: usize) -> Self {
        self.0.wire.index = Some(index);
        self
    }

    /// The same problem, with the position of the ledger at the decision.
    #[expect(clippy::wrong_self_convention, reason = "it is named as the field of the response")]
    #[must_use]
    pub fn as_of(mut self, Head { sequence, time }: Head) -> Self {
        self.0.wire.as_of = Some(AsOf { sequence, time });
        self
    }

    /// The problem is about this entry.
    #[must_use]
    pub(crate) fn about_entry(mut self, sequence: Sequence) -> Self {
        self.0.wire.sequence = Some(sequence);
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
        &self.0.wire.detail
    }

    /// The quotas that were checked, if a quota denied the request.
    #[must_use]
    pub fn quotas(&self) -> Option<&[CheckedQuota]> {
        self.0.wire.quotas.as_deref()
    }

    /// The number of amounts in the problem.
    pub(crate) fn amounts(&self) -> usize {
        let quotas = self.quotas().unwrap_or_default();
        1 + quotas.iter().map(|quota| 1 + quota.resources.len()).sum::<usize>()
    }

    /// Leaves out the checked quotas, which take most of the memory of a denial.
    pub(crate) fn omit_quotas(&mut self) {
        let wire = &mut self.0.wire;
        if let Some(quotas) = &mut wire.quotas {
            wire.quotas_omitted += std::mem::take(quotas).len();
        }
    }

    /// When there will be room, if the expiry of reservations is enough for that.
    #[must_use]
    pub fn retry_after(&self) -> Option<Timestamp> {
        self.0.wire.retry_after
    }
}

impl From<FieldProblem> for Problem {
    fn from(cause: FieldProblem) -> Self {
        Self::invalid(vec![cause])
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
                let wire = &mut problem.0.wire;
                wire.quotas = Some(denied.quotas);
                wire.quotas_omitted = denied.quotas_omitted;
                wire.retry_after = denied.retry_after;
                wire.fits_when_empty = Some(denied.fits_when_empty);
                problem
            }
            Refusal::Ended(view) => {
                let mut problem = Self::new(reason, detail);
                if let Some((end, time)) = view.end {
                    let wire = &mut problem.0.wire;
                    wire.state = Some(Cow::Borrowed(end.state().as_str()));
                    wire.ended_time = Some(time);
                    wire.cause = Some(Cow::Borrowed(end.as_str()));
                }
                problem
            }
            Refusal::Invalid(errors) => {
                Self::invalid(errors.into_iter().map(FieldProblem::from).collect())
            }
            Refusal::InvalidTtl { .. } => Self::from(FieldProblem {
                field: "ttl".to_owned(),
                message: detail,
                kind: Cow::Borrowed("FieldValueInvalid"),
            }),
            _ => Self::new(reason, detail),
        };
        problem.0.is_refusal = true;
        problem.0.limit = limit;
        problem
    }
}

/// Failures that are logged per second: callers can repeat what fails.
static FAILURES: LogLimiter = LogLimiter::new(10);

/// Logs why a request failed, unless many have.
pub(crate) fn log_failure(error: &dyn std::fmt::Display, message: &str) {
    if let Some(held_back) = FAILURES.pass() {
        tracing::error!(%error, held_back, "{message}");
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
                log_failure(&error, "the requested part of the ledger is damaged");
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
        let status = reason::status(self.0.reason);
        let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
        let mut response = (status, content_type, self.to_text()).into_response();
        let undecided = match self.0.reason {
            Reason::NotLeader => Some(Undecided::All),
            Reason::OutcomeUnknown => Some(Undecided::Part),
            Reason::NotReady => Some(Undecided::NotReady),
            _ => None,
        };
        if let Some(undecided) = undecided {
            response.extensions_mut().insert(undecided);
        }
        if matches!(status, StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS) {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}
