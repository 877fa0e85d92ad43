//! What the transport itself answers, as `application/problem+json` (RFC 9457).

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, StatusCode, header};
use serde_json::json;

/// A problem with its `reason` (CamelCase) and `detail`.
#[must_use]
pub fn problem(status: StatusCode, reason: &str, detail: &str) -> Response {
    let body = json!({
        "type": "about:blank",
        "title": status.canonical_reason().unwrap_or_default(),
        "status": status.as_u16(),
        "reason": reason,
        "detail": detail,
    });
    let content_type = [(header::CONTENT_TYPE, "application/problem+json")];
    (status, content_type, Body::from(body.to_string())).into_response()
}

/// The same for a connection that cannot be used any more, since part of the request was not read.
pub(super) fn last_problem(status: StatusCode, reason: &str, detail: &str) -> Response {
    let mut response = problem(status, reason, detail);
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
