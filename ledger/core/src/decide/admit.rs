//! Deciding for the Kubernetes API: may it store this object?
//!
//! As for a reservation, but for what only an API server can know or want:
//! - A name may be alive already: either the API server answers AlreadyExists by itself, or it is ahead of what is
//!   observed (`names.rs`).
//! - What grows in no quota leaves no entry, but for a charged workload: it may be scaled before it is seen.
//! - A replica of a charged workload leaves one also where nothing grows: else many could claim the same.
//! - A workload can be scaled without its template at hand.

use std::borrow::Cow;

use super::{
    Basis, By, CheckedQuota, Denied, FingerprintedRequest, Notice, Policy, Refusal, Request,
    case::Case, explain, names, names::needs_later, reserve,
};
use crate::{
    event::{Event, Sequence},
    state::{Counted, Overlay, State, Tracked},
};
use quota_semantics::{
    Name, Timestamp,
    admission::{Charge, Denial, Limit as _},
    object::Footprint,
    quantity::Quantity,
};

/// What an API server is about to store.
#[derive(Clone, Debug)]
pub struct Review {
    /// The object, and what it will count for by itself.
    pub request: FingerprintedRequest,
    /// How what it counts for is to be found.
    pub measure: Measure,
    /// Whether what it needs is to be held; a dry run only asks.
    pub holds: bool,
}

/// How what an object counts for is found.
#[derive(Clone, Debug)]
pub enum Measure {
    /// It is in the request.
    Given,
    /// The object is a workload that gets this many replicas; the ledger knows what one counts for.
    Scaled {
        /// Its replicas.
        replicas: u64,
    },
}

/// What may be stored.
#[derive(Clone, Debug, Default)]
pub struct Admitted {
    /// What is to be written.
    pub events: Vec<Event>,
    /// The entry that granted the same before.
    pub replayed: Option<Sequence>,
    /// The quotas that are charged, and of their limits those that are.
    pub charged: Vec<CheckedQuota>,
    /// The workload was scaled although it is unknown what one replica counts for.
    pub unmeasured: bool,
    /// What is said of it besides.
    pub notices: Vec<Notice>,
    /// Resources to warn of, since nothing limits them.
    pub unlimited: Vec<Name>,
}

/// Decides whether an object may be stored, and holds what it needs until it is seen.
///
/// # Errors
/// `Denied`, `UidReused`, `TooManyPending`.
pub fn admit(
    state: &State,
    now: Timestamp,
    by: &By,
    review: &Review,
    policy: &Policy,
) -> Result<Admitted, Refusal> {
    let request = &review.request;
    if is_unlimited(state, &request.namespace, policy) {
        return Ok(Admitted::default());
    }
    let footprint = match &review.measure {
        Measure::Given => None,
        Measure::Scaled { replicas } => match scaled(state, request, *replicas) {
            Some(footprint) => Some(footprint),
            None => {
                return Ok(Admitted {
                    unmeasured: true,
                    ..Admitted::default()
                });
            }
        },
    };
    match footprint {
        None => decide(state, now, by, request, review.holds, policy),
        Some(footprint) => {
            let request = FingerprintedRequest::from(Request {
                footprint,
                ..Request::clone(request)
            });
            decide(state, now, by, &request, review.holds, policy)
        }
    }
}

/// Whether nothing limits what is used in a namespace.
#[must_use]
pub fn is_unlimited(state: &State, namespace: &str, policy: &Policy) -> bool {
    policy.limited.is_empty() && !state.is_limited(namespace)
}

fn decide(
    state: &State,
    now: Timestamp,
    by: &By,
    request: &FingerprintedRequest,
    holds: bool,
    policy: &Policy,
) -> Result<Admitted, Refusal> {
    match held_before(state, by, request) {
        Ok(None) => {}
        Ok(Some(granted)) => {
            return Ok(Admitted {
                replayed: Some(granted.entry),
                ..Admitted::default()
            });
        }
        Err(Refusal::UidReused(_)) => {
            return reconsider(state, now, by, request, holds, policy);
        }
        Err(refusal) => return Err(refusal),
    }
    if let Some(seen) = unseen_before(state, request) {
        return grow_unseen(state, now, by, request, seen, holds, policy);
    }
    let case = names::case(state, by, request);
    if request.basis != Basis::Create && case.before.is_none() {
        return Err(no_previous_version(state, &case, policy));
    }
    settle(state, now, case, holds, policy)
}

/// What is held for the same review already. What has ended with nothing holds nothing, and what another principal
/// holds can be taken away at any time: then it is decided anew.
fn held_before<'s>(
    state: &'s State,
    by: &By,
    request: &FingerprintedRequest,
) -> Result<Option<&'s Tracked>, Refusal> {
    let known = state.tracked(&request.namespace, &request.uid);
    if known.is_some_and(|known| !by.made(&known.owner)) {
        return Ok(None);
    }
    match reserve::granted_before(state, request) {
        Err(Refusal::Ended(_)) => Ok(None),
        known => known,
    }
}

/// The creation of the same object comes again, and it counts for something else by now: other webhooks changed it,
/// or the workload that pays for it has become known. What is held for it is raised if need be.
fn reconsider(
    state: &State,
    now: Timestamp,
    by: &By,
    request: &FingerprintedRequest,
    holds: bool,
    policy: &Policy,
) -> Result<Admitted, Refusal> {
    let request = FingerprintedRequest::from(Request {
        basis: Basis::Update { version: 0 },
        ..Request::clone(request)
    });
    let case = Case::of(state, by, &request, Overlay::default());
    settle(state, now, case, holds, policy)
}

fn settle(
    state: &State,
    now: Timestamp,
    case: Case<'_>,
    holds: bool,
    policy: &Policy,
) -> Result<Admitted, Refusal> {
    let limits = case.limits(state);
    let charges = case.evaluate(state, &limits, now, policy)?;
    let charged = charged(&limits, &charges);
    // Of an object of which nothing is limited, an API server's user learns nothing: most namespaces limit little.
    let unlimited = match charged.is_empty() {
        true => Vec::new(),
        false => case.unlimited_to_warn_of(&limits, policy),
    };
    let counts = !charged.is_empty() || case.is_new_workload() || needs_later(state, &case);
    let events = if holds && counts {
        case.grant(state, now, policy.default_ttl, policy)?
    } else {
        Vec::new()
    };
    Ok(Admitted {
        events,
        charged,
        notices: case.notices(state, &charges),
        unlimited,
        ..Admitted::default()
    })
}

fn charged(limits: &[Counted<'_>], charges: &[Charge]) -> Vec<CheckedQuota> {
    let charged = |charge: &Charge| {
        let limit = &limits[charge.limit];
        let looked = |(name, delta, hard): (&Name, &Quantity, &Quantity)| {
            explain::looked(limit, name, hard, delta.clone())
        };
        CheckedQuota {
            name: limit.name().clone(),
            kind: limit.kind(),
            resources: charge.delta.common(limit.hard()).map(looked).collect(),
        }
    };
    charges.iter().map(charged).collect()
}

/// What an object that is changed counts for before, by the API server's word: it exists, but was not observed.
fn unseen_before(state: &State, request: &Request) -> Option<Footprint> {
    let mut seen = request.before.clone()?;
    if request.basis == Basis::Create
        || state
            .footprint_in(&request.namespace, &request.uid)
            .is_some()
    {
        return None;
    }
    let pending = state.pending_of(&request.namespace, &request.uid);
    if let Some(pending) = pending {
        seen.resources.max(&pending.reservation.footprint.resources);
    }
    Some(seen)
}

/// Whether an object that was not observed grows is decided by the API server's word. If it does, all that it
/// needs of what grows is held, since nothing of it is counted yet.
fn grow_unseen(
    state: &State,
    now: Timestamp,
    by: &By,
    request: &FingerprintedRequest,
    seen: Footprint,
    holds: bool,
    policy: &Policy,
) -> Result<Admitted, Refusal> {
    let mut footprint = request.footprint.clone();
    if footprint.traits == seen.traits {
        let growth = footprint.resources.delta_over(&seen.resources);
        footprint
            .resources
            .retain(|name, _| growth.get(name).is_some_and(Quantity::is_positive));
    }
    let grows = if footprint.traits.is_plain() {
        let mut by_its_word = Case::of(state, by, request, Overlay::default());
        by_its_word.before = Some(Cow::Owned(seen));
        by_its_word.pending = None;
        let limits = by_its_word.limits(state);
        let charges = by_its_word.evaluate(state, &limits, now, policy)?;
        !charges.is_empty()
    } else {
        // What grows may have room in what is charged, but has to be held.
        let mut amounts = footprint.resources.iter();
        amounts.any(|(_, amount)| amount.is_positive())
    };
    if !grows {
        return Ok(Admitted::default());
    }
    let request = FingerprintedRequest::from(Request {
        footprint,
        before: None,
        ..Request::clone(request)
    });
    let case = Case::of(state, by, &request, Overlay::default());
    settle(state, now, case, holds, policy)
}

/// What a workload counts for with so many replicas, going by what is held for it or observed of it.
fn scaled(state: &State, request: &Request, replicas: u64) -> Option<Footprint> {
    match state.pending_of(&request.namespace, &request.uid) {
        Some(known) => known.reservation.footprint.scaled(replicas),
        None => state
            .footprint_in(&request.namespace, &request.uid)?
            .scaled(replicas),
    }
}

fn no_previous_version(state: &State, case: &Case<'_>, policy: &Policy) -> Refusal {
    let denial = Denial::NoPreviousVersion;
    let limits = case.limits(state);
    let (quotas, quotas_omitted) = explain::looked_at(&limits, &case.wanted(), policy.shown_max);
    Refusal::Denied(Box::new(Denied {
        detail: denial.to_string(),
        quotas,
        quotas_omitted,
        retry_after: None,
        fits_when_empty: case.fits_when_empty(state, policy),
        denial,
    }))
}

#[cfg(test)]
mod tests;
