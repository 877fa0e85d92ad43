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
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use axum::{Router, body::Body, response::Response, routing::future::RouteFuture};
use bytes::Bytes;
use futures::{StreamExt as _, TryFutureExt as _, future::Either, stream::FuturesUnordered};
use http::Version;
use http_body_util::Either as EitherBody;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    rt::{Executor, Sleep, Timer},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    server::conn::auto,
};
use parking_lot::Mutex;
use quota_service::hosts::LocalHost;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest},
    net::TcpStream,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, sleep_until, timeout},
};
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tower::Service as _;

use super::{
    Options, Peer,
    body::ResponseBody,
    guard::{Bounds, TurnedAway},
    timed::{Clock, Phase, Timed, Timeouts},
    tls::{HTTP2, Tls},
};

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

// The requests of an HTTP/2 connection: concurrent, each with its own slot and timeout.

/// Most bytes of a response of known length that may wait for the peer after the request is done.
const SMALL: usize = 1024;

/// The requests of a connection that are being answered.
#[derive(Clone, Default)]
pub(super) struct Open(Arc<Mutex<Requests>>);

struct Requests {
    /// The number of these requests.
    open: usize,
    /// Since when there have been none.
    idle_since: Instant,
    /// Whether further requests are refused, since the caller's certificate is no longer valid.
    refuses: bool,
}

impl Default for Requests {
    fn default() -> Self {
        Self { open: 0, idle_since: Instant::now(), refuses: false }
    }
}

impl Open {
    /// Refuses further requests.
    pub(super) fn refuse(&self) {
        self.0.lock().refuses = true;
    }

    /// Begins a request, unless it is to be refused.
    pub(super) fn enter(&self, slots: &Arc<Semaphore>) -> Result<Held, TurnedAway> {
        let mut requests = self.0.lock();
        if requests.refuses {
            return Err(TurnedAway::Invalid);
        }
        let slot = match requests.open {
            // The first request uses the slot of the connection.
            0 => None,
            _ => {
                let slot = slots.clone().try_acquire_owned();
                Some(slot.map_err(|_| TurnedAway::TooMany)?)
            }
        };
        requests.open += 1;
        let open = self.clone();
        Ok(Held { open, slot })
    }

    /// Ends when an HTTP/2 connection has had no request for this time. Of HTTP/1, the stream has the timer.
    pub(super) async fn idle_for(&self, time: Duration, is_http2: impl Fn() -> bool) {
        loop {
            let deadline = {
                let requests = self.0.lock();
                match requests.open {
                    0 if is_http2() => requests.idle_since + time,
                    _ => Instant::now() + time,
                }
            };
            if deadline <= Instant::now() {
                return;
            }
            sleep_until(deadline).await;
        }
    }
}

/// A request that is being answered.
pub(super) struct Held {
    open: Open,
    #[expect(dead_code, reason = "held for as long as the request lasts")]
    slot: Option<OwnedSemaphorePermit>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut requests = self.open.0.lock();
        requests.open -= 1;
        requests.idle_since = Instant::now();
    }
}

/// The condition that a stream waits for.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// A response that began at this time and has to be sent in full before the request timeout.
    Answer(Instant),
    /// A long-lived response, such as a watch, that waits for its source.
    Source,
    /// A long-lived response that has waited since this time for the peer: for room in its window, or for it to take
    /// the bytes in transit.
    Peer(Instant),
}

tokio::task_local! {
    /// The condition that this task's stream waits for.
    static WAITING: Arc<Mutex<Waiting>>;
}

/// Answers each stream in a task of its own, while its peer takes the response: otherwise only this stream ends.
#[derive(Clone)]
pub(super) struct Streams {
    /// How long the peer of a long-lived response may take no bytes.
    pub(super) idle: Duration,
    /// The timeout of a request, until the peer has taken the response.
    pub(super) longest: Duration,
    pub(super) address: SocketAddr,
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, answered: F) {
        let (streams, waiting) =
            (self.clone(), Arc::new(Mutex::new(Waiting::Answer(Instant::now()))));
        let stream = WAITING.scope(waiting.clone(), async move {
            // A dropped stream is reset, and its memory is freed.
            tokio::select! {
                () = answered => {}
                () = streams.given_up(&waiting) => {
                    let address = streams.address;
                    tracing::debug!(%address, "the peer does not take the response: its stream is reset");
                }
            }
        });
        tokio::spawn(stream);
    }
}

impl Streams {
    async fn given_up(&self, waiting: &Mutex<Waiting>) {
        loop {
            let now = Instant::now();
            let deadline = match *waiting.lock() {
                Waiting::Answer(began) => began + self.longest,
                Waiting::Source => now + self.idle,
                Waiting::Peer(since) => since + self.idle,
            };
            if deadline <= now {
                return;
            }
            // Events meanwhile postpone the deadline, or set a new one that is noticed in time.
            sleep_until(deadline.min(now + self.idle)).await;
        }
    }
}

/// A response's body; its request is done when the body is taken. hyper takes all available bytes at once, whether the
/// peer has room or not: so the next piece waits until the previous one is in transit, unless the response is small.
pub(super) struct TrackedBody {
    body: Body,
    /// Where the stream's condition is recorded, if its response is long-lived.
    waiting: Option<Arc<Mutex<Waiting>>>,
    /// Ends when the last piece is in transit, or dropped.
    taken: Option<oneshot::Receiver<()>>,
    _held: Option<Held>,
}

/// A piece of a body.
struct Piece {
    bytes: Bytes,
    _taken: oneshot::Sender<()>,
}

impl AsRef<[u8]> for Piece {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl TrackedBody {
    pub(super) fn new(body: Body, held: Option<Held>) -> Self {
        let lasts = body.size_hint().exact().is_none();
        let body = Self {
            body,
            waiting: lasts.then(|| WAITING.try_get().ok()).flatten(),
            taken: None,
            _held: held,
        };
        body.wait(Waiting::Source);
        body
    }

    fn wait(&self, until: Waiting) {
        if let Some(waiting) = &self.waiting {
            *waiting.lock() = until;
        }
    }

    fn tracked(&mut self, bytes: Bytes) -> Bytes {
        if self.waiting.is_none() && bytes.len() < SMALL {
            return bytes;
        }
        let (_taken, taken) = oneshot::channel();
        self.taken = Some(taken);
        Bytes::from_owner(Piece { bytes, _taken })
    }
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if let Some(taken) = &mut self.taken {
            let _ = ready!(Pin::new(taken).poll(cx));
            self.taken = None;
        }
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        self.wait(match frame.is_pending() {
            true => Waiting::Source,
            false => Waiting::Peer(Instant::now()),
        });
        frame.map_ok(|frame| frame.map_data(|bytes| self.tracked(bytes)))
    }

    fn is_end_stream(&self) -> bool {
        self.taken.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
