//! What every request passes through: an id, a span, bounds of size and time, a net for panics, and
//! the metrics.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Instant};

use axum::{
    body::{Body, HttpBody as _},
    extract::{MatchedPath, Request, State},
    middleware::Next,
    response::Response,
};
use futures::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use tracing::Instrument as _;
use uuid::Uuid;

use super::{
    Options,
    body::{Bounded, Progress},
    problem::{last_problem, problem},
    room::{Room, house},
};
use crate::{
    metrics::{self, Limit},
    reason::Reason,
};

/// The id of a request: the caller's `X-Request-Id`, or a new one. Echoed in the answer, in the log line about an
/// answer of 500 or above, and at level `debug` in every log line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestId(pub HeaderValue);

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Longer ids of callers are replaced.
const REQUEST_ID_BYTES_MAX: usize = 128;

/// Routes are counted by what matched; everything else is one route.
const UNMATCHED: &str = "_other_";

pub(super) async fn guard(
    State(options): State<Arc<Options>>,
    mut request: Request,
    next: Next,
) -> Response {
    let began = Instant::now();
    let method = request.method().clone();
    let route = request.extensions().get::<MatchedPath>().cloned();
    let route = route.as_ref().map_or(UNMATCHED, MatchedPath::as_str);
    let id = request_id(request.headers());
    // Below the usual level: a span costs as much as a decision. What went wrong is told with the id in any case.
    let span = tracing::debug_span!(
        "request",
        request_id = id.0.to_str().unwrap_or_default(),
        trace_id = trace_id(request.headers()),
        %method,
        path = request.uri().path(),
    );
    request.extensions_mut().insert(id.clone());
    let RequestId(id) = id;
    let mut response = answer(&options, route, request, next)
        .instrument(span.clone())
        .await;
    response.headers_mut().insert(REQUEST_ID, id.clone());
    let status = response.status();
    if status == StatusCode::SERVICE_UNAVAILABLE && !options.may_be_repeated(route) {
        response.headers_mut().remove(header::RETRY_AFTER);
    }
    let took = began.elapsed();
    // An overload is counted, not told line by line.
    if status.is_server_error() && status != StatusCode::SERVICE_UNAVAILABLE {
        let (request_id, status) = (id.to_str().unwrap_or_default(), status.as_u16());
        tracing::warn!(request_id, %method, route, status, "not answered as asked");
    }
    span.in_scope(|| {
        tracing::debug!(
            status = status.as_u16(),
            duration_ms = took.as_secs_f64() * 1e3,
            "answered"
        );
    });
    metrics::http_request(route, &method, status.as_u16(), took);
    response
}

async fn answer(options: &Options, route: &str, request: Request, next: Next) -> Response {
    let most = options.body_bytes_of(route);
    // A length that was announced is refused before a byte is read, and before a caller that waits
    // for 100 Continue sends one.
    if request.body().size_hint().lower() > most {
        return too_large(most);
    }
    let (parts, body) = request.into_parts();
    let (body, progress) = Bounded::new(body, most, options.body_timeout, &options.room);
    let request = Request::from_parts(parts, Body::new(body));
    let answered = AssertUnwindSafe(next.run(request)).catch_unwind();
    match tokio::time::timeout(options.request_timeout, answered).await {
        Ok(Ok(_)) if progress.is_too_large() => too_large(most),
        Ok(Ok(_)) if progress.has_stalled() => body_timed_out(),
        Ok(Ok(_)) if progress.is_crowded_out() => {
            metrics::limit_reached(Limit::BodiesBytes);
            let detail = "other bodies take all the room";
            to_be_repeated(last_problem(Reason::Overloaded, detail))
        }
        Ok(Ok(response)) => housed(response, &options.room),
        Ok(Err(_)) => last_problem(
            Reason::Internal,
            "the request could not be handled; the log says why",
        ),
        Err(_) => timed_out(&progress),
    }
}

/// The answer, if there is room for its body.
fn housed(response: Response, room: &Room) -> Response {
    let (parts, body) = response.into_parts();
    match house(body, room) {
        Some(body) => Response::from_parts(parts, body),
        None => {
            metrics::limit_reached(Limit::BodiesBytes);
            let detail =
                "other answers take all the room; what the request asked for may have happened";
            to_be_repeated(problem(Reason::Overloaded, detail))
        }
    }
}

fn timed_out(progress: &Progress) -> Response {
    if progress.is_arriving() {
        return body_timed_out();
    }
    metrics::limit_reached(Limit::RequestTimeout);
    to_be_repeated(problem(
        Reason::Timeout,
        "the request was not answered in time; what it asked for may still happen",
    ))
}

fn to_be_repeated(mut response: Response) -> Response {
    response
        .headers_mut()
        .insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

fn body_timed_out() -> Response {
    metrics::limit_reached(Limit::BodyTimeout);
    let detail = "the body did not arrive in time";
    last_problem(Reason::RequestTimeout, detail)
}

fn too_large(most: u64) -> Response {
    metrics::limit_reached(Limit::RequestBodyBytes);
    let detail = format!("the body is larger than {most} bytes");
    last_problem(Reason::TooLarge, &detail)
}

fn request_id(headers: &HeaderMap) -> RequestId {
    let usable = |id: &&HeaderValue| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len())
            && id.as_bytes().iter().all(u8::is_ascii_graphic)
    };
    if let Some(id) = headers.get(REQUEST_ID).filter(usable) {
        return RequestId(id.clone());
    }
    let id = Uuid::new_v4().to_string();
    RequestId(HeaderValue::from_str(&id).expect("a uuid is ASCII"))
}

/// The trace that the caller is part of, by W3C Trace Context (`00-TRACE-PARENT-FLAGS`).
fn trace_id(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get("traceparent")?.to_str().ok()?.split('-');
    let trace = parts.nth(1)?;
    let is_hex = trace
        .bytes()
        .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (trace.len() == 32 && is_hex).then_some(trace)
}
