//! Room for bodies: how many bytes of them a listener holds at once, whatever the number of its callers.

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

/// Bytes of each body that take no room, so that large bodies leave small ones alone. The number of connections
/// bounds them.
pub(super) const FREE_BYTES: u64 = 16 * 1024;

/// The room of a listener. Clones are the same room.
#[derive(Clone, Debug)]
pub struct BodyBudget(Arc<AtomicU64>);

impl BodyBudget {
    /// Room for so many bytes.
    #[must_use]
    pub fn new(bytes: u64) -> Self {
        Self(Arc::new(AtomicU64::new(bytes)))
    }

    fn take(&self, bytes: u64) -> bool {
        let taken = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(bytes)
            });
        taken.is_ok()
    }
}

/// What one body takes; given back when dropped.
#[derive(Debug)]
pub(super) struct Share {
    room: BodyBudget,
    bytes: AtomicU64,
}

impl Share {
    pub(super) fn of(room: &BodyBudget) -> Self {
        Self {
            room: room.clone(),
            bytes: AtomicU64::new(0),
        }
    }

    /// Takes room for the next bytes of a body; false: there is none. Called by one body at a time.
    pub(super) fn grow(&self, bytes: u64) -> bool {
        let before = self.bytes.load(Ordering::Relaxed);
        let after = before.saturating_add(bytes);
        let more = after.saturating_sub(FREE_BYTES) - before.saturating_sub(FREE_BYTES);
        let fits = self.room.take(more);
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
        self.room.0.fetch_add(taken, Ordering::Relaxed);
    }
}

/// A body of known length that has its room until it is sent. The connection takes all its bytes at once and then
/// lets go of it, long before a slow peer has them.
struct BudgetedBody {
    body: Body,
    share: Arc<Share>,
}

/// Bytes on their way: they take room as long as somebody has them.
struct BudgetedBytes {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for BudgetedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Finds room for the body of an answer; none: there is too little. One whose length is not known makes its bytes as
/// they are taken, and needs none.
pub(super) fn house(body: Body, room: &BodyBudget) -> Option<Body> {
    let bytes = body.size_hint().exact().unwrap_or(0);
    if bytes <= FREE_BYTES {
        return Some(body);
    }
    let share = Share::of(room);
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

    fn left(room: &BodyBudget) -> u64 {
        room.0.load(Ordering::Relaxed)
    }

    #[test]
    fn what_is_taken_is_given_back() {
        let room = BodyBudget::new(100);
        let share = Share::of(&room);
        assert!(share.grow(FREE_BYTES - 1) && share.grow(31));
        assert_eq!(left(&room), 70);
        let other = Share::of(&room);
        assert!(other.grow(FREE_BYTES) && !other.grow(71) && other.grow(70));
        assert_eq!(left(&room), 0);
        assert!(!share.grow(1));
        drop(share);
        assert_eq!(left(&room), 30);
        drop(other);
        assert_eq!(left(&room), 100);
    }

    #[test]
    fn an_answer_has_its_room_until_it_is_dropped() {
        let room = BodyBudget::new(100);
        let long = || Body::from(vec![b'x'; usize::try_from(FREE_BYTES).unwrap() + 60]);
        let first = house(long(), &room).unwrap();
        assert_eq!(first.size_hint().exact(), Some(FREE_BYTES + 60));
        assert!(house(long(), &room).is_none());
        assert!(house(Body::from("short"), &room).is_some());
        drop(first);
        assert!(house(long(), &room).is_some());
    }
}
