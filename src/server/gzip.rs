//! Compresses responses with gzip, for callers that accept it.
//!
//! Only bodies of known length are compressed, since streamed data has to arrive as it is produced. A body is
//! compressed as a whole, so that the response has a known length again, and the limits of such responses apply.
//! tower-http's compression would stream it: of unknown length, no budget would count it and no timeout would end it.

use std::io::{self, Write as _};

use axum::{
    body::{Body, HttpBody as _},
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use http::{HeaderMap, HeaderValue, header};

use crate::whole_body::whole_body;
use crate::{fairness::throttle, problem::Problem, request_headers};

/// Shorter bodies fit into one packet without compression.
const BYTES_MIN: u64 = 1024;

/// Longer bodies are compressed on a separate thread, with pauses: a megabyte takes milliseconds.
const BYTES_AT_ONCE: usize = 32 * 1024;

/// Whether a caller accepts gzip (RFC 9110, section 12.5.3).
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    // Requests that write mostly have none.
    if request_headers::rare(headers, &header::ACCEPT_ENCODING).is_none() {
        return false;
    }
    let values = headers.get_all(header::ACCEPT_ENCODING).iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    let mut by_star = false;
    for coding in texts.flat_map(|text| text.split(',')) {
        let mut parts = coding.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let is_zero = |weight: &str| weight.parse() == Ok(0.0_f32);
        let is_refused = parts
            .filter_map(|part| part.strip_prefix("q=").or_else(|| part.strip_prefix("Q=")))
            .any(is_zero);
        if name.eq_ignore_ascii_case("gzip") {
            return !is_refused;
        }
        by_star |= name == "*" && !is_refused;
    }
    by_star
}

/// Whether compression makes a response shorter. A response with an `ETag` is not compressed: the tag identifies its
/// exact bytes.
pub(super) fn is_worthwhile(response: &Response) -> bool {
    let length = response.body().size_hint().exact();
    if length.is_none_or(|length| length < BYTES_MIN) {
        return false;
    }
    let headers = response.headers();
    let is_text = headers.get(header::CONTENT_TYPE).is_some_and(|value| {
        let value = value.as_bytes();
        let essence = value.split(|&byte| byte == b';').next().unwrap_or_default();
        essence.ends_with(b"json") || essence.starts_with(b"text/")
    });
    is_text
        && !headers.contains_key(header::CONTENT_ENCODING)
        && !headers.contains_key(header::ETAG)
}

/// The compressed response.
pub(super) async fn compressed(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let zipped = match whole_body(body).await {
        Ok(bytes) if bytes.len() <= BYTES_AT_ONCE => zip(&bytes),
        Ok(bytes) => tokio::task::spawn_blocking(move || zip(&bytes))
            .await
            .unwrap_or_else(|error| Err(io::Error::other(error))),
        Err(problem) => return problem.into_response(),
    };
    let zipped = match zipped {
        Ok(zipped) => zipped,
        Err(error) => return Problem::internal(&error).into_response(),
    };
    parts.headers.remove(header::CONTENT_LENGTH);
    let gzip = HeaderValue::from_static("gzip");
    parts.headers.insert(header::CONTENT_ENCODING, gzip);
    Response::from_parts(parts, Body::from(zipped))
}

fn zip(bytes: &Bytes) -> io::Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 8), Compression::fast());
    for step in bytes.chunks(BYTES_AT_ONCE) {
        encoder.write_all(step)?;
        // Only a body of one step is compressed on this thread, which serves other requests.
        if bytes.len() > BYTES_AT_ONCE {
            throttle::pause();
        }
    }
    encoder.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn gzip_is_accepted_by_name_or_star_unless_its_weight_is_zero() {
        let accepts = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(text));
            is_accepted(&headers)
        };
        for text in ["gzip", "GZIP", "br, gzip", "gzip;q=0.5", "*", "deflate, *;q=0.1"] {
            assert!(accepts(text), "{text}");
        }
        for text in ["", "br", "gzip;q=0", "gzip; q=0.0", "*;q=0", "*, gzip;q=0", "identity"] {
            assert!(!accepts(text), "{text}");
        }
        assert!(!is_accepted(&HeaderMap::new()));
    }

    fn answer(content_type: &'static str, body: Body) -> Response {
        ([(header::CONTENT_TYPE, content_type)], body).into_response()
    }

    #[test]
    fn long_text_of_known_length_is_worth_it() {
        let long = || Body::from("x".repeat(1024));
        assert!(is_worthwhile(&answer("application/json", long())));
        assert!(is_worthwhile(&answer("text/html; charset=utf-8", long())));
        let metrics = "text/plain; version=0.0.4; charset=utf-8";
        assert!(is_worthwhile(&answer(metrics, long())));
        assert!(!is_worthwhile(&answer("application/octet-stream", long())));
        let short = Body::from("x".repeat(1023));
        assert!(!is_worthwhile(&answer("application/json", short)));
        let streamed = Body::from_stream(futures::stream::iter([Ok::<_, io::Error>("x")]));
        assert!(!is_worthwhile(&answer("application/json", streamed)));
        for name in [header::ETAG, header::CONTENT_ENCODING] {
            let mut tagged = answer("application/json", long());
            let value = HeaderValue::from_static("gzip");
            tagged.headers_mut().insert(name, value);
            assert!(!is_worthwhile(&tagged));
        }
    }

    #[tokio::test]
    async fn what_is_zipped_reads_back() {
        for length in [2000, BYTES_AT_ONCE + 1] {
            let text = "0123456789".repeat(length / 10);
            let zipped = compressed(answer("application/json", Body::from(text.clone()))).await;
            assert_eq!(zipped.headers()[header::CONTENT_ENCODING], "gzip");
            let bytes = whole_body(zipped.into_body()).await.unwrap();
            let mut back = String::new();
            GzDecoder::new(&*bytes).read_to_string(&mut back).unwrap();
            assert!(back == text && bytes.len() < text.len());
        }
    }
}
