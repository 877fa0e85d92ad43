//! Bodies: a request's body is limited in size and time, a response's body reports its completion.

use std::{
    collections::BTreeMap,
    error::Error,
    future::Future,
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU8, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use axum::{BoxError, body::Body};
use bytes::Bytes;
use futures::{StreamExt as _, stream::iter};
use http_body_util::BodyExt as _;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use quota_semantics::Name;
use tokio::time::{Instant, Sleep, sleep};

use super::timed::Phase;
use crate::problem::{Problem, Reason};

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

// A memory budget for bodies: limits the bytes of bodies that a listener holds at once, for any number of callers.
// tower-http's limits are per body.

/// Bytes of each body that do not count against the budget, so that large bodies do not displace small ones. The number
/// of connections bounds these bytes.
pub(super) const FREE_BYTES: u64 = 16 * 1024;

/// The memory budget of a listener for bodies. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<Mutex<Remaining>>);

#[derive(Debug)]
struct Remaining {
    left: u64,
    /// What principals hold. A caller without a name of its own is not listed.
    held: BTreeMap<Name, Held>,
}

/// What the bodies of one principal take from the budget.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    bodies: u32,
    bytes: u64,
}

impl BodyBudget {
    /// A budget of this many bytes.
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Remaining { left: bytes, held: BTreeMap::new() })))
    }
}

impl Remaining {
    /// Takes bytes for a body; `bodies` is 1 for its first ones. The bodies of one principal take at most as many bytes
    /// as stay free, so that one principal alone leaves half of the budget to others. A single body may take more,
    /// since the largest body may be larger than half of the budget.
    fn take(&mut self, principal: Option<&Name>, bodies: u32, bytes: u64) -> bool {
        let Some(left) = self.left.checked_sub(bytes) else {
            return false;
        };
        if let Some(principal) = principal {
            let mut held = self.held.get(principal).copied().unwrap_or_default();
            held.bodies += bodies;
            held.bytes += bytes;
            if held.bodies > 1 && held.bytes > left {
                return false;
            }
            self.held.insert(principal.clone(), held);
        }
        self.left = left;
        true
    }

    /// Returns all bytes of a body.
    fn give_back(&mut self, principal: Option<&Name>, bytes: u64) {
        self.left += bytes;
        let Some(principal) = principal else { return };
        if let Some(held) = self.held.get_mut(principal) {
            held.bodies -= 1;
            held.bytes -= bytes;
            if held.bodies == 0 {
                self.held.remove(principal);
            }
        }
    }
}

/// The share of one body; returned on drop.
#[derive(Debug)]
pub(super) struct Share {
    budget: BodyBudget,
    /// Known once the request is authenticated, which is before its body is read.
    principal: OnceLock<Name>,
    bytes: Mutex<u64>,
}

impl Share {
    pub(super) fn of(budget: &BodyBudget) -> Self {
        Self { budget: budget.clone(), principal: OnceLock::new(), bytes: Mutex::new(0) }
    }

    /// Sets whose body it is; to be called before the share grows.
    pub(super) fn belongs_to(&self, principal: Name) {
        let _ = self.principal.set(principal);
    }

    /// Takes the next bytes of a body from the budget; false if too little is left.
    pub(super) fn grow(&self, bytes: u64) -> bool {
        let mut taken = self.bytes.lock();
        let before = *taken;
        let after = before.saturating_add(bytes);
        let counted = before.saturating_sub(FREE_BYTES);
        let more = after.saturating_sub(FREE_BYTES) - counted;
        // Most bodies are short.
        let fits = more == 0 || {
            let bodies = u32::from(counted == 0);
            let principal = self.principal.get();
            self.budget.0.lock().take(principal, bodies, more)
        };
        if fits {
            *taken = after;
        }
        fits
    }

    /// Returns all bytes: the body was used.
    pub(super) fn give_back(&self) {
        let taken = std::mem::take(&mut *self.bytes.lock());
        let taken = taken.saturating_sub(FREE_BYTES);
        if taken > 0 {
            let principal = self.principal.get();
            self.budget.0.lock().give_back(principal, taken);
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.give_back();
    }
}

/// A body of known length that keeps its share of the budget until it is sent. hyper takes all bytes of a body at once
/// and then drops the body, long before a slow peer has received them.
struct BudgetedBody {
    body: Body,
    share: Arc<Share>,
}

/// Bytes in transit: they count against the budget until they are dropped.
struct BudgetedBytes {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Takes the body of a response from the budget; none if too little is left. A body of unknown length produces its
/// bytes on demand, and needs no budget.
pub(super) fn budgeted(body: Body, budget: &BodyBudget, principal: Option<&Name>) -> Option<Body> {
    let bytes = body.size_hint().exact().unwrap_or(0);
    if bytes <= FREE_BYTES {
        return Some(body);
    }
    let share = Share::of(budget);
    if let Some(principal) = principal {
        share.belongs_to(principal.clone());
    }
    share.grow(bytes).then(|| {
        let share = Arc::new(share);
        Body::new(BudgetedBody { body, share })
    })
}

impl HttpBody for BudgetedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(cx);
        polled.map_ok(|frame| {
            frame.map_data(|bytes| {
                let _share = self.share.clone();
                Bytes::from_owner(BudgetedBytes { bytes, _share })
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

// Reads a body as a whole, and says why one did not arrive.

/// Why a listener ended the body of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Ended {
    /// It paused for longer than allowed.
    #[error("the body did not arrive in time")]
    Stalled,
    /// It has more bytes than allowed.
    #[error("the body is too large")]
    TooLarge,
    /// Other bodies use the whole budget.
    #[error("there is no room for the body")]
    OutOfBudget,
}

/// Other bodies use the whole budget, and the bytes of this body were returned to it. Its handler need not keep the
/// body: if the handler drops what it has and reads on, the remaining bytes arrive, and do not count.
#[derive(Debug, thiserror::Error)]
#[error("there is no room to keep the body")]
pub(crate) struct NotKept;

/// Whether this error of a body is [`NotKept`].
pub(crate) fn is_not_kept(error: &axum::Error) -> bool {
    source::<NotKept>(error).is_some()
}

fn source<E: Error + 'static>(error: &axum::Error) -> Option<&E> {
    let mut sources = std::iter::successors(error.source(), |&error| error.source());
    sources.find_map(|source| source.downcast_ref())
}

/// The problem of a body that did not arrive. If the listener ended the body, the listener answers; the reason is the
/// same, for metrics and the log.
pub(crate) fn not_arrived(error: &axum::Error) -> Problem {
    let reason = match source(error) {
        Some(Ended::Stalled) => Reason::RequestTimeout,
        Some(Ended::TooLarge) => Reason::TooLarge,
        Some(Ended::OutOfBudget) => Reason::Overloaded,
        None => Reason::Malformed,
    };
    Problem::new(reason, format!("the body did not arrive: {error}"))
}

/// A body that failed before its end.
#[derive(Debug)]
pub(crate) struct Broken {
    begin: Vec<u8>,
    error: axum::Error,
    rest: Body,
}

impl Broken {
    /// The body from its begin, with its failure, for a handler that can go on without keeping the body.
    ///
    /// # Errors
    /// As [`not_arrived`] if the failure is another one.
    pub(crate) fn resumed(self) -> Result<Body, Problem> {
        if !is_not_kept(&self.error) {
            return Err(self.into());
        }
        let failed = [Ok(Bytes::from(self.begin)), Err(self.error)];
        Ok(Body::from_stream(iter(failed).chain(self.rest.into_data_stream())))
    }
}

impl From<Broken> for Problem {
    fn from(broken: Broken) -> Self {
        not_arrived(&broken.error)
    }
}

/// All bytes of a body, which the listener limits. Usually they are available at once, and need not be copied.
///
/// # Errors
/// As [`not_arrived`] if the body does not arrive completely.
pub(crate) async fn whole_body(body: Body) -> Result<Bytes, Problem> {
    Ok(whole_or_broken(body).await?)
}

/// All bytes of a body; if it fails, its handler may still use a part.
///
/// # Errors
/// The body does not arrive completely.
pub(crate) async fn whole_or_broken(mut body: Body) -> Result<Bytes, Broken> {
    let mut all = Vec::new();
    let mut is_first = true;
    while let Some(frame) = body.frame().await {
        let piece = match frame {
            Ok(frame) => frame.into_data().unwrap_or_default(),
            Err(error) => {
                return Err(Broken { begin: all, error, rest: body });
            }
        };
        if is_first && body.is_end_stream() {
            return Ok(piece);
        }
        is_first = false;
        // Copied as it arrives: a piece of one byte, if it was kept, would keep a buffer of the connection.
        all.extend_from_slice(&piece);
    }
    Ok(all.into())
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    fn left(budget: &BodyBudget) -> u64 {
        budget.0.lock().left
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let budget = BodyBudget::new(100);
        let share = Share::of(&budget);
        assert!(share.grow(FREE_BYTES - 1) && share.grow(31));
        assert_eq!(left(&budget), 70);
        let other = Share::of(&budget);
        assert!(other.grow(FREE_BYTES) && !other.grow(71) && other.grow(70));
        assert_eq!(left(&budget), 0);
        assert!(!share.grow(1));
        drop(share);
        assert_eq!(left(&budget), 30);
        drop(other);
        assert_eq!(left(&budget), 100);
    }

    /// A body of a principal that takes this many bytes from the budget.
    fn taken(budget: &BodyBudget, principal: &str, bytes: u64) -> Option<Share> {
        let share = Share::of(budget);
        share.belongs_to(principal.into());
        share.grow(FREE_BYTES + bytes).then_some(share)
    }

    #[test]
    fn one_principal_leaves_half_to_others() {
        let budget = BodyBudget::new(100);
        let [flood, other] = ["flood", "other"].map(|name| {
            let budget = budget.clone();
            move |bytes| taken(&budget, name, bytes)
        });
        let mut held: Vec<_> = (0..10).map_while(|_| flood(10)).collect();
        assert_eq!(held.len(), 5);
        // A body that arrives slowly has no more room than one that is there.
        assert!(!held[0].grow(1));
        let of_other = other(25).unwrap();
        assert!(flood(1).is_none() && other(1).is_none());
        drop(of_other);
        held.pop();
        assert!(flood(10).is_some() && left(&budget) == 60);
        drop(held);
        // A single body may be as large as the budget.
        let single = flood(60).unwrap();
        assert!(single.grow(40) && left(&budget) == 0);
        // A request does not compete with its own answer.
        single.give_back();
        let answer = flood(60).unwrap();
        drop((single, answer));
        assert_eq!(left(&budget), 100);
        assert!(budget.0.lock().held.is_empty());
    }

    #[test]
    fn an_answer_keeps_its_budget_until_it_is_dropped() {
        let budget = BodyBudget::new(100);
        let long = || Body::from(vec![b'x'; usize::try_from(FREE_BYTES).unwrap() + 60]);
        let budgeted = |body| budgeted(body, &budget, None);
        let first = budgeted(long()).unwrap();
        assert_eq!(first.size_hint().exact(), Some(FREE_BYTES + 60));
        assert!(budgeted(long()).is_none());
        assert!(budgeted(Body::from("short")).is_some());
        drop(first);
        assert!(budgeted(long()).is_some());
    }

    /// A buffer of a connection, of which a piece is one byte.
    struct Buffer(Arc<AtomicUsize>);

    impl AsRef<[u8]> for Buffer {
        fn as_ref(&self) -> &[u8] {
            b"x"
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[tokio::test]
    async fn a_body_without_room_is_resumed_with_its_failure() {
        let pieces = |error: axum::BoxError| {
            let pieces = [Ok("ab"), Ok("cd"), Err(error), Ok("ef")];
            Body::from_stream(iter(pieces))
        };
        let broken = whole_or_broken(pieces(NotKept.into())).await.unwrap_err();
        let mut body = broken.resumed().unwrap().into_data_stream();
        assert_eq!(body.next().await.unwrap().unwrap(), "abcd");
        assert!(is_not_kept(&body.next().await.unwrap().unwrap_err()));
        assert_eq!(body.next().await.unwrap().unwrap(), "ef");
        assert!(body.next().await.is_none());
        let broken = whole_or_broken(pieces("gone".into())).await.unwrap_err();
        assert_eq!(broken.resumed().unwrap_err().reason(), Reason::Malformed);
    }

    #[tokio::test]
    async fn a_body_that_the_listener_ended_has_the_reason_of_its_answer() {
        for (ended, reason) in [
            (Ended::Stalled, Reason::RequestTimeout),
            (Ended::TooLarge, Reason::TooLarge),
            (Ended::OutOfBudget, Reason::Overloaded),
        ] {
            let pieces = [Ok("ab"), Err(ended)];
            let failed = whole_body(Body::from_stream(iter(pieces))).await;
            assert_eq!(failed.unwrap_err().reason(), reason);
        }
    }

    #[tokio::test]
    async fn no_piece_is_kept_however_small_the_pieces_are() {
        let kept = Arc::new(AtomicUsize::new(0));
        let counted = kept.clone();
        let pieces = iter(0..1000).map(move |_| {
            let before = counted.fetch_add(1, Ordering::Relaxed);
            assert!(before < 2, "{before} pieces are kept");
            Ok::<_, std::io::Error>(Bytes::from_owner(Buffer(counted.clone())))
        });
        let all = whole_body(Body::from_stream(pieces)).await.unwrap();
        assert_eq!(all, "x".repeat(1000));
        assert_eq!(kept.load(Ordering::Relaxed), 0);
    }
}
