//! Answers in JSON.

use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Serialize;

use super::problem::Problem;

/// An answer with this body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        Ok(text) => {
            let content_type = [(header::CONTENT_TYPE, "application/json")];
            (status, content_type, Bytes::from(text)).into_response()
        }
        Err(error) => Problem::internal(&error).into_response(),
    }
}

/// The answer 200 with this body.
pub(super) fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

/// What cannot stand in a segment of a path as it is (RFC 3986), and some that could.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b':');

/// A path made of fixed text and of segments that may hold anything.
pub(super) fn location(segments: &[&str]) -> Option<HeaderValue> {
    let mut path = String::new();
    for segment in segments {
        path.push('/');
        path.extend(utf8_percent_encode(segment, ESCAPED));
    }
    HeaderValue::from_str(&path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped() {
        let path = location(&["v1", "a b", "x/y%", "ü"]).unwrap();
        assert_eq!(path, "/v1/a%20b/x%2Fy%25/%C3%BC");
    }
}
