//! Bodies: a request's body is limited in size and time, a response's body reports its completion.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use quota_semantics::Name;
use tokio::time::{Instant, Sleep, sleep};

use super::{
    body_budget::{BodyBudget, Share},
    timed::Phase,
};
use crate::whole_body::{Ended, NotKept};

/// The progress of a request's body. The received bytes count against the budget while this is held.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Arriving>);

#[derive(Debug)]
struct Arriving {
    state: AtomicU8,
    share: Share,
}

/// Not read, not even in part: the handler needs no body, or not yet.
const UNREAD: u8 = 0;
const ARRIVING: u8 = 1;
const COMPLETE: u8 = 2;
const TOO_LARGE: u8 = 3;
const STALLED: u8 = 4;
const CROWDED_OUT: u8 = 5;

impl Progress {
    pub(super) fn is_arriving(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == ARRIVING
    }

    pub(super) fn is_too_large(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == TOO_LARGE
    }

    pub(super) fn has_stalled(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == STALLED
    }

    pub(super) fn is_crowded_out(&self) -> bool {
        self.0.state.load(Ordering::Relaxed) == CROWDED_OUT
    }

    /// Sets whose body it is; to be called before the body is read.
    pub(super) fn belongs_to(&self, principal: Name) {
        self.0.share.belongs_to(principal);
    }

    /// Returns the bytes to the budget: the request was answered.
    pub(super) fn give_back(&self) {
        self.0.share.give_back();
    }

    fn begin(&self) {
        if self.0.state.load(Ordering::Relaxed) == UNREAD {
            self.set(ARRIVING);
        }
    }

    fn set(&self, state: u8) {
        self.0.state.store(state, Ordering::Relaxed);
    }
}

/// How many bytes of a request's body are read, and how many a body may have that is kept: kept bytes count against the
/// budget. Of a longer body, and of one that the budget has no room for, the handler keeps no bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) most: u64,
    pub(super) kept: u64,
}

impl Lengths {
    /// Whether the handler can do without the bytes of a body.
    fn may_be_dropped(&self) -> bool {
        self.most > self.kept
    }
}

/// A request's body that fails when it is too large, pauses for too long, or exceeds the budget.
pub(super) struct Bounded<B> {
    body: B,
    left: Lengths,
    may_be_dropped: bool,
    /// The bytes that did not fit into the budget, until the handler reads on after [`NotKept`].
    not_kept: Option<Frame<Bytes>>,
    pause: Duration,
    /// Set while no bytes arrive.
    waiting: Option<Pin<Box<Sleep>>>,
    progress: Progress,
}

impl<B: HttpBody> Bounded<B> {
    pub(super) fn new(
        body: B,
        lengths: Lengths,
        pause: Duration,
        budget: &BodyBudget,
    ) -> (Self, Progress) {
        let state = if body.is_end_stream() { COMPLETE } else { UNREAD };
        let progress =
            Progress(Arc::new(Arriving { state: AtomicU8::new(state), share: Share::of(budget) }));
        let may_be_dropped = lengths.may_be_dropped();
        let mut left = lengths;
        if body.size_hint().lower() > left.kept {
            left.kept = 0;
        }
        let bounded = Self {
            body,
            left,
            may_be_dropped,
            not_kept: None,
            pause,
            waiting: None,
            progress: progress.clone(),
        };
        (bounded, progress)
    }
}

impl<B> HttpBody for Bounded<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        self.progress.begin();
        if let Some(frame) = self.not_kept.take() {
            let ends = self.body.is_end_stream();
            self.progress.set(if ends { COMPLETE } else { ARRIVING });
            return Poll::Ready(Some(Ok(frame)));
        }
        let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) else {
            let pause = self.pause;
            let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(pause)));
            if waiting.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.progress.set(STALLED);
            return Poll::Ready(Some(Err(Ended::Stalled.into())));
        };
        self.waiting = None;
        let Some(frame) = frame else {
            self.progress.set(COMPLETE);
            return Poll::Ready(None);
        };
        let frame = match frame {
            Ok(frame) => frame,
            Err(error) => return Poll::Ready(Some(Err(error.into()))),
        };
        let length = frame.data_ref().map_or(0, Bytes::len) as u64;
        match self.left.most.checked_sub(length) {
            Some(left) => self.left.most = left,
            None => {
                self.progress.set(TOO_LARGE);
                return Poll::Ready(Some(Err(Ended::TooLarge.into())));
            }
        }
        let share = &self.progress.0.share;
        let fits = match self.left.kept.checked_sub(length) {
            Some(left) => {
                let fits = share.grow(length);
                self.left.kept = left;
                fits
            }
            // Too much arrives to be kept: then the handler keeps nothing.
            None => {
                share.give_back();
                self.left.kept = 0;
                true
            }
        };
        if !fits {
            self.progress.set(CROWDED_OUT);
            if !self.may_be_dropped {
                return Poll::Ready(Some(Err(Ended::OutOfBudget.into())));
            }
            self.progress.give_back();
            self.left.kept = 0;
            self.not_kept = Some(frame);
            return Poll::Ready(Some(Err(NotKept.into())));
        }
        if self.body.is_end_stream() {
            self.progress.set(COMPLETE);
        }
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.not_kept.is_none() && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        match self.not_kept {
            None => self.body.size_hint(),
            Some(_) => SizeHint::default(),
        }
    }
}

/// A response's body. Its end makes the connection wait for the next request. While the body waits for its source, it
/// makes the stream check the peer.
pub(super) struct ResponseBody {
    body: Body,
    phase: Phase,
    every: Duration,
    /// Set by the first wait; most responses have none.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl ResponseBody {
    /// `every`: how often the peer of a long-lived response is checked.
    pub(super) fn new(body: Body, phase: Phase, every: Duration) -> Self {
        Self { body, phase, every, waiting: None }
    }

    /// Makes the stream, which is flushed after this, check the peer when it is time.
    fn wait(&mut self, cx: &mut Context<'_>) {
        let every = self.every;
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(every)));
        while waiting.as_mut().poll(cx).is_ready() {
            self.phase.look();
            waiting.as_mut().reset(Instant::now() + every);
        }
    }
}

impl Drop for ResponseBody {
    fn drop(&mut self) {
        self.phase.idle();
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(cx);
        if frame.is_pending() {
            self.wait(cx);
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
