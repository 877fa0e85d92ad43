//! Kubernetes `Status` objects: the only place that writes them as responses of their own. `kube::status` words the
//! failures about quotas, `auth::refusal` those about rights.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::problem::Undecided;

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
