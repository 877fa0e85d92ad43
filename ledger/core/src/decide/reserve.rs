//! Granting reservations.

use std::sync::Arc;

use hashbrown::HashSet;

use super::{
    Basis, Decision, Notice, Policy, Refusal, Request, Requester, case::Case,
    explain::checked_quotas,
};
use crate::{
    event::{Event, Reservation},
    state::{self, End, Overlay, ReservationStatus, State, Tracked},
};
use quota_semantics::{Name, Span, Timestamp, admission::CheckedQuota, object::Footprint};

/// The result of a check that found room.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The checked quotas.
    pub quotas: Vec<CheckedQuota>,
    /// Notices about the request.
    pub notices: Vec<Notice>,
    /// Resources that nothing limits.
    pub unlimited: Vec<Name>,
    /// Those to warn of.
    pub warn_of: Vec<Name>,
}

/// Grants a request, or refuses it.
///
/// A request is granted if `used + reserved + request <= hard` in every quota that applies. A repeated request gets the
/// same answer until its reservation is void. A pending reservation for the same name under another uid is superseded.
/// A request for an existing object reserves its growth.
///
/// # Errors
/// `Denied`, `UidReused`, `Ended`, `NotOwner`, `TooManyPending`, `LimitReached`, `InvalidTtl`.
pub fn reserve(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    policy: &Policy,
) -> Result<Decision, Refusal> {
    decide(state, now, by, request, policy, &mut Overlay::default())
}

/// Grants all requests or none.
///
/// # Errors
/// The index of the first request that cannot be granted after those before it, and the refusal.
pub fn reserve_all(
    state: &State,
    now: Timestamp,
    by: &Requester,
    requests: &[Request],
    policy: &Policy,
) -> Result<Vec<Decision>, (usize, Refusal)> {
    let mut overlay = Overlay::with_room(requests.len());
    let mut seen = HashSet::with_capacity(requests.len());
    let mut all = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        if !seen.insert((&request.namespace, &request.uid)) {
            return Err((index, Refusal::UidReused(request.uid.clone())));
        }
        let decided = decide(state, now, by, request, policy, &mut overlay);
        let reserved = decided.map_err(|refusal| (index, refusal))?;
        for event in &reserved.events {
            overlay.follow(state, event);
        }
        all.push(reserved);
    }
    Ok(all)
}

/// How many amounts [`check`] compares and shows: those of all quotas and groups that may count the request. Not included
/// is the search for the time when there will be room, which has a bound of its own and is rarely needed.
#[must_use]
pub fn amounts_to_check(state: &State, request: &Request) -> usize {
    let (quotas, limits) = state.count_limits(&request.namespace);
    limits + quotas * request.footprint.resources.len()
}

/// Decides a request as [`reserve`] does, without reserving.
///
/// # Errors
/// `Denied`, `LimitReached`.
pub fn check(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    policy: &Policy,
) -> Result<Checked, Refusal> {
    let overlay = Overlay::default();
    let request = &*request.counted(state);
    policy.bounds.check_request(state, &overlay, request)?;
    let case = Case::of(state, by, request, overlay);
    let limits = case.limits(state);
    // What a check shows is its purpose, so that nothing is omitted.
    let shows_all = Policy { shown_max: usize::MAX, ..policy.clone() };
    let grown = case.evaluate(state, &limits, now, &shows_all)?;
    let unlimited = state::unlimited(&limits, &case.target);
    Ok(Checked {
        quotas: checked_quotas(&limits, &case.wanted(), usize::MAX).0,
        warn_of: case.unlimited_to_warn_of(&limits, &unlimited, policy),
        unlimited,
        notices: case.notices(limits, &grown),
    })
}

/// Decides given the overlay, to which the ends of superseded reservations are added.
fn decide(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    policy: &Policy,
    overlay: &mut Overlay,
) -> Result<Decision, Refusal> {
    let requested = &request.footprint;
    let request = &*request.counted(state);
    let tracked = state.tracked(&request.namespace, &request.uid);
    if tracked.is_some_and(|(place, _)| overlay.has_ended(place)) {
        return Err(ended(state, request, Some((End::Superseded, now))));
    }
    let tracked = tracked.map(|(_, tracked)| tracked);
    if let Some(tracked) = granted_before(state, request, requested, tracked)? {
        // The principal that is granted a reservation owns it.
        by.must_own(&tracked.owner, &request.uid)?;
        return Ok(Decision { replayed: Some(tracked.entry), ..Decision::default() });
    }
    policy.bounds.check_request(state, overlay, request)?;
    let ttl = request.ttl.unwrap_or(policy.default_ttl);
    if ttl <= Span::ZERO || ttl > policy.max_ttl {
        return Err(Refusal::InvalidTtl { max: policy.max_ttl });
    }
    let mut case = Case::of(state, by, request, std::mem::take(overlay));
    case.requested = requested;
    if let Some(uid) = &case.not_owned {
        return Err(Refusal::NotOwner(uid.clone()));
    }
    let limits = case.limits(state);
    let grown = case.evaluate(state, &limits, now, policy)?;
    let holding = case.holding(&limits);
    let unlimited = case.unlimited_to_warn_of(&limits, &holding.unlimited, policy);
    let notices = case.notices(limits, &grown);
    let events = case.grant(state, now, ttl, policy, Some(by))?;
    *overlay = case.overlay;
    Ok(Decision {
        status: granted(&events).map(|reservation| ReservationStatus {
            reservation: reservation.clone(),
            end: None,
            holding: Some(holding),
        }),
        events,
        notices,
        unlimited,
        ..Decision::default()
    })
}

fn granted(events: &[Event]) -> Option<&Arc<Reservation>> {
    events.iter().find_map(|event| match event {
        Event::ReservationGranted(reservation) => Some(reservation),
        _ => None,
    })
}

/// The recorded reservation of the object, if it was granted for the same request before. An update counts as the same
/// only while its reservation is pending: the same change can be made again later. `requested`: the footprint as it was
/// requested.
pub(super) fn granted_before<'s>(
    state: &'s State,
    request: &Request,
    requested: &Footprint,
    tracked: Option<&'s Tracked>,
) -> Result<Option<&'s Tracked>, Refusal> {
    let Some(tracked) = tracked else {
        return Ok(None);
    };
    let creates = request.basis == Basis::Create;
    if !request.made(requested, &tracked.reservation) {
        return match creates {
            true => Err(Refusal::UidReused(request.uid.clone())),
            false => Ok(None),
        };
    }
    match tracked.end() {
        Some((end, _)) if creates && end.is_void() => Err(ended(state, request, None)),
        Some(_) if !creates => Ok(None),
        _ => Ok(Some(tracked)),
    }
}

/// The refusal of a request whose reservation has ended: as recorded, or `end` if that is not recorded yet.
fn ended(state: &State, request: &Request, end: Option<(End, Timestamp)>) -> Refusal {
    let view = state.reservation(&request.namespace, &request.uid);
    view.map_or_else(
        || Refusal::NotFound(format!("reservation {}", request.uid)),
        |mut view| {
            view.end = end.or(view.end);
            Refusal::Ended(Box::new(view))
        },
    )
}
