//! A request in the context of the state: the amounts that it would hold beyond those that count already, and the
//! limits that apply.

use std::{borrow::Cow, sync::Arc};

use super::{
    Basis, Denied, Policy, Refusal, Request, Requester, awaited_versions,
    explain::{Detail, checked_quotas, detail},
};
use crate::{
    event::{Event, Reservation},
    size,
    state::{self, Counted, Holding, Overlay, Pending, State, Target, Tracked},
};
use quota_semantics::{
    Span, Timestamp,
    admission::{self, Attempt, Denial, GrownLimits, Limit, Operation},
    object::{EveryClass, Footprint, Traits},
    quota::LimitedResource,
    resource::ResourceList,
    uid::Uid,
};

/// A request in the context of the state.
pub(super) struct Case<'a> {
    pub(super) request: &'a Request,
    /// The footprint as it was requested, where `request.footprint` is what counts of it.
    pub(super) requested: &'a Arc<Footprint>,
    /// Pending reservations that this one supersedes when it is granted: those for the same name under other uids that
    /// the requester may change, and one for the same object that is not the same request.
    pub(super) superseded: Vec<(Uid, Pending)>,
    /// A pending reservation for the same name or object that another principal made.
    pub(super) not_owned: Option<Uid>,
    /// The observed footprint of the object, or else that of the object that bears its name.
    observed: Option<&'a Footprint>,
    /// Its pending reservation.
    pub(super) pending: Option<&'a Reservation>,
    /// The footprint already counted or held for this uid: the larger of the two.
    pub(super) before: Option<Cow<'a, Footprint>>,
    /// The footprint of the new reservation: the requested one, and no less than the one held.
    pub(super) target: Arc<Footprint>,
    /// The object that bears the name. A new reservation waits for its end.
    bearer: Option<Uid>,
    /// Whether another object bears the name of this one.
    pub(super) waits: bool,
    /// The number of pending reservations for the same name that are kept beside this one.
    pub(super) namesakes: usize,
    /// How many pending reservations the replaced ones count for, in the bounds.
    replaced: usize,
    /// The sums after the superseded reservations have ended.
    pub(super) overlay: Overlay,
}

/// Why a request is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Cause {
    /// It violates a rule.
    #[error("{0}")]
    Denial(Denial),
    /// It cannot be decided.
    #[error(transparent)]
    Refusal(#[from] Refusal),
}

/// An object that bears the name of the requested one.
pub(super) struct NameBearer<'a> {
    pub(super) bearer: Uid,
    pub(super) footprint: &'a Footprint,
}

impl<'a> Case<'a> {
    pub(super) fn of(
        state: &'a State,
        by: &Requester,
        request: &'a Request,
        overlay: Overlay,
    ) -> Self {
        let SameNameReservations { own, foreign } = namesakes(state, by, request, &overlay);
        let mut case = Self::taking_the_place_of(state, by, request, own, overlay);
        case.not_owned = case.not_owned.or(foreign);
        case
    }

    pub(super) fn taking_the_place_of(
        state: &'a State,
        by: &Requester,
        request: &'a Request,
        mut superseded: Vec<(Uid, Pending)>,
        mut overlay: Overlay,
    ) -> Self {
        let Request { uid, namespace, .. } = request;
        let (pending, foreign) = match state.find_pending(namespace, uid) {
            Some((place, pending)) if !by.may_change(&pending.owner) => {
                superseded.push((uid.clone(), Pending::Recorded(place)));
                (None, Some(uid.clone()))
            }
            pending => (pending.map(|(_, pending)| pending), None),
        };
        let mut replaced = pending.map_or(0, Tracked::count);
        let pending = pending.map(|pending| &*pending.reservation);
        for (_, pending) in &superseded {
            replaced += overlay.end(state, *pending);
        }
        let own = state.footprint_in(namespace, uid);
        let observed = own.or_else(|| Some(&**state.bearer_shared(pending?)?));
        let mut target = request.footprint.clone();
        let pending_footprint = pending.map(|pending| &*pending.footprint);
        for before in own.into_iter().chain(pending_footprint) {
            if !before.traits.is_plain() {
                target = Arc::new(Arc::unwrap_or_clone(target).following(before));
            }
        }
        if let Some(pending) = pending_footprint {
            Arc::make_mut(&mut target).resources.max(&pending.resources);
        }
        Self {
            request,
            requested: &request.footprint,
            superseded,
            not_owned: foreign,
            before: before(request, observed, pending_footprint),
            waits: own.is_none() && observed.is_some(),
            bearer: None,
            namesakes: 0,
            replaced,
            observed,
            pending,
            target,
            overlay,
        }
    }

    /// The case of an object that is to follow another one under the same name.
    pub(super) fn beside(self, NameBearer { bearer, footprint }: NameBearer<'a>) -> Self {
        Self {
            before: Some(Cow::Borrowed(footprint)),
            observed: Some(footprint),
            bearer: Some(bearer),
            waits: true,
            ..self
        }
    }

    /// The case with at least this footprint held.
    pub(super) fn no_less_than(mut self, held: &Footprint) -> Self {
        Arc::make_mut(&mut self.target).resources.max(&held.resources);
        self
    }

    /// Whether the requested footprint is already held.
    pub(super) fn holds_target(&self) -> bool {
        self.pending.is_some_and(|pending| pending.footprint == self.target)
    }

    /// The amounts to hold beyond those counted or held already.
    pub(super) fn wanted(&self) -> Cow<'_, ResourceList> {
        match &self.before {
            Some(before) => Cow::Owned(self.target.delta_over(before)),
            None => Cow::Borrowed(&self.target.resources),
        }
    }

    /// Whether the request is for a charged workload of which nothing is recorded yet.
    pub(super) fn is_new_workload(&self) -> bool {
        let is_workload = matches!(self.request.footprint.traits, Traits::Template { .. });
        is_workload && (self.before.is_none() || self.bearer.is_some())
    }

    /// Whether the request draws more from a workload's charge, or grows that charge. Both have to be held even if no
    /// limit grows: as long as there are more drawn than charged, charges are free.
    pub(super) fn draws(&self) -> bool {
        !self.target.traits.is_plain() && !self.wanted().without_zeros().is_empty()
    }

    /// The growth of each limit.
    ///
    /// # Errors
    /// The denial, with the details for the requester.
    pub(super) fn evaluate(
        &self,
        state: &State,
        limits: &[Counted<'_>],
        now: Timestamp,
        policy: &Policy,
    ) -> Result<GrownLimits<'_>, Refusal> {
        let denial = match self.decide(state, limits, policy) {
            Ok(grown) => return Ok(grown),
            Err(Cause::Refusal(refusal)) => return Err(refusal),
            Err(Cause::Denial(denial)) => denial,
        };
        let (quotas, quotas_omitted) = checked_quotas(limits, &self.wanted(), policy.shown_max);
        let Detail { text, reserved } =
            detail(state, now, self.request, limits, &denial, policy.search_max);
        Err(Refusal::Denied(Box::new(Denied {
            detail: text,
            reserved,
            quotas,
            quotas_omitted,
            retry_after: self.retry_after(state, policy, &denial),
            fits_when_empty: self.fits_when_empty(state, policy),
            denial,
        })))
    }

    /// The growth of each limit.
    ///
    /// # Errors
    /// Without what takes longer than the decision: texts and the search for room.
    pub(super) fn decide(
        &self,
        state: &State,
        limits: &[Counted<'_>],
        policy: &Policy,
    ) -> Result<GrownLimits<'_>, Cause> {
        self.refuse_move(state)?;
        let namespace = &self.request.namespace;
        if let Some(group) = state.undecided_group(namespace, &self.wanted()) {
            return Err(Cause::Refusal(Refusal::NotReady {
                namespace: namespace.clone(),
                group: group.clone(),
            }));
        }
        self.admitted(limits, policy).map_err(Cause::Denial)
    }

    /// The quotas of the namespace and the groups that count the object, in the order and numbering of
    /// [`Case::evaluate`].
    pub(super) fn limits<'s>(&'s self, state: &'s State) -> Vec<Counted<'s>> {
        self.limits_with(state, &self.overlay)
    }

    /// As [`Case::limits`], with the other changes of the decision.
    pub(super) fn limits_with<'s>(
        &'s self,
        state: &'s State,
        overlay: &'s Overlay,
    ) -> Vec<Counted<'s>> {
        let mut limits = state.counted(&self.request.namespace, &self.target, overlay);
        self.prepare(&mut limits);
        limits
    }

    /// Prepares the limits for the decision.
    pub(super) fn prepare(&self, limits: &mut [Counted<'_>]) {
        let pending = self.pending.map(|pending| &*pending.footprint);
        for limit in limits {
            limit.decide(&self.target, pending, self.observed);
        }
    }

    /// The limits that a new reservation counts against.
    pub(super) fn holding(&self, limits: &[Counted<'_>]) -> Holding {
        state::holding(limits, &self.target, self.observed)
    }

    pub(super) fn admitted(
        &self,
        limits: &[Counted<'_>],
        policy: &Policy,
    ) -> Result<GrownLimits<'_>, Denial> {
        let grown = self.evaluate_against(limits, &policy.limited)?;
        // Kubernetes looks at amounts only where a limit applies, and stores nothing otherwise. A reservation counts for
        // the limits to come.
        admission::refuse_negative(&self.target)?;
        if self.pending.is_some() && self.request.subresource != "status" {
            self.refuse_excess(limits)?;
        }
        self.refuse_unlimited(limits, policy)?;
        Ok(grown)
    }

    /// The growth of each of these limits.
    pub(super) fn evaluate_against<L: Limit>(
        &self,
        limits: &[L],
        limited: &[LimitedResource],
    ) -> Result<GrownLimits<'_>, Denial> {
        let request = self.request;
        let attempt = Attempt {
            kind: &request.resource,
            measured: request.object.is_none(),
            operation: match self.before {
                None => Operation::Create,
                Some(_) => Operation::Update,
            },
            subresource: &request.subresource,
            new: &self.target,
            old: self.before.as_deref(),
            old_has_version: true,
            requirements: &|required| request.object.as_ref()?.missing_requirements(required),
            context: &EveryClass,
        };
        admission::evaluate(limits, &attempt, limited)
    }

    /// Refuses a request whose observed and reserved footprints belong to different quotas and would exceed one of
    /// them: such a quota has to bear more than the growth of the object.
    fn refuse_excess(&self, limits: &[Counted<'_>]) -> Result<(), Denial> {
        for limit in limits {
            admission::refuse_excess(limit, &self.more_of(limit))?;
        }
        Ok(())
    }

    /// Whether a limit has to hold more than the pending reservation holds.
    pub(super) fn holds_more(&self, limits: &[Counted<'_>]) -> bool {
        let holds_more = |limit: &Counted<'_>| {
            let more = self.more_of(limit);
            more.common(limit.hard()).next().is_some()
        };
        self.pending.is_some() && limits.iter().any(holds_more)
    }

    /// Whether an amount of the request does not count yet, so that a reservation has to hold it.
    pub(super) fn relies_on_pending(&self, limits: &[Counted<'_>]) -> bool {
        let Request { footprint, before, .. } = self.request;
        limits.iter().any(|limit| {
            limit.is_taken_by(footprint, self.observed)
                || limit.is_taken_by(footprint, before.as_deref())
        })
    }

    /// The amounts of a limit that the request takes beyond those of the pending reservation; no zeros.
    pub(super) fn more_of<'l>(&self, limit: &'l Counted<'_>) -> Cow<'l, ResourceList> {
        if let Some(growth) = limit.own_growth() {
            return Cow::Borrowed(growth);
        }
        let hold = |footprint| limit.hold(footprint, self.observed).unwrap_or_default();
        let before = self.pending.map(|pending| hold(&pending.footprint));
        let more = hold(&self.target).delta_over(&before.unwrap_or_default());
        Cow::Owned(more.without_zeros())
    }

    /// Refuses to move an object to other quotas or groups while an earlier version of it is held and not observed: either
    /// version may be the stored one, and a reservation has the traits and labels of one only.
    fn refuse_move(&self, state: &State) -> Result<(), Refusal> {
        let Some(Reservation { footprint: held, .. }) = self.pending else {
            return Ok(());
        };
        if held.is_like(&self.target) {
            return Ok(());
        }
        let limits = state.counted(&self.request.namespace, held, &self.overlay);
        // The observed version does not matter: the next one to be observed may be smaller.
        let loses = |limit: &&Counted<'_>| {
            limit.is_enforced() && limit.is_taken_by(held, None) && !limit.counts(&self.target)
        };
        let Some(limit) = limits.iter().find(loses) else {
            return Ok(());
        };
        Err(Refusal::Moved {
            uid: self.request.uid.clone(),
            limit: limit.name().clone(),
            kind: limit.kind(),
        })
    }

    /// Whether the reservation counts for more against the bounds on pending ones than those that it replaces.
    fn counts_for_more(&self) -> bool {
        // Each counts as one at least.
        if self.replaced == 0 {
            return true;
        }
        let kept = match self.pending {
            Some(pending) => Some(pending.requested_footprint()),
            None => self.kept(),
        };
        let kept = kept.map(|kept| &**kept);
        size::count_of_bytes(size::of_reserved(&self.target, kept)) > self.replaced
    }

    /// The footprint that a new reservation keeps beside its own; see [`Request::kept`].
    fn kept(&self) -> Option<&Arc<Footprint>> {
        self.request.kept(self.requested, &self.target)
    }

    /// The events that grant the request, if there may be more pending reservations: also of this principal, if one is
    /// given.
    pub(super) fn grant(
        &self,
        state: &State,
        now: Timestamp,
        ttl: Span,
        policy: &Policy,
        limited: Option<&Requester>,
    ) -> Result<Vec<Event>, Refusal> {
        let request = self.request;
        if self.counts_for_more() {
            let namespace = &request.namespace;
            let more = self.overlay.more_pending();
            let total = state.counted_pending().saturating_add_signed(more);
            let by = limited.filter(|by| !by.is_anybody);
            let most = policy.max_pending_per_principal;
            // No principal and no namespace has more than all.
            if let Some(by) = by.filter(|_| total >= most) {
                let own = state.counted_pending_of(&by.principal);
                let key = "reservations.max_pending_per_principal";
                within(own.saturating_add_signed(more), most, key)?;
            }
            within(total, policy.max_pending, "reservations.max_pending")?;
            let most = policy.max_pending_per_namespace;
            if total >= most {
                let here = state.counted_pending_in(namespace);
                let key = "reservations.max_pending_per_namespace";
                let more = self.overlay.more_pending_in(namespace);
                within(here.saturating_add_signed(more), most, key)?;
            }
        }
        if let Some(pending) = self.pending {
            let grown = Event::ReservationGrown {
                uid: request.uid.clone(),
                namespace: request.namespace.clone(),
                footprint: self.target.clone(),
                expiration: now.plus(ttl).max(pending.expiration),
            };
            let awaited = awaited_versions::awaited(request, pending);
            return Ok([grown].into_iter().chain(awaited).collect());
        }
        if self.superseded.is_empty() {
            within(self.namesakes, NAMESAKES_MAX, "the bound for one name")?;
        }
        let granted = request.reservation(self.target.clone(), self.kept(), now, ttl);
        let mut events = Vec::with_capacity(self.superseded.len() + 2);
        for (uid, _) in &self.superseded {
            events.push(Event::ReservationSuperseded {
                uid: uid.clone(),
                namespace: request.namespace.clone(),
                by: request.uid.clone(),
            });
        }
        events.push(Event::ReservationGranted(Arc::new(granted)));
        if let Some(bearer) = &self.bearer {
            events.push(Event::NameAwaited {
                uid: request.uid.clone(),
                namespace: request.namespace.clone(),
                bearer: bearer.clone(),
            });
        }
        Ok(events)
    }
}

/// Most pending reservations for one name, none of which can replace another: each request for the name looks at all.
const NAMESAKES_MAX: usize = 16;

fn within(pending: usize, limit: usize, key: &'static str) -> Result<(), Refusal> {
    if pending < limit {
        return Ok(());
    }
    Err(Refusal::TooManyPending { limit: key, pending })
}

/// Pending reservations for the same name by other uids.
#[derive(Default)]
pub(super) struct SameNameReservations {
    /// Those that the requester may change.
    pub(super) own: Vec<(Uid, Pending)>,
    /// The last of the others.
    foreign: Option<Uid>,
}

pub(super) fn namesakes(
    state: &State,
    by: &Requester,
    request: &Request,
    overlay: &Overlay,
) -> SameNameReservations {
    let mut namesakes = SameNameReservations::default();
    if request.name.is_empty() || request.basis != Basis::Create {
        return namesakes;
    }
    let resource = request.resource.name();
    let (namespace, name) = (&request.namespace, &request.name);
    let target = Target { namespace, resource: &resource, name };
    overlay.each_pending_for(state, target, |uid, owner, pending| {
        match owner.is_none_or(|owner| by.may_change(owner)) {
            _ if *uid == request.uid => {}
            true => namesakes.own.push((uid.clone(), pending)),
            false => namesakes.foreign = namesakes.foreign.take().max(Some(uid.clone())),
        }
    });
    namesakes.own.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    namesakes
}

fn before<'a>(
    request: &'a Request,
    observed: Option<&'a Footprint>,
    pending: Option<&'a Footprint>,
) -> Option<Cow<'a, Footprint>> {
    match (observed, pending) {
        (Some(observed), Some(pending)) => {
            let mut before = pending.clone();
            before.resources.max(&observed.resources);
            Some(Cow::Owned(before))
        }
        (None, None) => request.before.as_deref().map(Cow::Borrowed),
        (observed, pending) => observed.or(pending).map(Cow::Borrowed),
    }
}
