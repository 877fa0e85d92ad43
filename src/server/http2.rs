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
        let Some((answered, mut held)) = answered else {
            metrics::limit_reached(Limit::Connections);
            let detail = "too many requests are being answered";
            let refused = Problem::new(Reason::Overloaded, detail).into_response();
            return Ok(refused.map(|body| TrackedBody { body, held: None }));
        };
        let response = answered.await;
        held.lasts = response.body().size_hint().exact().is_none();
        if held.lasts {
            held.wait(Waiting::Source);
        }
        let held = Some(held);
        Ok(response.map(|body| TrackedBody { body, held }))
    }
}

/// The requests of a connection that are being answered.
#[derive(Clone)]
struct Open {
    requests: Arc<Mutex<Requests>>,
    /// How long a connection may have no request, and the peer of an answer that lasts may take nothing of it.
    idle: Duration,
    /// How long a request may last, until the peer has taken its answer.
    longest: Duration,
}

struct Requests {
    /// What each waits for, by number.
    open: BTreeMap<u64, Waiting>,
    next: u64,
    /// Since when there is none, if there is none.
    idle_since: Instant,
}

/// What a request waits for.
#[derive(Clone, Copy, Debug)]
enum Waiting {
    /// Its answer, all of which has to be taken in time. It began then.
    Answer(Instant),
    /// An answer that lasts for as long as its source, as a watch does: for that to go on.
    Source,
    /// Such an answer: for the peer to take what went on its way then.
    Peer(Instant),
}

impl Open {
    fn new(options: &Options) -> Self {
        let requests = Requests {
            open: BTreeMap::new(),
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
        let slot = match requests.open.is_empty() {
            // That of the connection.
            true => None,
            false => Some(slots.clone().try_acquire_owned().ok()?),
        };
        let number = requests.next;
        requests.next += 1;
        let waiting = Waiting::Answer(Instant::now());
        requests.open.insert(number, waiting);
        let open = self.clone();
        Some(Held {
            open,
            number,
            lasts: false,
            slot,
        })
    }

    /// Ends when the connection idles for too long, or a request lasts for too long; gives which.
    async fn given_up(&self) -> &'static str {
        loop {
            let (deadline, why) = {
                let requests = self.requests.lock();
                let deadlines = requests.open.values().filter_map(|waiting| match waiting {
                    Waiting::Answer(began) => Some(*began + self.longest),
                    Waiting::Source => None,
                    Waiting::Peer(since) => Some(*since + self.idle),
                });
                match deadlines.min() {
                    _ if requests.open.is_empty() => (requests.idle_since + self.idle, "idle"),
                    Some(deadline) => (deadline, "an answer is not taken"),
                    None => (Instant::now() + self.idle, "nothing is waited for"),
                }
            };
            if deadline <= Instant::now() {
                return why;
            }
            // What happens meanwhile puts the deadline off, or sets one that is seen no later than the time after which
            // a connection idles for too long.
            sleep_until(deadline.min(Instant::now() + self.idle)).await;
        }
    }
}

/// A request that is being answered.
struct Held {
    open: Open,
    number: u64,
    /// Whether its answer goes on for as long as its source.
    lasts: bool,
    #[expect(dead_code, reason = "held for as long as the request lasts")]
    slot: Option<OwnedSemaphorePermit>,
}

impl Held {
    fn wait(&self, waiting: Waiting) {
        self.open.requests.lock().open.insert(self.number, waiting);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut requests = self.open.requests.lock();
        requests.open.remove(&self.number);
        if requests.open.is_empty() {
            requests.idle_since = Instant::now();
        }
    }
}

/// An answer's body; its request is done when it is taken. Of one that lasts it is noted whom it waits for: more is asked
/// for only when the peer has room for it.
struct TrackedBody {
    body: Body,
    held: Option<Held>,
}

impl HttpBody for TrackedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if let Some(held) = self.held.as_ref().filter(|held| held.lasts) {
            held.wait(match frame.is_pending() {
                true => Waiting::Source,
                false => Waiting::Peer(Instant::now()),
            });
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
