//! What the transport itself answers, as `application/problem+json` (RFC 9457).

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use http::{HeaderValue, header};
use serde_json::json;

use crate::reason::Reason;

const CONTENT_TYPE: &str = "application/problem+json";

/// A problem with its `detail`.
#[must_use]
pub fn problem(reason: Reason, detail: &str) -> Response {
    let content_type = [(header::CONTENT_TYPE, CONTENT_TYPE)];
    let body = Body::from(text(reason, detail));
    (reason.status(), content_type, body).into_response()
}

fn text(reason: Reason, detail: &str) -> String {
    let body = json!({
        "type": reason.uri(),
        "title": reason.title(),
        "status": reason.status().as_u16(),
        "reason": reason.as_str(),
        "detail": detail,
    });
    body.to_string()
}

/// What a connection is told that is one too many: a whole answer, as it is sent.
pub(super) fn turned_away(retry_after: bool) -> String {
    let body = text(Reason::Overloaded, "too many connections are open");
    let retry_after = if retry_after {
        "retry-after: 1\r\n"
    } else {
        ""
    };
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {CONTENT_TYPE}\r\n{retry_after}\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// The same for a connection that cannot be used any more, since part of the request was not read.
pub(super) fn last_problem(reason: Reason, detail: &str) -> Response {
    let mut response = problem(reason, detail);
    response
        .headers_mut()
        .insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
