//! Admission for the Kubernetes API: may the API server store this object?
//!
//! The rules are those of a reservation, except for cases that only an API server has:
//! - An object of this name may exist already: either the API server answers AlreadyExists itself, or it is ahead of
//!   the observed events (`name_conflicts.rs`).
//! - A request that grows no quota leaves no entry, except for a charged workload: its pods may come before it is
//!   observed.
//! - Neither does an update, unless an event that is on its way may undo that (`awaited_versions.rs`).
//! - A replica of a charged workload leaves an entry even if no quota grows: otherwise many replicas could draw on the
//!   same charge.
//! - A workload can be scaled without its template at hand.
//! - A pod may name more resources than a reservation. Only the number of names in the namespace is bounded.

use std::{borrow::Cow, sync::Arc};

use super::{
    Basis, Decision, Denied, Policy, Refusal, Request, Requester, awaited_versions,
    case::Case,
    explain,
    name_conflicts::{self, needs_later},
    reserve,
};
use crate::{
    event::{Event, Reservation},
    state::{self, Counted, ObjectView, Overlay, State, Tracked},
};
use quota_semantics::{
    Name, Span, Timestamp,
    admission::{CheckedQuota, Denial, GrownLimits, Limit as _},
    object::Footprint,
    quantity::Quantity,
};

/// An object that an API server is about to store.
#[derive(Clone, Debug)]
pub struct Review {
    /// The object, and its own footprint.
    pub request: Request,
    /// How the footprint is determined.
    pub measure: Measure,
    /// Whether the capacity is to be held. A dry run holds nothing.
    pub holds: bool,
}

/// How the footprint of an object is determined.
#[derive(Clone, Debug)]
pub enum Measure {
    /// The request holds the footprint.
    Given,
    /// The object is a workload that is scaled to this many replicas; the ledger has the footprint of one replica.
    Scaled {
        /// The number of replicas.
        replicas: u64,
    },
}

/// Decides whether an object may be stored, and reserves its growth until the object is observed.
///
/// # Errors
/// `Denied`, `UidReused`, `TooManyPending`, `NotReady`.
pub fn admit(
    state: &State,
    now: Timestamp,
    by: &Requester,
    review: &Review,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    match consider(state, now, by, review, policy) {
        // A status states what is there already. What cannot be held counts once it is observed.
        Err(_) if review.request.subresource == "status" => Ok(Decision::default()),
        considered => considered,
    }
}

fn consider(
    state: &State,
    now: Timestamp,
    by: &Requester,
    review: &Review,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    let request = &*review.request.counted(state);
    if is_unlimited(state, &request.namespace, policy) {
        return Ok(Decision::default());
    }
    let footprint = match &review.measure {
        Measure::Given => None,
        Measure::Scaled { replicas } => match scaled(state, request, *replicas)? {
            Some(footprint) => Some(footprint),
            None => {
                return Ok(Decision { unmeasured: true, ..Decision::default() });
            }
        },
    };
    match footprint {
        None => {
            let requested = &review.request.footprint;
            decide(state, now, by, request, requested, review.holds, policy)
        }
        Some(footprint) => {
            let request = Request { footprint: Arc::new(footprint), ..request.clone() };
            decide(state, now, by, &request, &request.footprint, review.holds, policy)
        }
    }
}

/// Whether no quota, no group and no limited resource of the policy applies to a namespace.
#[must_use]
pub fn is_unlimited(state: &State, namespace: &str, policy: &Policy) -> bool {
    policy.limited.is_empty() && !state.is_limited(namespace)
}

fn decide(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    requested: &Arc<Footprint>,
    holds: bool,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    match held_before(state, by, request, requested) {
        Ok(None) => {}
        Ok(Some(granted)) => {
            let pending = Some(&*granted.reservation).filter(|_| granted.ended.is_none() && holds);
            let prolonged = pending.and_then(|pending| prolonged(pending, now, policy));
            return Ok(Decision {
                events: prolonged.into_iter().collect(),
                replayed: Some(granted.entry),
                ..Decision::default()
            });
        }
        Err(Refusal::UidReused(_)) => {
            return reconsider(state, now, by, request, holds, policy);
        }
        Err(refusal) => return Err(refusal),
    }
    if let Some(before) = unseen_before(state, request) {
        return grow_unseen(state, now, by, request, before, holds, policy);
    }
    let mut case = name_conflicts::case(state, by, request);
    case.requested = requested;
    if request.basis != Basis::Create && case.before.is_none() {
        return Err(no_previous_version(state, &case, policy));
    }
    settle(state, now, case, holds, policy)
}

/// The reservation that an earlier request for the same review holds. A void reservation holds nothing, and another
/// principal can release its own at any time: in both cases the request is decided anew.
fn held_before<'s>(
    state: &'s State,
    by: &Requester,
    request: &Request,
    requested: &Footprint,
) -> Result<Option<&'s Tracked>, Refusal> {
    let tracked = state.tracked(&request.namespace, &request.uid).map(|(_, tracked)| tracked);
    if tracked.is_some_and(|tracked| !by.made(&tracked.owner)) {
        return Ok(None);
    }
    match reserve::granted_before(state, request, requested, tracked) {
        Err(Refusal::Ended(_)) => Ok(None),
        tracked => tracked,
    }
}

/// Extends the existing reservation of a repeated request to the lifetime of a new one. A request that is repeated soon
/// leaves no entry.
fn prolonged(pending: &Reservation, now: Timestamp, policy: &Policy) -> Option<Event> {
    let half = Span::from_nanoseconds(policy.default_ttl.nanoseconds() / 2);
    (pending.expiration < now.plus(half)).then(|| Event::ReservationExtended {
        uid: pending.uid.clone(),
        namespace: pending.namespace.clone(),
        expiration: now.plus(policy.default_ttl),
    })
}

/// Decides a repeated creation whose footprint has changed: other webhooks changed the object, or the workload that
/// pays for it has been observed. Raises the reservation if necessary.
fn reconsider(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    holds: bool,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    let request = Request { basis: Basis::Update { version: 0 }, ..request.clone() };
    let case = Case::of(state, by, &request, Overlay::default());
    settle(state, now, case, holds, policy)
}

fn settle(
    state: &State,
    now: Timestamp,
    case: Case<'_>,
    holds: bool,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    let Request { namespace, .. } = case.request;
    let bounds = &policy.bounds;
    bounds.check_reviewed(state, &case.overlay, namespace, &case.target.resources)?;
    let limits = case.limits(state);
    let grown = case.evaluate(state, &limits, now, policy)?;
    let charged = charged(&limits, &grown);
    // A user of the API server gets no warning for an object that no quota limits: most namespaces limit little.
    let unlimited = match charged.is_empty() {
        true => Vec::new(),
        false => {
            let unlimited = state::unlimited(&limits, &case.target);
            case.unlimited_to_warn_of(&limits, &unlimited, policy)
        }
    };
    let held = case.pending.filter(|_| case.holds_target());
    let counts = !charged.is_empty()
        || case.is_new_workload()
        || case.holds_more(&limits)
        || needs_later(state, &case)
        || awaited_versions::grows_unseen(state, case.request, held, &limits);
    let events = match case.pending {
        _ if !holds => Vec::new(),
        // The webhook makes reservations for all users.
        _ if counts => case.grant(state, now, policy.default_ttl, policy, None)?,
        Some(pending) if case.relies_on_pending(&limits) => {
            prolonged(pending, now, policy).into_iter().collect()
        }
        _ => Vec::new(),
    };
    Ok(Decision {
        events,
        charged,
        notices: case.notices(limits, &grown),
        unlimited,
        ..Decision::default()
    })
}

fn charged(limits: &[Counted<'_>], grown: &GrownLimits<'_>) -> Vec<CheckedQuota> {
    let grown = grown.iter(limits).map(|(place, growth)| {
        let limit = &limits[place];
        let checked = |(name, delta, hard): (&Name, &Quantity, &Quantity)| {
            explain::checked_limit(limit, name, hard, delta.clone())
        };
        CheckedQuota {
            name: limit.name().clone(),
            kind: limit.kind(),
            resources: growth.map(checked).collect(),
        }
    });
    grown.collect()
}

/// The footprint of a changed object before the change, according to the API server: the object exists, but was not
/// observed.
fn unseen_before<'r>(state: &State, request: &'r Request) -> Option<&'r Footprint> {
    let before = request.before.as_deref()?;
    let observed = state.footprint_in(&request.namespace, &request.uid);
    (request.basis != Basis::Create && observed.is_none()).then_some(before)
}

/// Decides by the API server's old object whether an unobserved object grows. If it grows, the whole new amount of each
/// growing resource is held, since none of it counts yet. A reservation that holds the growth already may have to last
/// longer.
fn grow_unseen(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    before: &Footprint,
    holds: bool,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    let growth = request.footprint.resources.delta_over(&before.resources);
    let grows = |name: &Name, _: &Quantity| growth.get(name).is_some_and(Quantity::is_positive);
    let mut footprint = Footprint::clone(&request.footprint);
    if footprint.is_like(before) {
        footprint.resources.retain(grows);
    }
    let mut seen = before.clone();
    if let Some(pending) = own_pending(state, by, request) {
        seen.resources.max(&pending.footprint.resources);
    }
    let needs_room = if footprint.traits.is_plain() {
        let mut by_old_object = Case::of(state, by, request, Overlay::default());
        by_old_object.before = Some(Cow::Owned(seen));
        by_old_object.pending = None;
        let limits = by_old_object.limits(state);
        let grown = by_old_object.evaluate(state, &limits, now, policy)?;
        !grown.is_empty()
    } else {
        // The growth may fit within the charge, but has to be held.
        let mut amounts = footprint.resources.iter();
        amounts.any(|(_, amount)| amount.is_positive())
    };
    if !needs_room {
        footprint.resources.retain(grows);
    }
    let request = Request { footprint: Arc::new(footprint), before: None, ..request.clone() };
    let case = Case::of(state, by, &request, Overlay::default());
    if !needs_room && case.pending.is_none() {
        return Ok(Decision::default());
    }
    settle(state, now, case, holds, policy)
}

/// The footprint of a workload with this many replicas; none if the workload is not charged, since another one is. What
/// one replica takes is known of the version that is scaled only if that is observed: an update without replicas leaves
/// no entry, and one that is held may not have been stored. An unknown version may be an earlier one.
fn scaled(state: &State, request: &Request, replicas: u64) -> Result<Option<Footprint>, Refusal> {
    let observed = state.object(&request.namespace, &request.uid);
    let is_current = |object: &ObjectView| object.version >= request.basis.version();
    let observed =
        observed.filter(is_current).ok_or(Refusal::NotObserved { uid: request.uid.clone() })?;
    Ok(observed.footprint.scaled(replicas))
}

/// The pending reservation that the requester has made for the object. Reservations of others prove nothing about this
/// object.
fn own_pending<'s>(state: &'s State, by: &Requester, request: &Request) -> Option<&'s Reservation> {
    let pending = state.pending_of(&request.namespace, &request.uid)?;
    by.made(&pending.owner).then_some(&*pending.reservation)
}

fn no_previous_version(state: &State, case: &Case<'_>, policy: &Policy) -> Refusal {
    let denial = Denial::NoPreviousVersion;
    let limits = case.limits(state);
    let (quotas, quotas_omitted) =
        explain::checked_quotas(&limits, &case.wanted(), policy.shown_max);
    Refusal::Denied(Box::new(Denied {
        detail: denial.to_string(),
        reserved: None,
        quotas,
        quotas_omitted,
        retry_after: None,
        fits_when_empty: case.fits_when_empty(state, policy),
        denial,
    }))
}

#[cfg(test)]
mod tests;
