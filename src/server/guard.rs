//! The path of a request to its response: host check, route, handler. Every request gets an id, a span, limits of size
//! and time, a handler for panics, and metrics.

use std::{
    borrow::Cow,
    future::Future,
    io::{self, Write as _},
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Instant,
};

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures::{
    FutureExt as _,
    future::{BoxFuture, CatchUnwind},
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Version, header};
use quota_semantics::Name;
use quota_service::{hosts::LocalHost, traces};
use tracing::{Instrument as _, Span, instrument::Instrumented};
use uuid::Uuid;

use super::{
    Options, Peer,
    body::{BodyBudget, Bounded, Lengths, Progress, budgeted, whole_body},
    timed::Clock,
};
use crate::{
    fairness,
    log_limiter::{LogLimiter, cut, shortened},
    metrics::{self, Limit},
    problem::{CONTENT_TYPE, Problem, Reason},
    routes::{BodyLimit, Endpoint, PendingResponse},
};

/// The name for a body without content coding.
const IDENTITY: &str = "identity";

/// What a listener knows of a request before its route is known. An extension of each request.
pub(crate) struct Bounds {
    pub(super) options: Arc<Options>,
    pub(super) clock: Clock,
    pub(super) host: LocalHost,
    pub(super) peer: Peer,
    /// Set if the request is not to be answered.
    pub(super) turned_away: Option<TurnedAway>,
}

/// Why a request is not answered, whatever its route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TurnedAway {
    /// There is no slot for it.
    TooMany,
    /// The caller's certificate is no longer valid.
    Invalid,
}

impl TurnedAway {
    fn response(self) -> Response {
        let (reason, detail) = match self {
            Self::TooMany => {
                metrics::limit_reached(Limit::Connections);
                (Reason::Overloaded, "too many requests are being answered")
            }
            Self::Invalid => {
                let detail = "the certificate of this connection is no longer valid";
                (Reason::Unauthorized, detail)
            }
        };
        Problem::new(reason, detail).into_response()
    }
}

/// The limits for the requests of a route.
#[derive(Clone, Copy, Debug)]
struct RouteBounds {
    /// The label in metrics.
    label: &'static str,
    lengths: Lengths,
    /// Whether a 503 may bear `Retry-After`.
    retry_after: bool,
}

impl RouteBounds {
    fn of(endpoint: &Endpoint, options: &Options) -> Self {
        let lengths =
            |kept: u64, dropped: u64| Lengths { kept, most: kept.saturating_add(dropped) };
        Self {
            label: endpoint.label(),
            lengths: match endpoint.body() {
                BodyLimit::Request => lengths(options.body_bytes, 0),
                BodyLimit::Events => lengths(options.events_body_bytes, 0),
                BodyLimit::Fixed { kept, dropped } => lengths(kept, dropped),
            },
            retry_after: options.retry_after && endpoint.retry_after(),
        }
    }
}

/// The answer to a request for a host that is not served.
fn misdirected(host: &str) -> Response {
    let detail = format!(
        "{:?} is not served here; http.allowed_hosts lists the names that are",
        shortened(host)
    );
    last_problem(Reason::Misdirected, &detail)
}

/// A request whose head has arrived.
struct StartedRequest {
    at: Instant,
    method: Method,
    version: Version,
    accepts_gzip: bool,
    id: HeaderValue,
    span: Span,
}

impl StartedRequest {
    fn now(request: &Request, route: &RouteBounds) -> Self {
        let (method, route) = (request.method().clone(), route.label);
        let id = request_id_of(request.headers());
        // Below the default level, since a span costs as much as a decision. Failures are logged with the id in any
        // case.
        let span = tracing::debug_span!(
            target: traces::TARGET,
            "request",
            otel.name = format!("{method} {route}"),
            otel.kind = "server",
            otel.status_code = tracing::field::Empty,
            request_id_of = id.to_str().unwrap_or_default(),
            trace_id = trace_id(request.headers()),
            http.request.method = %method,
            http.route = route,
            http.response.status_code = tracing::field::Empty,
            url.path = request.uri().path(),
        );
        traces::continues(&span, request.headers());
        Self {
            at: Instant::now(),
            method,
            version: request.version(),
            accepts_gzip: is_accepted(request.headers()),
            id,
            span,
        }
    }
}

/// A request on its way to its response, within the limits.
///
/// Not an `async fn`: in one, each step would copy the awaited future, and all of it is moved several times with each
/// request.
pub(crate) struct Guarded {
    bounds: Arc<Bounds>,
    route: RouteBounds,
    started: StartedRequest,
    /// The caller, if it has a name of its own.
    principal: Option<Name>,
    step: Step,
}

enum Step {
    Handling(Handling),
    Refused(Option<Box<Response>>),
    /// Boxed, since few responses are compressed.
    Compressing(BoxFuture<'static, Response>),
}

/// The pending response of a handler, and the progress of the request's body.
struct Handling {
    answered: CatchUnwind<AssertUnwindSafe<Instrumented<PendingResponse>>>,
    progress: Progress,
}

impl Future for Guarded {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Response> {
        let this = &mut *self;
        let mut response = match &mut this.step {
            Step::Handling(handling) => {
                let principal = this.principal.as_ref();
                ready!(handling.poll(cx, &this.bounds, &this.route, this.started.at, principal))
            }
            Step::Refused(response) => *response.take().expect("a response is polled for once"),
            Step::Compressing(compressed) => {
                let response = ready!(compressed.as_mut().poll(cx));
                let budget = &this.bounds.options.budget;
                let response = within_budget(response, budget, this.principal.as_ref());
                return Poll::Ready(this.finish(with_vary(response)));
            }
        };
        if is_worthwhile(&response) {
            if this.started.accepts_gzip {
                this.step = Step::Compressing(Box::pin(compressed(response)));
                return self.poll(cx);
            }
            response = with_vary(response);
        }
        Poll::Ready(this.finish(response))
    }
}

/// Failures that are logged per second: callers can repeat what fails.
static FAILURES: LogLimiter = LogLimiter::new(10);

impl Guarded {
    /// The response with the headers of every response, logged and counted.
    fn finish(&self, mut response: Response) -> Response {
        let StartedRequest { at, method, version, id, span, .. } = &self.started;
        let route = &self.route;
        response.headers_mut().insert(&REQUEST_ID, id.clone());
        // HTTP/2 has a frame for this.
        if self.bounds.options.draining.is_cancelled() && *version < Version::HTTP_2 {
            let close = HeaderValue::from_static("close");
            response.headers_mut().insert(header::CONNECTION, close);
        }
        let status = response.status();
        if status == StatusCode::SERVICE_UNAVAILABLE && !route.retry_after {
            response.headers_mut().remove(header::RETRY_AFTER);
        }
        let took = at.elapsed();
        // An overload is counted, not logged line by line.
        if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
            let (request_id_of, status) = (id.to_str().unwrap_or_default(), status.as_u16());
            if let Some(held_back) = FAILURES.pass() {
                tracing::warn!(request_id_of, %method, route = route.label, status, held_back, "request failed");
            }
        }
        span.record("http.response.status_code", i64::from(status.as_u16()));
        if status.is_server_error() {
            span.record("otel.status_code", "ERROR");
        }
        span.in_scope(|| {
            tracing::debug!(
                status = status.as_u16(),
                duration_ms = took.as_secs_f64() * 1e3,
                "answered"
            );
        });
        metrics::http_request(route.label, method, status.as_u16(), took);
        response
    }
}

/// The response, marked as one that depends on whether the caller accepts gzip.
fn with_vary(mut response: Response) -> Response {
    let vary = HeaderValue::from_static("accept-encoding");
    response.headers_mut().append(header::VARY, vary);
    response
}

impl Handling {
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        bounds: &Bounds,
        route: &RouteBounds,
        began: Instant,
        principal: Option<&Name>,
    ) -> Poll<Response> {
        let Self { answered, progress } = self;
        let response = match answered.poll_unpin(cx) {
            Poll::Ready(Ok(_)) if progress.is_too_large() => too_large(route.lengths.most),
            Poll::Ready(Ok(_)) if progress.has_stalled() => body_timed_out(),
            Poll::Ready(Ok(_)) if progress.is_crowded_out() => {
                metrics::limit_reached(Limit::BodiesBytes);
                let detail = "other bodies take all the room that there is for this caller";
                last_problem(Reason::Overloaded, detail)
            }
            Poll::Ready(Ok(response)) => {
                // The request does not compete with its own response.
                progress.give_back();
                within_budget(response, &bounds.options.budget, principal)
            }
            Poll::Ready(Err(_)) => panicked(),
            Poll::Pending => {
                ready!(bounds.clock.poll(began.into(), cx));
                timed_out(progress)
            }
        };
        Poll::Ready(response)
    }
}

impl Bounds {
    /// Answers a request of a route. Every request passes through here. All steps that need not wait run at once.
    pub(crate) fn answer(self: Arc<Self>, endpoint: &Endpoint, request: Request) -> Guarded {
        let route = RouteBounds::of(endpoint, &self.options);
        let started = StartedRequest::now(&request, &route);
        let span = started.span.clone();
        let handled = || match handled(&self, &route, endpoint, request) {
            Ok((answered, progress)) => {
                let principal = answered.principal().cloned();
                let handling = Handling {
                    answered: AssertUnwindSafe(answered.in_current_span()).catch_unwind(),
                    progress,
                };
                (Step::Handling(handling), principal)
            }
            Err(response) => (Step::Refused(Some(response)), None),
        };
        let (step, principal) = span.in_scope(handled);
        Guarded { bounds: self, route, started, principal, step }
    }
}

/// Passes a request to its handler, unless its announced body is too large or encoded, or it is for another host.
fn handled(
    bounds: &Bounds,
    route: &RouteBounds,
    endpoint: &Endpoint,
    request: Request,
) -> Result<(PendingResponse, Progress), Box<Response>> {
    let options = &bounds.options;
    if let Some(turned_away) = bounds.turned_away {
        return Err(Box::new(turned_away.response()));
    }
    // A body whose announced length is too large is refused before a byte is read, and before a caller that waits for
    // 100 Continue sends one.
    if request.body().size_hint().lower() > route.lengths.most {
        return Err(Box::new(too_large(route.lengths.most)));
    }
    if let Some(coding) = rare(request.headers(), &header::CONTENT_ENCODING)
        && coding != IDENTITY
    {
        return Err(Box::new(encoded(coding)));
    }
    if let Some(hosts) = &options.hosts {
        let checked = hosts.check(&request, &bounds.host);
        checked.map_err(|host| Box::new(misdirected(&host)))?;
    }
    let (parts, body) = request.into_parts();
    let (body, progress) = Bounded::new(body, route.lengths, options.body_timeout, &options.budget);
    let request = Request::from_parts(parts, Body::new(body));
    let answered = catch_unwind(AssertUnwindSafe(|| endpoint.answer(request, &bounds.peer)));
    let answered = answered.map_err(|_| Box::new(panicked()))?;
    // The handler has not run yet, so the body is unread.
    if let Some(principal) = answered.principal() {
        progress.belongs_to(principal.clone());
    }
    Ok((answered, progress))
}

fn panicked() -> Response {
    last_problem(Reason::Internal, "the request could not be handled; the log says why")
}

/// The response, if the budget allows for its body.
fn within_budget(response: Response, budget: &BodyBudget, principal: Option<&Name>) -> Response {
    let (parts, body) = response.into_parts();
    match budgeted(body, budget, principal) {
        Some(body) => Response::from_parts(parts, body),
        None => {
            metrics::limit_reached(Limit::BodiesBytes);
            let detail =
                "other answers take all the room; what the request asked for may have happened";
            Problem::new(Reason::Overloaded, detail).into_response()
        }
    }
}

fn timed_out(progress: &Progress) -> Response {
    if progress.is_arriving() {
        return body_timed_out();
    }
    metrics::limit_reached(Limit::RequestTimeout);
    let detail = "the request was not answered in time; what it asked for may still happen";
    Problem::new(Reason::Timeout, detail).into_response()
}

fn body_timed_out() -> Response {
    metrics::limit_reached(Limit::BodyTimeout);
    let detail = "the body did not arrive in time";
    last_problem(Reason::RequestTimeout, detail)
}

/// Refuses an encoded body: the limits apply to the bytes that are read, and the decoded size is unknown.
fn encoded(coding: &HeaderValue) -> Response {
    let coding = String::from_utf8_lossy(coding.as_bytes());
    let coding = shortened(&coding);
    let detail = format!("bodies are taken without Content-Encoding, not as {coding:?}");
    let mut response = last_problem(Reason::UnsupportedMediaType, &detail);
    let identity = HeaderValue::from_static(IDENTITY);
    // Required by RFC 9110, section 12.5.3, for this status.
    response.headers_mut().insert(header::ACCEPT_ENCODING, identity);
    response
}

fn too_large(most: u64) -> Response {
    metrics::limit_reached(Limit::RequestBodyBytes);
    let detail = format!("the body is larger than {most} bytes");
    last_problem(Reason::TooLarge, &detail)
}

/// The id of a request: the caller's `X-Request-Id`, or a new one. The response repeats it, as does the log line of a
/// response of 500 or above, and at level `debug` every log line.
fn request_id_of(headers: &HeaderMap) -> HeaderValue {
    if let Some(id) = request_id(headers) {
        return id.clone();
    }
    let mut text = Uuid::encode_buffer();
    let id = Uuid::new_v4().hyphenated().encode_lower(&mut text);
    HeaderValue::from_str(id).expect("a uuid is ASCII")
}

/// The trace that the caller is part of.
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    traceparent(headers)?.split('-').nth(1)
}

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

/// Shorter bodies fit into one packet without compression.
const BYTES_MIN: u64 = 1024;

/// Longer bodies are compressed on a separate thread, with pauses: a megabyte takes milliseconds.
const BYTES_AT_ONCE: usize = 32 * 1024;

/// Whether a caller accepts gzip (RFC 9110, section 12.5.3).
pub(super) fn is_accepted(headers: &HeaderMap) -> bool {
    // Requests that write mostly have none.
    if rare(headers, &header::ACCEPT_ENCODING).is_none() {
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

/// The response, compressed with gzip.
///
/// Only bodies of known length are compressed, since streamed data has to arrive as it is produced. A body is
/// compressed as a whole, so that the response has a known length again, and the limits of such responses apply.
/// tower-http's compression would stream it: of unknown length, no budget would count it and no timeout would end it.
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
            fairness::pause();
        }
    }
    encoder.finish()
}

// `Warning` headers, which kubectl and quotactl print.

/// Most warnings of one response: clients limit the size of heads, and print every warning.
const WARNINGS_MAX: usize = 16;

/// Longest text, in bytes. Longer ones may be cut by the API server.
const TEXT_BYTES_MAX: usize = 256;

/// Adds warnings to a response, as many as clients accept; the last one gives the number of further warnings.
pub fn warn(headers: &mut HeaderMap, warnings: &[String]) {
    for text in bounded(warnings) {
        append(headers, &text);
    }
}

/// As many warnings as clients accept, each cut to what they accept; the last one gives the number of further warnings.
pub(crate) fn bounded(warnings: &[String]) -> Vec<Cow<'_, str>> {
    let sent = match warnings.len() {
        0..=WARNINGS_MAX => warnings.len(),
        _ => WARNINGS_MAX - 1,
    };
    let more = warnings.len() - sent;
    let more = (more > 0).then(|| Cow::from(format!("{more} more warnings were left out")));
    let texts = warnings[..sent].iter();
    let texts = texts.map(|text| Cow::from(cut(text, TEXT_BYTES_MAX)));
    texts.chain(more).collect()
}

fn append(headers: &mut HeaderMap, text: &str) {
    let visible = |c: char| if c.is_control() { '?' } else { c };
    let text: String = text.chars().map(visible).collect();
    let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::try_from(format!("299 - \"{quoted}\"")) {
        headers.append(header::WARNING, value);
    }
}

// Headers of requests that several parts of the server read.

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

    fn sent(warnings: &[String]) -> Vec<String> {
        let mut headers = HeaderMap::new();
        warn(&mut headers, warnings);
        let values = headers.get_all(header::WARNING).iter();
        values.map(|value| String::from_utf8(value.as_bytes().to_vec()).unwrap()).collect()
    }

    #[test]
    fn as_many_are_sent_as_clients_take() {
        let many: Vec<_> = (0..40_000).map(|number| format!("w{number}")).collect();
        assert_eq!(sent(&many[..16]).len(), 16);
        let few = sent(&many);
        assert_eq!(few.len(), 16);
        assert_eq!(few[14], "299 - \"w14\"");
        assert_eq!(few[15], "299 - \"39985 more warnings were left out\"");
    }

    #[test]
    fn each_is_short_and_quoted() {
        let long = "ä".repeat(1000);
        assert_eq!(sent(&[long])[0].len(), "299 - \"\"".len() + TEXT_BYTES_MAX);
        let odd = sent(&["a \"b\" \\ \r\n\u{1b}[1m".to_owned()]);
        assert_eq!(odd, ["299 - \"a \\\"b\\\" \\\\ ???[1m\""]);
    }
}
