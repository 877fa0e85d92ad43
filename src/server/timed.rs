//! A stream that drops an HTTP/1 peer that keeps it waiting. Of HTTP/2, it bounds the time of the preface alone.
//!
//! hyper has one timer for the head of a request, which also runs while a connection idles between two requests. This
//! stream distinguishes the two, and also drops a peer that takes no bytes. (If the beginning of a head was sent along
//! with the previous request, the stream does not see it; the rest of that head is then subject to the timeout for a
//! next request.)
//!
//! hyper reads nothing while it answers and a further request is in its buffer. So it does not notice the end of the
//! connection then, and a response may last as long as a watch. At intervals the response makes the stream check the
//! peer.

use std::{
    future::Future,
    io,
    pin::Pin,
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
    time::{Instant, Sleep, sleep, sleep_until},
};

use crate::metrics::{self, Limit};

/// The phase of a connection. Shared between the stream and the code that answers requests.
#[derive(Clone, Debug)]
pub(super) struct Phase(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    phase: AtomicU8,
    /// Whether the response is long-lived, as a watch is.
    lasts: AtomicBool,
}

/// Waits for the rest of a head.
const HEAD: u8 = 0;
/// Waits for this server.
const BUSY: u8 = 1;
/// Waits for the next request.
const IDLE: u8 = 2;
/// Waits for this server, for long enough to check whether the peer is still there.
const LOOK: u8 = 3;
/// HTTP/2, in which requests are concurrent: they have deadlines of their own.
const HTTP2: u8 = 4;

/// The beginning of every HTTP/2 connection, which no HTTP/1 request has (RFC 9113, section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

impl Phase {
    /// A new connection, which waits for its first request, unless it is known to be of HTTP/2.
    pub(super) fn new(is_http2: bool) -> Self {
        Self(Arc::new(Shared {
            phase: AtomicU8::new(if is_http2 { HTTP2 } else { HEAD }),
            lasts: AtomicBool::new(false),
        }))
    }

    fn get(&self) -> u8 {
        self.0.phase.load(Ordering::Relaxed)
    }

    fn set(&self, phase: u8) {
        self.0.phase.store(phase, Ordering::Relaxed);
    }

    /// Returns true once the preface of HTTP/2 has arrived.
    pub(super) fn is_http2(&self) -> bool {
        self.get() == HTTP2
    }

    /// A head has arrived.
    pub(super) fn busy(&self) {
        self.set(BUSY);
    }

    /// A response begins; `lasts`: it ends only when its source does.
    pub(super) fn answer(&self, lasts: bool) {
        self.0.lasts.store(lasts, Ordering::Relaxed);
    }

    /// Makes the stream check whether the peer of a long-lived response is still there.
    pub(super) fn look(&self) {
        self.set(LOOK);
    }

    /// The response is complete.
    pub(super) fn idle(&self) {
        self.set(IDLE);
    }
}

/// How long a peer may keep the server waiting.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timeouts {
    /// Time for the rest of a head.
    pub(super) head: Duration,
    /// Time for the next request, and for taking some bytes of a response.
    pub(super) idle: Duration,
    /// Time for taking all bytes of a response, unless it is long-lived.
    pub(super) answer: Duration,
}

impl Timeouts {
    /// The shortest deadline that is ever set; also the interval of peer checks during long-lived responses.
    pub(super) fn shorter(self) -> Duration {
        self.head.min(self.idle)
    }
}

/// A timer for deadlines that are rarely reached, each at least `least` away when it is set. Checking the deadline when
/// the timer ends is cheaper than resetting the timer for every request.
struct CoarseTimer {
    /// Ends at or before the next deadline.
    sleep: Pin<Box<Sleep>>,
    least: Duration,
}

impl CoarseTimer {
    fn new(began: Instant, least: Duration) -> Self {
        Self { sleep: Box::pin(sleep_until(began + least)), least }
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

/// To copy the pieces of a response of at most this size takes less time than a system call for several pieces does
/// beyond one for a single piece.
const GATHERED_BYTES_MAX: usize = 2048;

/// The timeout of each request of a connection: they come one after the other.
#[derive(Clone)]
pub(super) struct Clock(Arc<Mutex<CoarseTimer>>);

impl Clock {
    pub(super) fn new(limit: Duration) -> Self {
        Self(Arc::new(Mutex::new(CoarseTimer::new(Instant::now(), limit))))
    }

    /// Whether a request that began at this time has taken longer than allowed.
    pub(super) fn poll(&self, began: Instant, cx: &mut Context<'_>) -> Poll<()> {
        let mut timer = self.0.lock();
        let deadline = began + timer.least;
        timer.poll(cx, deadline)
    }
}

/// A stream with deadlines.
pub(super) struct Timed<S> {
    stream: S,
    /// Checks whether the peer has closed the connection, although unread bytes remain.
    is_gone: fn(&S) -> bool,
    phase: Phase,
    timeouts: Timeouts,
    /// What is missing of the preface of HTTP/2; empty once the version is known.
    preface: &'static [u8],
    /// The phase that `deadline` belongs to.
    seen: u8,
    /// Until when the peer may keep the server waiting; none while it does not.
    deadline: Option<Instant>,
    reading: CoarseTimer,
    /// The pieces of a small response, which are written as one.
    gathered: Vec<u8>,
    /// Set while the peer takes no bytes.
    writing: Option<Pin<Box<Sleep>>>,
    /// Set from the first time that the peer takes no bytes of a response until it has taken all.
    answering: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    /// A stream that has waited for its first head since `began`.
    pub(super) fn new(
        stream: S,
        is_gone: fn(&S) -> bool,
        began: Instant,
        phase: Phase,
        timeouts: Timeouts,
    ) -> Self {
        let reading = CoarseTimer::new(began, timeouts.shorter());
        Self {
            stream,
            is_gone,
            phase,
            timeouts,
            preface: PREFACE,
            seen: HEAD,
            deadline: Some(began + timeouts.head),
            reading,
            gathered: Vec::new(),
            writing: None,
            answering: None,
        }
    }

    fn enter(&mut self, phase: u8) {
        self.seen = phase;
        self.deadline = None;
    }

    /// Whether the peer has kept the server waiting for too long in this phase.
    fn poll_deadline(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let timeouts = match self.seen {
            HEAD => self.timeouts.head,
            _ => self.timeouts.idle,
        };
        let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + timeouts);
        self.reading.poll(cx, deadline)
    }

    /// Notes the first bytes of the connection, which tell the version.
    fn note_version(&mut self, bytes: &[u8]) {
        let length = bytes.len().min(self.preface.len());
        let (expected, rest) = self.preface.split_at(length);
        if length == 0 || expected != &bytes[..length] {
            self.preface = &[];
            return;
        }
        self.preface = rest;
        if rest.is_empty() {
            self.phase.set(HTTP2);
        }
    }

    /// Whether the peer was to be checked, and is gone.
    fn has_lost_peer(&self) -> bool {
        if self.phase.get() != LOOK {
            return false;
        }
        self.phase.busy();
        (self.is_gone)(&self.stream)
    }

    /// Returns the result of a write, unless the peer has taken no bytes for too long, or too long for all bytes.
    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if result.is_ready() {
            self.writing = None;
            return result;
        }
        if self.phase.is_http2() {
            return Poll::Pending;
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
            if !self.preface.is_empty() && phase == HEAD {
                self.note_version(&buffer.filled()[before..]);
            }
            if phase == IDLE && buffer.filled().len() > before {
                self.phase.set(HEAD);
                self.enter(HEAD);
            }
            return result;
        }
        if matches!(phase, BUSY | LOOK | HTTP2) {
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
        let this = &mut *self;
        let stream = Pin::new(&mut this.stream);
        let bytes: usize = slices.iter().map(|slice| slice.len()).sum();
        let result = if bytes <= GATHERED_BYTES_MAX {
            this.gathered.clear();
            for slice in slices {
                this.gathered.extend_from_slice(slice);
            }
            stream.poll_write(cx, &this.gathered)
        } else {
            stream.poll_write_vectored(cx, slices)
        };
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
            // All pending bytes have been written before.
            self.answering = None;
        }
        self.bounded(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.bounded(cx, result)
    }
}
