//! What the transport itself answers, as `application/problem+json` (RFC 9457).

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, header};
use serde_json::json;

use crate::reason::Reason;

/// A problem with its `detail`.
#[must_use]
pub fn problem(reason: Reason, detail: &str) -> Response {
    let status = reason.status();
    let body = json!({
        "type": reason.uri(),
        "title": reason.title(),
        "status": status.as_u16(),
        "reason": reason.as_str(),
        "detail": detail,
    });
    let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, content_type, Body::from(body.to_string())).into_response()
}

/// The same for a connection that cannot be used any more, since part of the request was not read.
pub(super) fn last_problem(reason: Reason, detail: &str) -> Response {
    let mut response = problem(reason, detail);
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
