//! Refusals and errors: the only place that writes them, as `application/problem+json` (RFC 9457), and as Kubernetes'
//! `Status`.

use std::{borrow::Cow, collections::BTreeMap, error::Error as _, fmt};

use axum::{
    extract::{Query, rejection::QueryRejection},
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, Uri, header};
pub(crate) use quota_client::wire::FieldProblem;
pub use quota_client::wire::Reason;
use quota_client::wire::{self, AsOf, CheckedQuota};
use quota_core::{decide::Refusal, event::Sequence, state::Head};
use quota_journal::Damage;
use quota_semantics::{Timestamp, admission::Denial, field, in_microseconds};
use serde::{Serialize, Serializer, de::DeserializeOwned};

use crate::{log_limiter::LogLimiter, metrics::Limit, writer::Unavailable};

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
    pub fn invalid(causes: Vec<FieldProblem>) -> Self {
        let causes = truncate_causes(causes);
        let said: Vec<_> =
            causes.iter().map(|cause| format!("{}: {}", cause.field, cause.message)).collect();
        let mut problem = Self::new(Reason::Invalid, said.join("; "));
        problem.0.wire.errors = causes;
        problem
    }

    /// An internal error: the log has the details, the caller learns only that it happened.
    pub(crate) fn internal(error: &dyn std::fmt::Display) -> Self {
        log_failure(error, "request failed");
        Self::new(Reason::Internal, "the request could not be handled; the log says why")
    }

    /// The same problem, about one item of a batch.
    pub fn at(mut self, index: usize) -> Self {
        self.0.wire.index = Some(index);
        self
    }

    /// The same problem, with the position of the ledger at the decision.
    pub fn as_of(mut self, Head { sequence, time }: Head) -> Self {
        self.0.wire.as_of = Some(AsOf { sequence, time });
        self
    }

    /// The problem is about this entry.
    pub(crate) fn about_entry(mut self, sequence: Sequence) -> Self {
        self.0.wire.sequence = Some(sequence);
        self
    }

    /// The problem as JSON.
    pub(crate) fn to_text(&self) -> String {
        in_microseconds(|| serde_json::to_string(self)).expect("a problem has text keys only")
    }

    /// The reason.
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
    pub fn detail(&self) -> &str {
        &self.0.wire.detail
    }

    /// The quotas that were checked, if a quota denied the request.
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
        let reason = of_refusal(&refusal);
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
        let status = status(self.0.reason);
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

// Reasons of refusals: maps the core's refusals and denials to [`Reason`].

/// The HTTP status of a reason.
pub fn status(reason: Reason) -> StatusCode {
    StatusCode::from_u16(reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The reason of a refusal.
pub(crate) fn of_refusal(refusal: &Refusal) -> Reason {
    match refusal {
        Refusal::Denied(denied) => of_denial(&denied.denial),
        Refusal::UidReused(_) => Reason::UidReused,
        Refusal::NotOwner(_) => Reason::NotOwner,
        Refusal::Ended(_) => Reason::ReservationEnded,
        Refusal::TooManyPending { .. } => Reason::TooManyReservations,
        Refusal::LimitReached { .. } => Reason::LimitReached,
        Refusal::InvalidTtl { .. } | Refusal::Invalid(_) => Reason::Invalid,
        Refusal::NotReady { .. } => Reason::NotReady,
        Refusal::NotFound(_) => Reason::NotFound,
        Refusal::Expired(_) => Reason::ReservationExpired,
        Refusal::AlreadyObserved(_) => Reason::AlreadyObserved,
        Refusal::AlreadyReleased(_) => Reason::AlreadyReleased,
        Refusal::ExceedsReservation { .. } => Reason::ExceedsReservation,
        Refusal::Conflict { .. }
        | Refusal::Adopted { .. }
        | Refusal::Moved { .. }
        | Refusal::NotObserved { .. } => Reason::Conflict,
    }
}

/// The reason of a denial.
pub(crate) const fn of_denial(denial: &Denial) -> Reason {
    match denial {
        Denial::ExceedsHard { .. } => Reason::ExceedsHard,
        Denial::MustSpecify { .. } => Reason::MustSpecify,
        Denial::StatusUnknown { .. } => Reason::StatusUnknown,
        Denial::InsufficientQuota { .. } => Reason::InsufficientQuota,
        Denial::UncoveredScopes { .. } => Reason::UncoveredScopes,
        Denial::NegativeUsage { .. } => Reason::NegativeUsage,
        Denial::NoPreviousVersion => Reason::NoPreviousVersion,
        Denial::BrokenSelector { .. } => Reason::BrokenSelector,
    }
}

// Why input cannot be read, in words for people who do not know the libraries that read it.

/// Reads the query of a request. Unknown parameters are ignored.
///
/// # Errors
/// A parameter has a wrong value, or is there twice: the text names it.
pub(crate) fn query<T: DeserializeOwned>(uri: &Uri) -> Result<T, String> {
    match Query::try_from_uri(uri) {
        Ok(Query(query)) => Ok(query),
        Err(QueryRejection::FailedToDeserializeQueryString(rejection)) => {
            // Its own text says no more than that it is about a query.
            let why = rejection.source().map(ToString::to_string);
            let why = why.unwrap_or_else(|| "it is malformed".to_owned());
            Err(format!("cannot read the query: {}", in_plain_words(&why)))
        }
        Err(_) => Err("cannot read the query".to_owned()),
    }
}

/// The error of serde or one of its formats without the types of this program: `expected struct Holder` becomes
/// `expected an object`.
pub(crate) fn in_plain_words(error: &dyn fmt::Display) -> String {
    let text = error.to_string();
    let mut words = text.split(' ').peekable();
    let mut plain = Vec::new();
    while let Some(word) = words.next() {
        plain.push(word);
        match word {
            "type:" => match words.peek() {
                Some(&"map,") => plain.extend(words.next().map(|_| "object,")),
                Some(&"sequence,") => plain.extend(words.next().map(|_| "array,")),
                _ => {}
            },
            "expected" => {
                let mut ahead = words.clone();
                let kind = ahead.by_ref().take(3).find(|word| ["struct", "enum"].contains(word));
                if let Some(kind) = kind {
                    // The name of the type.
                    ahead.next();
                    words = ahead;
                    plain.push(if kind == "struct" { "an object" } else { "another value" });
                    if words.peek() == Some(&"with") {
                        words.by_ref().take(3).for_each(drop);
                    }
                } else if let Some(number) = words.peek().and_then(|word| number(word)) {
                    words.next();
                    plain.push(number);
                }
            }
            _ => {}
        }
    }
    plain.join(" ")
}

/// What a type of numbers is for people.
fn number(of_type: &str) -> Option<&'static str> {
    match of_type {
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => Some("a whole number from 0"),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => Some("a whole number"),
        "f32" | "f64" => Some("a number"),
        _ => None,
    }
}

// Kubernetes `Status` objects: the only place that writes them as responses of their own. `kube::failure` words
// the failures about quotas, `auth::in_kubernetes_words` those about rights.

/// A Kubernetes `Status` of a failure.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    api_version: &'static str,
    kind: &'static str,
    code: u16,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<StatusDetails>,
    message: String,
    metadata: BTreeMap<&'static str, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    status: &'static str,
}

/// The object that a failure is about, and what is wrong with it.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusDetails {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) causes: Vec<StatusCause>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_seconds: Option<u64>,
}

/// An error of a single field, or of the whole.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct StatusCause {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) field: Option<String>,
    pub(crate) message: String,
    pub(crate) reason: String,
}

/// Why a request was not carried out.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    status: Box<Status>,
    undecided: Option<Undecided>,
}

impl Failure {
    /// A failure with its code, its reason (one of Kubernetes', or none) and its message.
    pub(crate) fn new(code: StatusCode, reason: &str, message: impl Into<String>) -> Self {
        Self {
            status: Box::new(Status {
                api_version: "v1",
                kind: "Status",
                code: code.as_u16(),
                details: None,
                message: message.into(),
                metadata: BTreeMap::new(),
                reason: Some(reason.to_owned()).filter(|reason| !reason.is_empty()),
                status: "Failure",
            }),
            undecided: None,
        }
    }

    /// The same failure, marked with what was not decided.
    pub(crate) const fn undecided(mut self, undecided: Undecided) -> Self {
        self.undecided = Some(undecided);
        self
    }

    /// Whether nothing was decided, since another node leads.
    pub(crate) const fn is_not_decided(&self) -> bool {
        matches!(self.undecided, Some(Undecided::All))
    }

    /// The details, to be completed by the caller.
    pub(crate) fn details(&mut self) -> &mut StatusDetails {
        self.status.details.get_or_insert_default()
    }

    /// The same failure about an object, named by kind or plural; the API group may follow after a dot.
    pub(crate) fn about(mut self, kind: &str, name: &str) -> Self {
        let details = self.details();
        let (kind, group) = kind.split_once('.').unwrap_or((kind, ""));
        details.group = Some(group.to_owned()).filter(|group| !group.is_empty());
        details.kind = Some(kind.to_owned());
        details.name = Some(name.to_owned()).filter(|name| !name.is_empty());
        self
    }

    /// The same failure, with errors of single fields.
    pub(crate) fn because(mut self, causes: Vec<StatusCause>) -> Self {
        self.details().causes = causes;
        self
    }

    /// The same failure, to be retried after this many seconds.
    pub(crate) fn retry_after(mut self, seconds: u64) -> Self {
        self.details().retry_after_seconds = Some(seconds);
        self
    }

    /// The reason; empty if there is none.
    pub(crate) fn reason(&self) -> &str {
        self.status.reason.as_deref().unwrap_or_default()
    }

    /// The failure as an object.
    pub(crate) fn to_json(&self) -> serde_json::Value {
        serde_json::to_value(&*self.status).unwrap_or_default()
    }
}

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        let code = StatusCode::from_u16(self.status.code).ok();
        let retry = self.status.details.as_ref().and_then(|details| details.retry_after_seconds);
        let code = code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (code, axum::Json(self.to_json())).into_response();
        if let Some(undecided) = self.undecided {
            response.extensions_mut().insert(undecided);
        }
        if let Some(seconds) = retry {
            response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[test]
    fn every_reason_stands_in_the_docs_with_its_status() {
        let docs = include_str!("../docs/api.md");
        for reason in Reason::ALL {
            let item = format!("\n- `{}` ({}): ", reason.as_str(), reason.status());
            assert!(docs.contains(&item), "docs/api.md has no item {item}");
        }
        let (_, problems) = docs.split_once("## Problems").unwrap();
        let items = problems.lines().filter(|line| line.starts_with("- `"));
        assert_eq!(items.count(), Reason::ALL.len(), "docs/api.md has a reason that is none");
    }

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Inner {
        limit: Option<usize>,
        deep: Option<Box<Inner>>,
        pair: Option<(i64, f64)>,
        choice: Option<Choice>,
    }

    #[derive(Debug, Deserialize)]
    enum Choice {
        One,
    }

    #[test]
    fn a_query_is_refused_with_the_parameter() {
        let refused = |query: &str| {
            let uri = format!("/x?{query}").parse().unwrap();
            self::query::<Inner>(&uri).unwrap_err()
        };
        let text = refused("limit=x");
        assert!(text.starts_with("cannot read the query: limit: "), "{text}");
        let text = refused("limit=1&limit=2");
        assert_eq!(text, "cannot read the query: duplicate field `limit`");
        let uri = "/x?limit=5&other=1".parse().unwrap();
        assert_eq!(self::query::<Inner>(&uri).unwrap().limit, Some(5));
    }

    #[test]
    fn errors_of_serde_name_no_types_of_this_program() {
        for (text, plain) in [
            ("5", "invalid type: integer `5`, expected an object at line 1 column 1"),
            (
                r#"{"limit": "x"}"#,
                "invalid type: string \"x\", expected a whole number from 0 at line 1 column 13",
            ),
            (
                r#"{"limit": {}}"#,
                "invalid type: object, expected a whole number from 0 at line 1 column 10",
            ),
            (r#"{"deep": 1}"#, "invalid type: integer `1`, expected an object at line 1 column 10"),
            (
                r#"{"pair": ["x", 1]}"#,
                "invalid type: string \"x\", expected a whole number at line 1 column 13",
            ),
            (
                r#"{"pair": [1, "x"]}"#,
                "invalid type: string \"x\", expected a number at line 1 column 16",
            ),
            (r#"{"choice": 1}"#, "expected value at line 1 column 12"),
            (r#"{"choice": "Two"}"#, "unknown variant `Two`, expected `One` at line 1 column 16"),
            ("{", "EOF while parsing an object at line 1 column 1"),
        ] {
            let error = serde_json::from_str::<Inner>(text).unwrap_err();
            assert_eq!(in_plain_words(&error), plain, "{text}");
        }
    }
}
