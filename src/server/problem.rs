//! Problems that the listener itself reports.

use axum::response::{IntoResponse as _, Response};
use http::{HeaderValue, header};

use crate::problem::{CONTENT_TYPE, Problem, Reason};

/// The complete response to a connection above the limit, as sent.
pub(super) fn turned_away(retry_after: bool) -> String {
    let body = Problem::new(Reason::Overloaded, "too many connections are open").to_text();
    let retry_after = if retry_after { "retry-after: 1\r\n" } else { "" };
    let length = body.len();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: {CONTENT_TYPE}\r\n{retry_after}\
         connection: close\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}

/// A problem that closes the connection, since part of the request was not read.
pub(super) fn last_problem(reason: Reason, detail: &str) -> Response {
    let mut response = Problem::new(reason, detail).into_response();
    response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    response
}
