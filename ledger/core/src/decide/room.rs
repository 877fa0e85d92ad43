//! When, and whether at all, there can be room for what was denied.

use super::{Policy, explain::EXPLAINED_MAX, reserve::Case};
use crate::state::{Counted, State};
use quota_semantics::{
    Name, Timestamp,
    admission::{self, Attempt, Denial, Limit, Operation},
    object::EveryClass,
    quantity::Quantity,
    quota::spec::Spec,
    resource::ResourceList,
};

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
        let limits = self.limits(state);
        let empty: Vec<Empty<'_>> = limits.iter().map(Empty).collect();
        admission::evaluate(&empty, &attempt, &policy.limited).is_ok()
    }

    /// When enough pending reservations have expired, if that alone makes room.
    pub(super) fn retry_after(
        &self,
        state: &State,
        policy: &Policy,
        denial: &Denial,
    ) -> Option<Timestamp> {
        if !matches!(denial, Denial::ExceedsHard { .. }) {
            return None;
        }
        if state.pending_count_in(&self.request.namespace) > EXPLAINED_MAX {
            return None;
        }
        let pending = state.pending(&self.request.namespace);
        let pending: Vec<_> = pending
            .iter()
            .filter(|view| Some(&view.reservation.uid) != self.superseded.as_ref())
            .collect();
        let fits_without = |ended: usize| {
            let mut overlay = self.overlay.clone();
            for view in &pending[..ended] {
                overlay.end(state, &view.reservation.uid);
            }
            let limits = state.counted(&self.request.namespace, &overlay);
            self.admitted(&limits, policy).is_ok()
        };
        // Ever more room: the first number of expiries that is enough can be found by halving.
        let ends: Vec<usize> = (1..=pending.len()).collect();
        let enough = ends.partition_point(|&ended| !fits_without(ended));
        pending.get(enough).map(|view| view.reservation.expiration)
    }
}

/// A quota that nothing counts against.
struct Empty<'a>(&'a Counted<'a>);

impl Limit for Empty<'_> {
    fn name(&self) -> &Name {
        self.0.name()
    }
    fn spec(&self) -> &Spec {
        self.0.spec()
    }
    fn hard(&self) -> &ResourceList {
        self.0.hard()
    }
    fn counted(&self, _: &str) -> Option<Quantity> {
        Some(Quantity::ZERO)
    }
}
