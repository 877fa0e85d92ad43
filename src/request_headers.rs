//! Headers of requests that several parts of the server read.

use http::{HeaderMap, HeaderName, HeaderValue, header};

/// The header that names a request.
pub(crate) static REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// The header that names the caller's span, by W3C Trace Context.
pub(crate) static TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// Longer request ids are ignored.
const REQUEST_ID_MAX_BYTES: usize = 128;

/// The length of a W3C `traceparent` of version 00.
const TRACEPARENT_BYTES: usize = 55;

/// The first value of a header that most requests do not have: to scan their few names is faster than to hash one.
pub(crate) fn rare<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a HeaderValue> {
    match headers.keys().any(|other| other == name) {
        true => headers.get(name),
        false => None,
    }
}

/// The media type of the body without its parameters, in lower case; empty if there is none.
pub(crate) fn media_type(headers: &HeaderMap) -> String {
    let value = headers.get(header::CONTENT_TYPE);
    let value = value.and_then(|value| value.to_str().ok());
    let essence = value.and_then(|value| value.split(';').next());
    essence.unwrap_or_default().trim().to_ascii_lowercase()
}

/// The caller's id of the request, if it is well-formed.
pub(crate) fn request_id(headers: &HeaderMap) -> Option<&HeaderValue> {
    rare(headers, &REQUEST_ID).filter(|id| {
        (1..=REQUEST_ID_MAX_BYTES).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    })
}

/// The caller's span (`00-TRACE-PARENT-FLAGS`), if it is well-formed.
pub(crate) fn traceparent(headers: &HeaderMap) -> Option<&str> {
    let is_hex = |b: u8| matches!(b, b'0'..=b'9' | b'a'..=b'f');
    let fits = |(place, byte): (usize, u8)| match place {
        2 | 35 | 52 => byte == b'-',
        _ => is_hex(byte),
    };
    let value = rare(headers, &TRACEPARENT);
    value
        .and_then(|value| value.to_str().ok())
        .filter(|text| text.len() == TRACEPARENT_BYTES && text.bytes().enumerate().all(fits))
}
