//! HTTP/1.1 on one connection: one request after the other.

use std::{
    future::{Future, pending},
    pin::Pin,
    sync::LazyLock,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::TryFutureExt as _;
use hyper::{
    Request,
    body::{Body as _, Incoming},
    rt::{Sleep, Timer},
    server::conn::http1,
    service::{HttpService, service_fn},
};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    body::ResponseBody,
    context::{HEAD_BYTES_MAX, RequestContext},
    ends::{Drain, Ends},
    timed::{Phase, Timed, Timeouts},
};

/// Most header fields of a request.
const HEADERS_MAX: usize = 100;

/// Serves the requests of a stream to its end; `is_gone` checks whether the peer has closed it, although unread bytes
/// remain. The time for the first head began at `began`.
pub(super) async fn serve<S, F>(
    stream: S,
    is_gone: fn(&S) -> bool,
    began: tokio::time::Instant,
    requests: RequestContext,
    ends: Ends<F>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = ()>,
{
    let (address, options) = (requests.peer.address, requests.options.clone());
    let timeouts = Timeouts {
        head: options.header_timeout,
        idle: options.keep_alive,
        answer: options.request_timeout,
    };
    let shorter = timeouts.shorter();
    let phase = Phase::new();
    let stream = Timed::new(stream, is_gone, began, phase.clone(), timeouts);
    let bounds = requests.bounds(None);
    let service = service_fn(move |request: Request<Incoming>| {
        phase.busy();
        let phase = phase.clone();
        requests
            .answer(request, bounds.clone())
            .map_ok(move |response| {
                phase.answer(response.body().size_hint().exact().is_none());
                response.map(|body| ResponseBody::new(body, phase, shorter))
            })
    });
    let connection = http1::Builder::new()
        // Makes hyper poll the stream between two requests, since the stream has the timers.
        .timer(Endless)
        .header_read_timeout(options.keep_alive + options.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // A watch outlasts the request timeout: it is cut off then.
    ends.serve(connection, address, options.request_timeout, pending())
        .await;
}

impl<S, V> Drain for http1::Connection<TokioIo<S>, V>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: HttpService<Incoming, ResBody = ResponseBody>,
    V::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

/// A timer that never ends: hyper's own would be set and cancelled for every request.
#[derive(Clone, Copy, Debug)]
struct Endless;

impl Timer for Endless {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    fn sleep_until(&self, _: Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    /// Any time will do.
    fn now(&self) -> Instant {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        *START
    }
}

impl Sleep for Endless {}

impl Future for Endless {
    type Output = ();

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}
