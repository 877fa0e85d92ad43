//! One connection: the handshake, then its requests. hyper-util tells the versions of HTTP apart.
//!
//! hyper has timers for heads and pings, but no limits for a peer that takes its responses slowly, and none for the
//! requests of all connections: [`Timed`] bounds HTTP/1, and [`Streams`] and [`Open`] bound HTTP/2.

use std::{
    convert::Infallible,
    future::{Future, pending},
    net::{IpAddr, SocketAddr},
    pin::{Pin, pin},
    sync::{Arc, LazyLock},
    task::{Context, Poll, Waker},
    time::Duration,
};

use axum::{Router, response::Response, routing::future::RouteFuture};
use futures::{StreamExt as _, TryFutureExt as _, future::Either, stream::FuturesUnordered};
use http::Version;
use http_body_util::Either as EitherBody;
use hyper::{
    Request,
    body::{Body as _, Incoming},
    rt::{Sleep, Timer},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use quota_service::hosts::LocalHost;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    net::TcpStream,
    sync::Semaphore,
    time::{Instant, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{
    Options,
    body::ResponseBody,
    guard::{Bounds, TurnedAway},
    streams::{Open, Streams, TrackedBody},
    timed::{Clock, Phase, Timed, Timeouts},
    tls::{HTTP2, Tls},
};
use crate::peer::Peer;

/// Largest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 16 * 1024;

/// Most header fields of a request.
const HEADERS_MAX: usize = 100;

/// Most concurrent requests of one HTTP/2 connection. By default an API server has at most this many in flight (Go's
/// clients open more connections then).
const STREAMS_MAX: u32 = 128;

/// How long an HTTP/2 peer may take to answer a ping.
const PONG: Duration = Duration::from_secs(10);

/// A connection that was accepted.
pub(super) struct Connection<S> {
    pub(super) stream: S,
    /// Checks whether the peer has closed the stream, although unread bytes remain.
    pub(super) is_gone: fn(&S) -> bool,
    /// Whether the handshake has selected HTTP/2.
    pub(super) is_http2: bool,
    /// When the time for the first head began.
    pub(super) began: Instant,
}

/// Reasons to end a connection from outside.
pub(super) struct Ends<F> {
    /// The listener stops.
    pub(super) stop: CancellationToken,
    /// The caller's certificate is no longer valid.
    pub(super) invalid: F,
}

/// The peer that sends the requests of a connection, and the router that answers them.
pub(super) struct RequestContext {
    pub(super) peer: Peer,
    /// The local address of the connection; none if it does not come from the network.
    pub(super) local: Option<IpAddr>,
    pub(super) router: Router,
    pub(super) options: Arc<Options>,
    /// Counts connections, and the concurrent requests of HTTP/2.
    pub(super) slots: Arc<Semaphore>,
}

impl RequestContext {
    /// The limits for sequential requests.
    fn bounds(&self, turned_away: Option<TurnedAway>) -> Arc<Bounds> {
        Arc::new(Bounds {
            options: self.options.clone(),
            clock: Clock::new(self.options.request_timeout),
            host: LocalHost::new(self.local),
            peer: self.peer.clone(),
            turned_away,
        })
    }

    /// Answers one request.
    fn answer(
        &self,
        mut request: Request<Incoming>,
        bounds: Arc<Bounds>,
    ) -> RouteFuture<Infallible> {
        request.extensions_mut().insert(bounds);
        self.router.clone().call(request)
    }
}

/// Serves an accepted connection to its end. `slots` counts the connections.
pub(super) async fn accept(
    stream: TcpStream,
    address: SocketAddr,
    router: Router,
    options: Arc<Options>,
    tls: Option<&Tls>,
    slots: Arc<Semaphore>,
    stop: CancellationToken,
) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%address, %error, "connection lost");
        return;
    }
    let local = stream.local_addr().ok().map(|local| local.ip());
    let header_timeout = options.header_timeout;
    let requests =
        |names| RequestContext { peer: Peer { address, names }, local, router, options, slots };
    let Some(tls) = tls else {
        let connection = Connection { stream, is_gone, is_http2: false, began: Instant::now() };
        let invalid = pending();
        return serve(connection, requests(Arc::new([])), Ends { stop, invalid }).await;
    };
    match timeout(header_timeout, tls.accept(stream)).await {
        Ok(Ok((stream, shown))) => {
            let connection = Connection {
                is_http2: stream.get_ref().1.alpn_protocol() == Some(HTTP2),
                stream,
                is_gone: |stream: &TlsStream<TcpStream>| is_gone(stream.get_ref().0),
                began: Instant::now(),
            };
            let requests = requests(shown.names.clone());
            let invalid = shown.until_invalid();
            serve(connection, requests, Ends { stop, invalid }).await;
        }
        Ok(Err(error)) => tracing::debug!(%address, %error, "handshake failed"),
        Err(_) => {
            let error = std::io::ErrorKind::TimedOut;
            tracing::debug!(%address, %error, "handshake failed");
        }
    }
}

/// Serves the requests of a connection to its end.
///
/// When the listener stops, requests in progress end as long as the listener waits; when the certificate is no longer
/// valid, within the request timeout: a watch outlasts it, and is cut off then.
pub(super) async fn serve<S, F>(connection: Connection<S>, requests: RequestContext, ends: Ends<F>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = ()>,
{
    let (address, options) = (requests.peer.address, requests.options.clone());
    let timeouts = Timeouts {
        head: options.header_timeout,
        idle: options.keep_alive,
        answer: options.request_timeout,
    };
    let (phase, open) = (Phase::new(connection.is_http2), Open::default());
    let stream = Timed::new(
        connection.stream,
        connection.is_gone,
        connection.began,
        phase.clone(),
        timeouts,
    );
    let streams = Streams {
        idle: options.keep_alive,
        longest: options.request_timeout + options.keep_alive,
        address,
    };
    let mut builder = auto::Builder::new(streams);
    if connection.is_http2 {
        builder = builder.http2_only();
    }
    builder
        .http1()
        // Makes hyper poll the stream between two requests, since the stream has the timers.
        .timer(Endless)
        .header_read_timeout(options.keep_alive + options.header_timeout)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(options.keep_alive)
        .keep_alive_timeout(PONG);
    // HTTP/1 sends one request after the other.
    let sequential = requests.bounds(None);
    let service = {
        let (phase, open) = (phase.clone(), open.clone());
        service_fn(move |request: Request<Incoming>| {
            if request.version() == Version::HTTP_2 {
                let held = open.enter(&requests.slots);
                let bounds = requests.bounds(held.as_ref().err().copied());
                let answered = requests.answer(request, bounds);
                return Either::Left(answered.map_ok(|response| {
                    response.map(|body| EitherBody::Right(TrackedBody::new(body, held.ok())))
                }));
            }
            phase.busy();
            let phase = phase.clone();
            let answered = requests.answer(request, sequential.clone());
            Either::Right(answered.map_ok(move |response: Response| {
                phase.answer(response.body().size_hint().exact().is_none());
                response.map(|body| {
                    EitherBody::Left(ResponseBody::new(body, phase, timeouts.shorter()))
                })
            }))
        })
    };
    let reason = async {
        tokio::select! {
            () = ends.stop.cancelled() => None,
            () = ends.invalid => {
                // An HTTP/2 peer may begin requests until it has answered the ping that follows GOAWAY.
                open.refuse();
                tracing::debug!(%address, "the caller's certificate is no longer valid");
                Some(options.request_timeout)
            }
            () = open.idle_for(options.keep_alive, || phase.is_http2()) => {
                tracing::debug!(%address, why = "idle", "connection dropped");
                Some(PONG)
            }
        }
    };
    // Polled only when woken, unlike a plain future: all connections share the lock of the token.
    let mut reason = FuturesUnordered::from_iter([reason]);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let rest = tokio::select! {
        biased;
        ended = connection.as_mut() => return log_lost(address, ended),
        Some(rest) = reason.next() => rest,
    };
    connection.as_mut().graceful_shutdown();
    let ended = match rest {
        None => connection.await,
        Some(rest) => timeout(rest, connection).await.unwrap_or(Ok(())),
    };
    log_lost(address, ended);
}

fn log_lost<E: std::fmt::Display>(address: SocketAddr, ended: Result<(), E>) {
    if let Err(error) = ended {
        tracing::debug!(%address, %error, "connection lost");
    }
}

/// Whether the peer has closed the connection, although unread bytes remain.
fn is_gone(stream: &TcpStream) -> bool {
    let ready = pin!(stream.ready(Interest::READABLE));
    match ready.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(Ok(ready)) => ready.is_read_closed(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}

/// A timer that never ends: hyper's own would be set and cancelled for every request.
#[derive(Clone, Copy, Debug)]
struct Endless;

impl Timer for Endless {
    fn sleep(&self, _: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    fn sleep_until(&self, _: std::time::Instant) -> Pin<Box<dyn Sleep>> {
        Box::pin(Self)
    }

    /// Any time will do.
    fn now(&self) -> std::time::Instant {
        static START: LazyLock<std::time::Instant> = LazyLock::new(std::time::Instant::now);
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
