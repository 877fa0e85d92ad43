//! JSON responses.

use axum::{
    body::Body,
    response::{IntoResponse, Response},
};
use http::{HeaderValue, StatusCode, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use quota_client::wire::AsOf;
use quota_core::state::Head;
use quota_semantics::in_microseconds;
use serde::Serialize;

use super::problem::Problem;
use crate::fairness::Turn;

/// Initial capacity for an answer about one reservation; it grows for a longer one.
pub(super) const ANSWER_BYTES: usize = 512;

/// A response with this body.
pub(super) fn json(status: StatusCode, body: &impl Serialize) -> Response {
    let mut text = Vec::with_capacity(ANSWER_BYTES);
    let made = in_microseconds(|| serde_json::to_writer(&mut text, body));
    made_or_problem(status, made.map(|()| text))
}

fn made_or_problem(status: StatusCode, text: serde_json::Result<Vec<u8>>) -> Response {
    match text {
        Ok(text) => written(status, text),
        Err(error) => Problem::internal(&error).into_response(),
    }
}

/// A response with this JSON text.
pub(super) fn written(status: StatusCode, text: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = status;
    let content_type = HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    response
}

/// The position of the ledger, in its wire form.
pub(super) const fn as_of(Head { sequence, time }: Head) -> AsOf {
    AsOf { sequence, time }
}

/// A 200 response with this body.
pub(super) fn ok(body: &impl Serialize) -> Response {
    json(StatusCode::OK, body)
}

/// A 200 response with a body that may be large: serialized with pauses.
pub(super) fn large(turn: &Turn, body: &impl Serialize) -> Response {
    let text = in_microseconds(|| turn.to_json(body, ANSWER_BYTES));
    made_or_problem(StatusCode::OK, text)
}

/// The characters that are escaped in a path segment: those that must be (RFC 3986), and a few that need not be.
const ESCAPED: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b':');

/// The bytes that are never escaped in a segment, by any reader or writer.
const PLAIN: [bool; 256] = {
    let mut plain = [false; 256];
    let mut byte = 0_u8;
    while byte < 128 {
        plain[byte as usize] = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        byte += 1;
    }
    plain
};

/// Splits a path after its longest prefix of plain bytes.
pub(super) fn plain(path: &str) -> (&str, &str) {
    let end = path.bytes().position(|byte| !PLAIN[usize::from(byte)]);
    path.split_at(end.unwrap_or(path.len()))
}

/// A path of fixed pieces, each followed by a segment that may hold any text.
pub(super) fn location(pieces: &[(&str, &str)]) -> Option<HeaderValue> {
    let bytes: usize = pieces.iter().map(|(fixed, segment)| fixed.len() + segment.len()).sum();
    let mut path = String::with_capacity(bytes);
    for (fixed, segment) in pieces {
        path.push_str(fixed);
        let (plain, rest) = plain(segment);
        path.push_str(plain);
        if !rest.is_empty() {
            path.extend(utf8_percent_encode(rest, ESCAPED));
        }
    }
    HeaderValue::try_from(path).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_are_escaped() {
        let path = location(&[("/v1/", "a b"), ("/", "x/y%"), ("/z/", "ü")]).unwrap();
        assert_eq!(path, "/v1/a%20b/x%2Fy%25/z/%C3%BC");
    }
}
