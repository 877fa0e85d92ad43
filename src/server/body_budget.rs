//! A memory budget for bodies: limits the bytes of bodies that a listener holds at once, for any number of callers.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};

/// Bytes of each body that do not count against the budget, so that large bodies do not displace small ones. The number
/// of connections bounds these bytes.
pub(super) const FREE_BYTES: u64 = 16 * 1024;

/// The memory budget of a listener for bodies. Clones share it.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<AtomicU64>);

impl BodyBudget {
    /// A budget of this many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    fn take(&self, bytes: u64) -> bool {
        // Most bodies are short.
        if bytes == 0 {
            return true;
        }
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
        taken.is_ok()
    }
}

/// The share of one body; returned on drop.
#[derive(Debug)]
pub(super) struct Share {
    budget: BodyBudget,
    bytes: AtomicU64,
}

impl Share {
    pub(super) fn of(budget: &BodyBudget) -> Self {
        Self {
            budget: budget.clone(),
            bytes: AtomicU64::new(0),
        }
    }

    /// Takes the next bytes of a body from the budget; false if too little is left. Only one body at a time calls this.
    pub(super) fn grow(&self, bytes: u64) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        let more = after.saturating_sub(FREE_BYTES) - before.saturating_sub(FREE_BYTES);
        let fits = self.budget.take(more);
        if fits {
            self.bytes.store(after, Ordering::Relaxed);
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        let taken = self.bytes.load(Ordering::Relaxed);
        let taken = taken.saturating_sub(FREE_BYTES);
        if taken > 0 {
            self.budget.0.fetch_add(taken, Ordering::Relaxed);
        }
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
pub(super) fn budgeted(body: Body, budget: &BodyBudget) -> Option<Body> {
    let bytes = body.size_hint().exact().unwrap_or(0);
    if bytes <= FREE_BYTES {
        return Some(body);
    }
    let share = Share::of(budget);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn left(budget: &BodyBudget) -> u64 {
        budget.0.load(Ordering::Relaxed)
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

    #[test]
    fn an_answer_keeps_its_budget_until_it_is_dropped() {
        let budget = BodyBudget::new(100);
        let long = || Body::from(vec![b'x'; usize::try_from(FREE_BYTES).unwrap() + 60]);
        let first = budgeted(long(), &budget).unwrap();
        assert_eq!(first.size_hint().exact(), Some(FREE_BYTES + 60));
        assert!(budgeted(long(), &budget).is_none());
        assert!(budgeted(Body::from("short"), &budget).is_some());
        drop(first);
        assert!(budgeted(long(), &budget).is_some());
    }
}
