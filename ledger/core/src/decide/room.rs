//! Whether and when there can be room for a denied request, and for how many of equal ones there is.

use std::sync::Arc;

use super::{Policy, Refusal, Request, Requester, case::Case, check, explain::EXPLAINED_MAX};
use crate::state::{Counted, Overlay, Pending, State};
use quota_semantics::{
    Timestamp,
    admission::{self, Attempt, Denial, Operation},
    object::{EveryClass, Footprint},
};

/// The cost of checking a quota once more besides its amounts, in amounts.
const PER_STEP: usize = 8;

impl Case<'_> {
    /// Whether the whole object would be admitted if nothing else counted.
    pub(super) fn fits_when_empty(&self, state: &State, policy: &Policy) -> bool {
        let request = self.request;
        let attempt = Attempt {
            kind: &request.resource,
            measured: request.object.is_none(),
            operation: Operation::Create,
            subresource: "",
            new: &request.footprint,
            old: None,
            old_has_version: true,
            requirements: &|required| request.object.as_ref()?.missing_requirements(required),
            context: &EveryClass,
        };
        let limits = self.limits(state).into_iter();
        let limits: Vec<_> = limits.map(Counted::without_others).collect();
        admission::evaluate(&limits, &attempt, &policy.limited).is_ok()
            && self.refuse_unlimited(&limits, policy).is_ok()
    }

    /// The time when enough pending reservations will have expired, if that alone makes room.
    pub(super) fn retry_after(
        &self,
        state: &State,
        policy: &Policy,
        denial: &Denial,
    ) -> Option<Timestamp> {
        if !matches!(denial, Denial::ExceedsHard { .. }) {
            return None;
        }
        let namespace = &self.request.namespace;
        let soonest = state.soonest_for(namespace, EXPLAINED_MAX)?;
        // For most denials this shows that no expiration helps.
        let limits = self.limits(state).into_iter();
        let mut limits: Vec<_> = limits.map(Counted::without_reservations).collect();
        self.prepare(&mut limits);
        self.admitted(&limits, policy).ok()?;
        let requested = self.request.footprint.resources.len();
        let mut overlay = self.overlay.clone();
        let mut work = policy.search_max;
        for (place, pending) in soonest {
            let copied = overlay.copied();
            if overlay.end(state, Pending::Recorded(place)) == 0 {
                continue;
            }
            let amounts = PER_STEP + requested + pending.footprint.resources.len();
            work = work.checked_sub(limits.len() * amounts + overlay.copied() - copied)?;
            let limits = self.limits_with(state, &overlay);
            if self.admitted(&limits, policy).is_ok() {
                return Some(pending.expiration);
            }
        }
        None
    }
}

/// How many equal objects fit.
#[derive(Clone, Debug)]
pub struct Fitting {
    /// The number of objects that would be admitted together.
    pub fit: u64,
    /// Why not all of them would be; none: they would.
    pub refusal: Option<Refusal>,
}

/// How many of `most` objects like that of a request would be admitted together, without reserving.
#[must_use]
pub fn fitting(
    state: &State,
    now: Timestamp,
    by: &Requester,
    request: &Request,
    most: u64,
    policy: &Policy,
) -> Fitting {
    let request = &*request.counted(state);
    let many = |count| times(request, count);
    let Err(refusal) = check(state, now, by, &many(most), policy) else {
        return Fitting { fit: most, refusal: None };
    };
    let fits = |count| {
        let request = many(count);
        let case = Case::of(state, by, &request, Overlay::default());
        case.admitted(&case.limits(state), policy).is_ok()
    };
    // At least `fit` objects fit, and not `over`.
    let (mut fit, mut over) = (0, most);
    if !matches!(refusal, Refusal::Denied(_)) {
        over = 1;
    }
    while over - fit > 1 {
        let middle = fit + (over - fit) / 2;
        match fits(middle) {
            true => fit = middle,
            false => over = middle,
        }
    }
    Fitting { fit, refusal: Some(refusal) }
}

/// A request for this many objects at once.
fn times(request: &Request, count: u64) -> Request {
    let amounts = request.footprint.resources.iter();
    Request {
        footprint: Arc::new(Footprint {
            resources: amounts.map(|(name, amount)| (name.clone(), amount.times(count))).collect(),
            ..Footprint::clone(&request.footprint)
        }),
        ..request.clone()
    }
}
