//! Whether and when there can be room for a denied request.

use super::{Policy, case::Case, explain::EXPLAINED_MAX};
use crate::state::{Counted, State};
use quota_semantics::{
    Timestamp,
    admission::{self, Attempt, Denial, Operation},
    object::EveryClass,
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
        self.decide(&mut limits);
        self.admitted(&limits, policy).ok()?;
        let requested = self.request.footprint.resources.len();
        let mut overlay = self.overlay.clone();
        let mut work = policy.search_max;
        for pending in soonest {
            let is_own = pending.namespace == *namespace;
            if is_own && self.superseded.contains(&pending.uid) {
                continue;
            }
            let amounts = PER_STEP + requested + pending.footprint.resources.len();
            work = work.checked_sub(limits.len() * amounts)?;
            let copied = overlay.copied();
            overlay.end(state, &pending.namespace, &pending.uid);
            work = work.checked_sub(overlay.copied() - copied)?;
            let limits = self.limits_with(state, &overlay);
            if self.admitted(&limits, policy).is_ok() {
                return Some(pending.expiration);
            }
        }
        None
    }
}
