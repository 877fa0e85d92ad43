//! Names of objects that an API server is about to store. Only one object can bear a name:
//!
//! - While the old object exists, the new one needs the excess over the old one, and the whole of it stays within the
//!   limits when the old one ends.
//! - Any of several requested objects may be the one that is stored: the reservation is no less than for the largest.

use super::{
    Basis, Request, Requester,
    case::{self, Case, NameBearer},
};
use crate::{
    event::{Event, Observed},
    state::{Overlay, Pending, State, Tracked},
};
use quota_semantics::uid::Uid;

/// An object that an API server is about to store, in the context of the state.
pub(super) fn case<'a>(state: &'a State, by: &Requester, request: &'a Request) -> Case<'a> {
    let case = in_place(state, by, request);
    match beside(state, &case) {
        Some(beside) => case.beside(beside),
        None => case,
    }
}

/// The request supersedes the requester's pending reservations for the same name. If the two footprints belong to
/// different quotas or groups, neither can stand for the other, and both are held.
fn in_place<'a>(state: &'a State, by: &Requester, request: &'a Request) -> Case<'a> {
    let overlay = Overlay::default();
    let pending = |(uid, _): &(Uid, Pending)| {
        let pending = state.pending_of(&request.namespace, uid)?;
        Some(&pending.reservation.footprint)
    };
    let mut alike = case::namesakes(state, by, request, &overlay).own;
    let all = alike.len();
    alike.retain(|one| pending(one).is_some_and(|held| held.is_like(&request.footprint)));
    let held: Vec<_> = alike.iter().filter_map(pending).collect();
    let namesakes = all - alike.len();
    let mut case = Case::taking_the_place_of(state, by, request, alike, overlay);
    case.namesakes = namesakes;
    held.into_iter().fold(case, |case, held| case.no_less_than(held))
}

/// The object that bears the name of the new object. If another reservation waits for the end of that object already,
/// it is not counted a second time.
fn beside<'a>(state: &'a State, case: &Case<'a>) -> Option<NameBearer<'a>> {
    let request = case.request;
    if request.basis != Basis::Create || request.name.is_empty() || case.before.is_some() {
        return None;
    }
    let resource = request.resource.name();
    let named = state.object_named(&request.namespace, &resource, &request.name)?;
    let is_superseded = |uid: &Uid| case.superseded.iter().any(|(other, _)| other == uid);
    let is_free = !state.is_waited_for(&request.namespace, &named.uid, is_superseded);
    let footprint = state.footprint_in(&request.namespace, &named.uid)?;
    (named.uid != request.uid && is_free).then_some(NameBearer { bearer: named.uid, footprint })
}

/// Decides which pending reservations for the name of a newly observed object end. One of their objects may have been
/// stored after the observed one, so the latest reservation is kept and waits for the end of the object; earlier ones
/// of the same principal end if the latest holds enough for them. The holder of the latest may release it at any time,
/// so it is no substitute for the reservations of others.
pub(super) fn settled(state: &State, object: &Observed) -> Vec<Event> {
    let Observed { uid: bearer, namespace, resource, name, .. } = object;
    let is_new = || state.object(namespace, bearer).is_none();
    if name.is_empty() || state.pending_count() == 0 || !is_new() {
        return Vec::new();
    }
    let is_another = |tracked: &&Tracked| {
        let reservation = &tracked.reservation;
        reservation.uid != *bearer
            && state.object(namespace, &reservation.uid).is_none()
            && state.bearer_shared(reservation).is_none()
    };
    let mut others: Vec<_> = state.named(namespace, resource, name).filter(is_another).collect();
    others.sort_unstable_by_key(|tracked| tracked.entry);
    let Some(latest) = others.pop() else {
        return Vec::new();
    };
    let held = &latest.reservation.footprint;
    let is_covered = |tracked: &&&Tracked| {
        let footprint = &tracked.reservation.footprint;
        let beyond = footprint.resources.delta_over(&held.resources);
        tracked.owner == latest.owner
            && footprint.is_like(held)
            && beyond.without_zeros().is_empty()
    };
    let superseded = others.iter().filter(is_covered);
    let superseded = superseded.map(|tracked| Event::ReservationSuperseded {
        uid: tracked.reservation.uid.clone(),
        namespace: namespace.clone(),
        by: bearer.clone(),
    });
    let awaited = Event::NameAwaited {
        uid: latest.reservation.uid.clone(),
        namespace: namespace.clone(),
        bearer: bearer.clone(),
    };
    superseded.chain([awaited]).collect()
}

/// Whether the request needs a reservation even if no limit grows now: it will need capacity when the object that bears
/// its name ends, or when workloads are charged less.
pub(super) fn needs_later(state: &State, case: &Case<'_>) -> bool {
    if !(case.waits || case.draws()) || case.holds_target() {
        return false;
    }
    let limits = case.limits(state);
    limits.iter().any(|limit| limit.is_taken_by(&case.target, None))
}
