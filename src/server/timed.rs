//! A stream that gives up on a peer that keeps it waiting.
//!
//! hyper has one timer for the head of a request, and it also runs while a connection idles between
//! two requests. Here the two are distinguished, and a peer that takes no bytes is given up as well.
//! (The begin of a head that was sent along with the request before it is not seen here; what follows
//! is then waited for as long as for a next request.)
//!
//! hyper reads nothing while it answers and a further request is in its buffer, so it does not see the end of the
//! connection then, and an answer may last for as long as a watch. Now and then the answer has the stream look.

use std::{
    future::{Future, poll_fn},
    io,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::metrics::{self, Limit};

/// What a connection is waiting for. Shared between the stream and what answers requests.
#[derive(Clone, Debug)]
pub(super) struct Phase(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    phase: AtomicU8,
    /// Whether the answer goes on for as long as its source, as a watch does.
    lasts: AtomicBool,
}

/// The rest of a head.
const HEAD: u8 = 0;
/// Ourselves.
const BUSY: u8 = 1;
/// The next request.
const IDLE: u8 = 2;
/// Ourselves, for long enough to see whether the peer is still there.
const LOOK: u8 = 3;

impl Phase {
    /// A new connection: its first request is due.
    pub(super) fn new() -> Self {
        Self(Arc::new(Shared {
            phase: AtomicU8::new(HEAD),
            lasts: AtomicBool::new(false),
        }))
    }

    fn get(&self) -> u8 {
        self.0.phase.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        self.0.phase.store(phase, Ordering::Relaxed);
    }

    /// A head has arrived.
    pub(super) fn busy(&self) {
        self.set(BUSY);
    }

    /// An answer begins; `lasts`: it ends when its source does.
    pub(super) fn answer(&self, lasts: bool) {
        self.0.lasts.store(lasts, Ordering::Relaxed);
    }

    /// The answer lasts: the stream is to look whether the peer is still there.
    pub(super) fn look(&self) {
        self.set(LOOK);
    }

    /// The answer is complete.
    pub(super) fn idle(&self) {
        self.set(IDLE);
    }
}

/// How long a peer may keep us waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// For the rest of a head.
    pub(super) head: Duration,
    /// For the next request, and for taking some bytes of an answer.
    pub(super) idle: Duration,
    /// For taking all bytes of an answer, unless that lasts.
    pub(super) answer: Duration,
}

impl Timeouts {
    /// No deadline is nearer than this when it is set; and how often a peer is looked for that is answered at length.
    pub(super) fn shorter(self) -> Duration {
        self.head.min(self.idle)
    }
}

/// A timer for deadlines that are seldom reached, none of them nearer than `least` when it is set. A timer that is
/// set anew for every request costs more than one that looks at the deadline when it ends.
struct CoarseTimer {
    /// Ends at the next deadline or before it.
    sleep: Pin<Box<Sleep>>,
    least: Duration,
}

impl CoarseTimer {
    fn new(least: Duration) -> Self {
        Self {
            sleep: Box::pin(sleep(least)),
            least,
        }
    }

    /// Whether a deadline has passed.
    fn poll(&mut self, cx: &mut Context<'_>, deadline: Instant) -> Poll<()> {
        loop {
            ready!(self.sleep.as_mut().poll(cx));
            let now = Instant::now();
            if now >= deadline {
                return Poll::Ready(());
            }
            self.sleep.as_mut().reset(deadline.min(now + self.least));
        }
    }
}

/// The time that each request of a connection has: they come one after the other.
#[derive(Clone)]
pub(super) struct Clock(Arc<Mutex<CoarseTimer>>);

impl Clock {
    pub(super) fn new(limit: Duration) -> Self {
        Self(Arc::new(Mutex::new(CoarseTimer::new(limit))))
    }

    /// Carries out what began at this time; none: it took longer than it may.
    pub(super) async fn within<F: Future>(&self, began: Instant, work: F) -> Option<F::Output> {
        let deadline = began + self.0.lock().least;
        let mut work = pin!(work);
        poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending => self.0.lock().poll(cx, deadline).map(|()| None),
        })
        .await
    }
}

/// A stream with deadlines.
pub(super) struct Timed<S> {
    stream: S,
    /// Whether the peer has ended the connection, though not all that it sent is read.
    is_gone: fn(&S) -> bool,
    phase: Phase,
    timeouts: Timeouts,
    /// The phase that `deadline` is of.
    seen: u8,
    /// Until when the peer may keep us waiting; none as long as it does not.
    deadline: Option<Instant>,
    reading: CoarseTimer,
    /// Set while the peer takes no bytes.
    writing: Option<Pin<Box<Sleep>>>,
    /// Set from when the peer first takes no bytes of an answer until it has them all.
    answering: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(super) fn new(
        stream: S,
        is_gone: fn(&S) -> bool,
        phase: Phase,
        timeouts: Timeouts,
    ) -> Self {
        let reading = CoarseTimer::new(timeouts.shorter());
        Self {
            stream,
            is_gone,
            phase,
            timeouts,
            seen: HEAD,
            deadline: None,
            reading,
            writing: None,
            answering: None,
        }
    }

    /// The stream without deadlines.
    pub(super) fn into_inner(self) -> S {
        self.stream
    }

    fn enter(&mut self, phase: u8) {
        self.seen = phase;
        self.deadline = None;
    }

    /// Whether the peer has kept us waiting for too long in this phase.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeouts = match self.seen {
            HEAD => self.timeouts.head,
            _ => self.timeouts.idle,
        };
        let deadline = *self
            .deadline
            .get_or_insert_with(|| Instant::now() + timeouts);
        self.reading.poll(cx, deadline)
    }

    /// Whether the peer was to be looked for, and has gone.
    fn has_lost_peer(&self) -> bool {
        if self.phase.get() != LOOK {
            return false;
        }
        self.phase.busy();
        (self.is_gone)(&self.stream)
    }

    /// Passes on what a write returned, unless the peer has taken nothing for too long, or too long for all.
    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.writing = None;
            return result;
        }
        let Timeouts { idle, answer, .. } = self.timeouts;
        let writing = self.writing.get_or_insert_with(|| Box::pin(sleep(idle)));
        let mut is_over = writing.as_mut().poll(cx).is_ready();
        if !self.phase.0.lasts.load(Ordering::Relaxed) {
            let answering = &mut self.answering;
            let answering = answering.get_or_insert_with(|| Box::pin(sleep(answer)));
            if answering.as_mut().poll(cx).is_ready() {
                metrics::limit_reached(Limit::RequestTimeout);
                is_over = true;
            }
        }
        match is_over {
            true => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            false => Poll::Pending,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let phase = self.phase.get();
        if phase != self.seen {
            self.enter(phase);
        }
        let before = buffer.filled().len();
        let result = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if result.is_ready() {
            if phase == IDLE && buffer.filled().len() > before {
                self.phase.set(HEAD);
                self.enter(HEAD);
            }
            return result;
        }
        if matches!(phase, BUSY | LOOK) {
            return Poll::Pending;
        }
        ready!(self.poll_deadline(cx));
        if phase == HEAD {
            metrics::limit_reached(Limit::HeaderTimeout);
        }
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.bounded(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.bounded(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.has_lost_peer() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
        }
        let result = Pin::new(&mut self.stream).poll_flush(cx);
        if result.is_ready() {
            // What there was to write is written before.
            self.answering = None;
        }
        self.bounded(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, result)
    }
}
