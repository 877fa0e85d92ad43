//! Detects requests of web pages of other origins: a page that a user visits must not be able to write to a ledger on the
//! user's machine.

use axum::extract::Request;
use http::{HeaderMap, Uri, header, uri::Authority};

use crate::{
    problem::{Problem, Reason},
    request_headers,
};

/// Refuses a request of a page of another origin.
///
/// # Errors
/// `CrossOrigin`.
pub(crate) fn refuse_foreign_page(request: &Request) -> Result<(), Problem> {
    match is_foreign_page(request.uri(), request.headers()) {
        false => Ok(()),
        true => Err(Problem::new(
            Reason::CrossOrigin,
            "the request comes from a page of another origin",
        )),
    }
}

/// Whether a page of another origin sends the request. Browsers send the page's origin with every request that writes,
/// other clients do not.
pub(crate) fn is_foreign_page(uri: &Uri, headers: &HeaderMap) -> bool {
    let Some(origin) = request_headers::rare(headers, &header::ORIGIN) else {
        return false;
    };
    let origin = origin.to_str().ok();
    let page = origin.and_then(|origin| origin.split_once("://"));
    page.is_none_or(|(_, authority)| Some(authority) != addressed(uri, headers))
}

/// The host and port to which the request is sent. Over HTTP/2 only the URI has them.
fn addressed<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    let host = || headers.get(header::HOST)?.to_str().ok();
    uri.authority().map(Authority::as_str).or_else(host)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn is_foreign(uri: &str, headers: &[(&str, &str)]) -> bool {
        let request = headers
            .iter()
            .fold(Request::post(uri), |request, (name, value)| request.header(*name, *value));
        let request = request.body(()).unwrap();
        is_foreign_page(request.uri(), request.headers())
    }

    #[test]
    fn a_page_is_of_the_origin_that_the_header_names() {
        let host = ("host", "127.0.0.1:8480");
        assert!(!is_foreign("/", &[host]));
        assert!(!is_foreign("/", &[host, ("origin", "http://127.0.0.1:8480")]));
        for origin in ["https://evil.example", "null", "", "http://127.0.0.1:80"] {
            assert!(is_foreign("/", &[host, ("origin", origin)]), "{origin}");
            assert!(is_foreign("/", &[("origin", origin)]), "{origin}");
        }
    }

    #[test]
    fn over_http2_a_page_is_of_the_origin_that_the_uri_names() {
        let uri = "https://quotad.example:8480/v1/check";
        let (own, foreign) = ("https://quotad.example:8480", "https://evil.example");
        assert!(!is_foreign(uri, &[]));
        assert!(!is_foreign(uri, &[("origin", own)]));
        assert!(is_foreign(uri, &[("origin", foreign)]));
        let host = ("host", "evil.example");
        assert!(!is_foreign(uri, &[host, ("origin", own)]));
        assert!(is_foreign(uri, &[host, ("origin", foreign)]));
    }
}
