//! HTTP/2 of one connection: many requests at once, each with a slot and a time of its own.

use std::{
    collections::BTreeMap,
    convert::Infallible,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use axum::{
    body::Body,
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use hyper::{
    Request,
    body::{Body as HttpBody, Frame, Incoming, SizeHint},
    server::conn::http2,
    service::{HttpService, service_fn},
};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, sleep_until},
};

use super::{
    Options,
    connection::{Drain, Ends, HEAD_BYTES_MAX, RequestContext},
};
use crate::{
    metrics::{self, Limit},
    problem::{Problem, Reason},
};

/// Requests of one connection that are answered at once. An API server has at most as many on its way by default
/// (Go's clients ask for more connections then).
const STREAMS_MAX: u32 = 128;

/// How long a peer may take to answer a ping.
const PONG: Duration = Duration::from_secs(10);

/// Serves the requests of a stream to its end. `slots`: each request after the first of a connection takes one, as
/// each connection does.
pub(super) async fn serve<S, F>(
    stream: S,
    requests: RequestContext,
    slots: Arc<Semaphore>,
    ends: Ends<F>,
) where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    F: Future<Output = ()>,
{
    let (address, options) = (requests.peer.address, requests.options.clone());
    let open = Open::new(&options);
    let service = {
        let open = open.clone();
        service_fn(move |request| answer(request, open.enter(&slots), &requests))
    };
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .keep_alive_interval(options.keep_alive)
        .keep_alive_timeout(PONG);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    let given_up = async { (open.given_up().await, PONG) };
    ends.serve(connection, address, open.longest, given_up)
        .await;
}

impl<S, V> Drain for http2::Connection<TokioIo<S>, V, TokioExecutor>
where
    S: AsyncRead + AsyncWrite + Unpin,
    V: HttpService<Incoming, ResBody = TrackedBody>,
    V::Future: Send + 'static,
    V::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    fn drain(self: Pin<&mut Self>) {
        self.graceful_shutdown();
    }
}

fn answer(
    request: Request<Incoming>,
    held: Option<Held>,
    requests: &RequestContext,
) -> impl Future<Output = Result<Response<TrackedBody>, Infallible>> + Send + use<> {
    let answered = held.map(|held| (requests.answer(request, &requests.bounds()), held));
    async move {
        let Some((answered, held)) = answered else {
            metrics::limit_reached(Limit::Connections);
            let detail = "too many requests are being answered";
            let refused = Problem::new(Reason::Overloaded, detail).into_response();
            return Ok(refused.map(|body| TrackedBody { body, _held: None }));
        };
        let response = answered.await;
        let _held = Some(held);
        Ok(response.map(|body| TrackedBody { body, _held }))
    }
}

/// The requests of a connection that are being answered.
#[derive(Clone)]
struct Open {
    requests: Arc<Mutex<Requests>>,
    /// How long a connection may have no request.
    idle: Duration,
    /// How long a request may last, until the peer has taken its answer.
    longest: Duration,
}

struct Requests {
    /// When each began, by number.
    began: BTreeMap<u64, Instant>,
    next: u64,
    /// Since when there is none, if there is none.
    idle_since: Instant,
}

impl Open {
    fn new(options: &Options) -> Self {
        let requests = Requests {
            began: BTreeMap::new(),
            next: 0,
            idle_since: Instant::now(),
        };
        Self {
            requests: Arc::new(Mutex::new(requests)),
            idle: options.keep_alive,
            longest: options.request_timeout + options.keep_alive,
        }
    }

    /// A request begins; none: there is no slot for it.
    fn enter(&self, slots: &Arc<Semaphore>) -> Option<Held> {
        let mut requests = self.requests.lock();
        let slot = match requests.began.is_empty() {
            // That of the connection.
            true => None,
            false => Some(slots.clone().try_acquire_owned().ok()?),
        };
        let number = requests.next;
        requests.next += 1;
        requests.began.insert(number, Instant::now());
        let open = self.clone();
        Some(Held { open, number, slot })
    }

    /// Ends when the connection idles for too long, or a request lasts for too long; gives which.
    async fn given_up(&self) -> &'static str {
        loop {
            let (deadline, why) = {
                let requests = self.requests.lock();
                // Numbers are given in the order of time.
                match requests.began.first_key_value() {
                    None => (requests.idle_since + self.idle, "idle"),
                    Some((_, began)) => (*began + self.longest, "an answer is not taken"),
                }
            };
            if deadline <= Instant::now() {
                return why;
            }
            // What happens meanwhile only puts the deadline off, but for a request that ends: its connection then
            // idles for at most the time that the request had left.
            sleep_until(deadline).await;
        }
    }
}

/// A request that is being answered.
struct Held {
    open: Open,
    number: u64,
    #[expect(dead_code, reason = "held for as long as the request lasts")]
    slot: Option<OwnedSemaphorePermit>,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut requests = self.open.requests.lock();
        requests.began.remove(&self.number);
        if requests.began.is_empty() {
            requests.idle_since = Instant::now();
        }
    }
}

/// An answer's body; its request is done when it is taken.
struct TrackedBody {
    body: Body,
    _held: Option<Held>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
