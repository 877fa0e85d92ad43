//! A memory budget for bodies: limits the bytes of bodies that a listener holds at once, for any number of callers.
//! tower-http's limits are per body.

use std::{
    collections::BTreeMap,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
};

use axum::body::Body;
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use parking_lot::Mutex;
use quota_semantics::Name;

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
    #[must_use]
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

#[cfg(test)]
mod tests {
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
}
