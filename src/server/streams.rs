//! The requests of an HTTP/2 connection: concurrent, each with its own slot and timeout.

use std::{
    future::Future,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use axum::body::Body;
use bytes::Bytes;
use hyper::{
    body::{Body as HttpBody, Frame, SizeHint},
    rt::Executor,
};
use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, oneshot},
    time::{Instant, sleep_until},
};

use super::guard::TurnedAway;

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
