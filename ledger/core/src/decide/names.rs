//! Names of objects that an API server is about to store. Only one object can bear a name:
//!
//! - While an old one lives, the new one needs what it counts for beyond the old one, and what it holds stays within the
//!   limits when the old one ends.
//! - Of several that are asked for, any may be the one that is stored: no less is held than for the largest.

use super::{
    Basis, Filed,
    reserve::{self, Beside, Case},
};
use crate::{
    event::{Event, Observed},
    state::{Overlay, State},
};
use quota_semantics::{admission::Limit as _, quantity::Quantity};

/// What an API server is about to store, as the state sees it.
pub(super) fn case<'a>(state: &'a State, request: &'a Filed) -> Case<'a> {
    let case = in_place(state, request);
    match beside(state, &case) {
        Some(beside) => case.beside(beside),
        None => case,
    }
}

/// It takes the place of what is pending for its name. Where the two are of different quotas, neither can stand for
/// the other, and both are held.
fn in_place<'a>(state: &'a State, request: &'a Filed) -> Case<'a> {
    let overlay = Overlay::default();
    let superseded = reserve::superseded(state, request, &overlay);
    let pending = superseded.as_ref().and_then(|uid| state.pending_of(uid));
    match pending {
        Some(pending) if pending.footprint.traits == request.footprint.traits => {
            Case::taking_the_place_of(state, request, superseded, overlay)
                .no_less_than(&pending.footprint)
        }
        _ => Case::taking_the_place_of(state, request, None, overlay),
    }
}

/// The object that bears the name that a new object is to have. One of which something else waits for the name counts
/// once only.
fn beside<'a>(state: &'a State, case: &Case<'a>) -> Option<Beside<'a>> {
    let request = case.request;
    if request.basis != Basis::Create || request.name.is_empty() || case.before.is_some() {
        return None;
    }
    let resource = request.resource.name();
    let named = state.object_named(&request.namespace, &resource, &request.name)?;
    let is_free = !state.is_waited_for(&named.uid, case.superseded.as_ref());
    let footprint = state.footprint_in(&request.namespace, &named.uid)?;
    (named.uid != request.uid && is_free).then_some(Beside {
        bearer: named.uid,
        footprint,
    })
}

/// An object is seen for the first time: what is pending for its name was not stored, or is to follow the object.
pub(super) fn awaited(state: &State, object: &Observed) -> Option<Event> {
    if object.name.is_empty() || state.pending_count() == 0 {
        return None;
    }
    let pending = state.pending_for(&object.namespace, &object.resource, &object.name)?;
    let reservation = &pending.reservation;
    let is_another = reservation.uid != object.uid && state.object(&reservation.uid).is_none();
    let waits = state.bearer_shared(reservation).is_some();
    (is_another && !waits).then(|| Event::NameAwaited {
        uid: reservation.uid.clone(),
        namespace: object.namespace.clone(),
        bearer: object.uid.clone(),
    })
}

/// Whether it needs nothing now that it will not need when the object ends that bears its name.
pub(super) fn needs_later(state: &State, case: &Case<'_>) -> bool {
    if !case.waits || case.holds_target() {
        return false;
    }
    case.limits(state).iter().any(|limit| {
        let counted = |name| case.target.resources.get(name);
        limit.quota.counts(&case.target)
            && limit
                .hard()
                .names()
                .any(|name| counted(name).is_some_and(Quantity::is_positive))
    })
}
