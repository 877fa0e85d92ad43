//! Extending, committing and releasing reservations.

use super::{Bounds, Policy, Refusal, Requester};
use crate::{
    event::{Event, Sequence},
    state::{End, ReservationView, State},
};
use quota_semantics::{Name, Span, Timestamp, resource::ResourceList, uid::Uid};

fn find(
    state: &State,
    namespace: &str,
    uid: &Uid,
    by: &Requester,
) -> Result<ReservationView, Refusal> {
    let view = state.reservation(namespace, uid);
    let view = view.ok_or_else(|| unknown(uid))?;
    by.must_own(&view.owner, uid)?;
    Ok(view)
}

fn unknown(uid: &Uid) -> Refusal {
    Refusal::NotFound(format!("reservation {uid}"))
}

fn ended(end: End, view: ReservationView) -> Refusal {
    let view = Box::new(view);
    match end {
        End::Observed | End::Committed => Refusal::AlreadyObserved(view),
        End::Released | End::Superseded | End::Returned => Refusal::AlreadyReleased(view),
        End::Expired => Refusal::Expired(view),
    }
}

/// Gives a pending reservation more time: until `ttl` from now, never less than it has.
///
/// # Errors
/// `NotFound`, `NotOwner`, `InvalidTtl`, `LimitReached`, or how the reservation ended.
pub fn extend(
    state: &State,
    now: Timestamp,
    by: &Requester,
    namespace: &str,
    uid: &Uid,
    ttl: Span,
    policy: &Policy,
) -> Result<Vec<Event>, Refusal> {
    let view = find(state, namespace, uid, by)?;
    if let Some((end, _)) = view.end {
        return Err(ended(end, view));
    }
    if ttl <= Span::ZERO || ttl > policy.max_ttl {
        return Err(Refusal::InvalidTtl { max: policy.max_ttl });
    }
    let expiration = now.plus(ttl);
    if expiration <= view.reservation.expiration {
        return Ok(Vec::new());
    }
    let created = view.reservation.created;
    policy.bounds.check_lifetime(created, expiration)?;
    Ok(vec![Event::ReservationExtended {
        uid: uid.clone(),
        namespace: Name::from(namespace),
        expiration,
    }])
}

/// Commits a reservation: the holder states that the object exists. `resources`, or all that is held, count as used
/// until the object is observed or the holder releases them.
///
/// Committing again changes nothing if the reservation is committed or observed.
///
/// # Errors
/// `NotFound`, `NotOwner`, `Expired`, `AlreadyReleased`, `ExceedsReservation`, or `LimitReached`.
pub fn commit(
    state: &State,
    by: &Requester,
    namespace: &str,
    uid: &Uid,
    resources: Option<&ResourceList>,
    bounds: &Bounds,
) -> Result<Vec<Event>, Refusal> {
    let view = find(state, namespace, uid, by)?;
    match view.end {
        None => {}
        Some((End::Observed | End::Committed, _)) => return Ok(Vec::new()),
        Some((end, _)) => return Err(ended(end, view)),
    }
    let reserved = &view.reservation.footprint.resources;
    let committed = resources.unwrap_or(reserved);
    for (name, quantity) in committed.iter() {
        let limit = reserved.get(name).cloned().unwrap_or_default();
        if quantity.is_negative() || *quantity > limit {
            return Err(Refusal::ExceedsReservation {
                resource: name.clone(),
                committed: quantity.clone(),
                reserved: limit,
            });
        }
    }
    let mut resources = committed.clone();
    // An earlier commit of the object, which this one replaces.
    let earlier = state.unobserved_commit(namespace, uid);
    if let Some(committed) = earlier.and_then(|earlier| earlier.committed.as_ref()) {
        resources.max(&committed.resources);
    }
    let replaced = earlier.map(|earlier| &earlier.owner);
    bounds.check_commit(state, by, namespace, &view.owner, replaced)?;
    Ok(vec![Event::ReservationCommitted {
        uid: uid.clone(),
        namespace: Name::from(namespace),
        resources,
    }])
}

/// Releases a reservation or a commit. If nothing is held any more, nothing happens.
///
/// # Errors
/// `NotFound`, `NotOwner`, or `AlreadyObserved`: the holder cannot remove an object that a source has reported.
pub fn release(
    state: &State,
    by: &Requester,
    namespace: &str,
    uid: &Uid,
) -> Result<Vec<Event>, Refusal> {
    let (_, tracked) = state.tracked(namespace, uid).ok_or_else(|| unknown(uid))?;
    let (uid, namespace) = (uid.clone(), tracked.reservation.namespace.clone());
    if let Err(refusal) = by.must_own(&tracked.owner, &uid) {
        // Another principal's reservation may be pending beside the requester's commit.
        let committed = state.unobserved_commit(&namespace, &uid);
        let is_own = committed.is_some_and(|commit| by.may_change(&commit.owner));
        return match is_own {
            true => Ok(vec![Event::ReservationReturned { uid, namespace }]),
            false => Err(refusal),
        };
    }
    if tracked.ended.is_none() {
        return Ok(vec![Event::ReservationReleased { uid, namespace }]);
    }
    if tracked.committed.is_some() {
        return Ok(vec![Event::ReservationReturned { uid, namespace }]);
    }
    match tracked.end() {
        Some((End::Observed | End::Committed, _)) => {
            let view = state.reservation(&namespace, &uid);
            Err(view.map_or_else(|| unknown(&uid), |view| Refusal::AlreadyObserved(Box::new(view))))
        }
        _ => Ok(Vec::new()),
    }
}

/// Returns true if capacity is reserved for an object.
#[must_use]
pub fn is_reserved(state: &State, namespace: &Name, uid: &Uid) -> bool {
    state.pending_of(namespace, uid).is_some()
}

/// The entry that granted the pending reservation of an object, if the reservation can be released should the creation
/// fail. None: it superseded another one, whose object may have been stored, or the object was observed.
///
/// `events` are those of the decision on the creation. The superseded reservation is remembered for a bounded time only,
/// and not at all if it had the same uid.
#[must_use]
pub fn revocable(state: &State, events: &[Event], namespace: &Name, uid: &Uid) -> Option<Sequence> {
    let supersedes = |event: &Event| matches!(event, Event::ReservationSuperseded { .. });
    let pending = state.pending_of(namespace, uid)?;
    let is_kept = events.iter().any(supersedes)
        || state.replaced_another(pending)
        || state.footprint_in(namespace, uid).is_some();
    (!is_kept).then_some(pending.entry)
}

/// Releases the reservation that this entry granted, since the object will not be created. None: the reservation has
/// ended, another one superseded it, or it is not [`revocable`].
#[must_use]
pub fn fail(state: &State, namespace: &Name, uid: &Uid, entry: Sequence) -> Option<Event> {
    let revocable = revocable(state, &[], namespace, uid)?;
    (revocable == entry)
        .then(|| Event::ReservationReleased { uid: uid.clone(), namespace: namespace.clone() })
}
