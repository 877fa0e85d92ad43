//! Decides a recorded grant again, in another state: under other limits, or to verify that the same decision follows.
//!
//! An entry holds what a decision depends on, except for the object itself and the settings of the daemon. So what these
//! alone would refuse is not refused again: amounts that containers do not specify, resources that nothing limits, and
//! too many pending reservations.

use std::sync::{Arc, LazyLock};

use super::{
    Basis, Policy, Refusal, Request, Requester, Unlimited,
    case::{Case, Cause, NameBearer},
};
use crate::{
    event::{Entry, Event, Reservation},
    state::{Counted, Overlay, State},
};
use quota_semantics::{
    Name,
    admission::{Denial, GrownLimits, Limit, LimitKind},
    object::{Footprint, GroupResource},
    quantity::Quantity,
    quota::spec::Spec,
    resource::ResourceList,
    uid::Uid,
};

/// A request of the past.
#[derive(Clone, Debug)]
pub(crate) struct PastRequest {
    request: Request,
    by: Requester,
    /// The object whose name a new object takes over.
    bearer: Option<Uid>,
    /// Whether the capacity of a volume claim may be what the request reported as a fact.
    may_be_status: bool,
}

/// What a request needs of a quota or group that decides about it: one amount.
#[derive(Debug)]
pub(crate) struct Need<'a> {
    /// Whether it is a quota or a group.
    pub(crate) kind: LimitKind,
    /// Its name.
    pub(crate) limit: &'a Name,
    /// Whether it counts only the namespace of the request.
    pub(crate) is_own: bool,
    /// The resource.
    pub(crate) resource: &'a Name,
    /// The amount that counts against the limit once the request is granted.
    pub(crate) total: Quantity,
    /// Whether the limit refuses that.
    pub(crate) is_refused: bool,
}

/// A resource, its growth, and its limit.
type Grown<'a> = (&'a Name, &'a Quantity, &'a Quantity);

/// A past to decide in.
#[derive(Clone, Copy)]
pub(crate) struct Past<'s> {
    /// The state with its objects and reservations.
    pub(crate) facts: &'s State,
    /// The state with its limits.
    pub(crate) limits: &'s State,
}

impl<'s> From<&'s State> for Past<'s> {
    fn from(state: &'s State) -> Self {
        Self { facts: state, limits: state }
    }
}

/// Which limits decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deciding {
    /// All.
    All,
    /// Only those that count one namespace alone.
    Own,
    /// Only groups that count several namespaces together.
    Shared,
}

impl Deciding {
    fn retain(self, limits: &mut Vec<Counted<'_>>) {
        match self {
            Self::All => {}
            Self::Own => limits.retain(|limit| limit.shared().is_none()),
            Self::Shared => limits.retain(|limit| limit.shared().is_some()),
        }
    }
}

impl PastRequest {
    /// The request behind an entry that grants or raises a reservation; none: it is another entry. `state` is the one in
    /// which it was decided; `next`: the entry behind it.
    pub(crate) fn of(entry: &Entry, next: Option<&Event>, state: &State) -> Option<Self> {
        let (reservation, footprint, grows) = match &entry.event {
            Event::ReservationGranted(reservation) => {
                (&**reservation, &reservation.footprint, false)
            }
            Event::ReservationGrown { uid, namespace, footprint, .. } => {
                let pending = state.pending_of(namespace, uid)?;
                (&*pending.reservation, footprint, true)
            }
            _ => return None,
        };
        let observed = state.footprint_in(&reservation.namespace, &reservation.uid);
        let is_update = grows || reservation.after_version > 0 || observed.is_some();
        Some(Self {
            bearer: bearer(reservation, next, state).filter(|_| !grows),
            may_be_status: is_update && reservation.resource == *"persistentvolumeclaims",
            by: requester(&entry.actor.principal),
            request: request(reservation, footprint),
        })
    }

    /// A request that was denied: for these amounts of an object without traits.
    pub(crate) fn denied(request: Request, by: &Name) -> Self {
        Self { request, by: requester(by), bearer: None, may_be_status: false }
    }

    /// The object: its namespace and uid.
    pub(crate) fn key(&self) -> (&Name, &Uid) {
        (&self.request.namespace, &self.request.uid)
    }

    /// The reservation as the entry leaves it.
    pub(crate) fn reservation(&self, entry: &Entry, state: &State) -> Option<Arc<Reservation>> {
        if let Event::ReservationGranted(reservation) = &entry.event {
            return Some(reservation.clone());
        }
        let pending = state.pending_of(&self.request.namespace, &self.request.uid)?;
        Some(Arc::new(Reservation {
            footprint: self.request.footprint.clone(),
            ..(*pending.reservation).clone()
        }))
    }

    /// Decides under the limits of a state.
    ///
    /// # Errors
    /// As [`super::reserve`], without the text.
    pub(crate) fn decide(&self, past: Past<'_>, deciding: Deciding) -> Result<(), Cause> {
        let case = self.case(past.facts, &self.request);
        let mut limits = case.limits(past.limits);
        deciding.retain(&mut limits);
        let decided = case.decide(past.limits, &limits, &NEUTRAL);
        decided.map(|_| ()).or_else(|cause| self.excuse(past, deciding, cause))
    }

    /// Decides, and hands over what the request needs of each limit, whether or not there is room: only what grows.
    ///
    /// # Errors
    /// As [`Self::decide`].
    pub(crate) fn judge(
        &self,
        past: Past<'_>,
        deciding: Deciding,
        need: impl FnMut(Need<'_>),
    ) -> Result<(), Cause> {
        let case = self.case(past.facts, &self.request);
        let mut limits = case.limits(past.limits);
        deciding.retain(&mut limits);
        let (grown, decided) = match case.decide(past.limits, &limits, &NEUTRAL) {
            Ok(grown) => (grown, Ok(())),
            Err(cause) => (unrefused(&case, &limits), self.excuse(past, deciding, cause)),
        };
        self.report(&case, &limits, &grown, need);
        decided
    }

    /// Hands over what the request needs of some limits, as [`Self::judge`] does, without a decision.
    pub(crate) fn needs(
        &self,
        past: Past<'_>,
        deciding: Deciding,
        of: impl Fn(LimitKind, &Name) -> bool,
        need: impl FnMut(Need<'_>),
    ) {
        let case = self.case(past.facts, &self.request);
        let mut limits = case.limits(past.limits);
        deciding.retain(&mut limits);
        limits.retain(|limit| of(limit.kind(), limit.name()));
        self.report(&case, &limits, &unrefused(&case, &limits), need);
    }

    fn report(
        &self,
        case: &Case<'_>,
        limits: &[Counted<'_>],
        grown: &GrownLimits<'_>,
        mut need: impl FnMut(Need<'_>),
    ) {
        let mut report = |limit: &Counted<'_>, (resource, growth, hard): Grown<'_>| {
            let mut total = limit.counted(resource).unwrap_or_default();
            total.add_assign(growth);
            need(Need {
                kind: limit.kind(),
                limit: limit.name(),
                is_own: limit.shared().is_none(),
                resource,
                is_refused: limit.is_enforced() && total > *hard && !self.may_be_status,
                total,
            });
        };
        for (place, growth) in grown.iter(limits) {
            growth.for_each(|name| report(&limits[place], name));
        }
        if case.pending.is_some() {
            // A reservation that moves to other limits takes more of them than its object grows by.
            for limit in limits {
                let more = case.more_of(limit);
                more.common(limit.hard()).for_each(|grown| report(limit, grown));
            }
        }
    }

    /// A status states what is there already: it is not refused. Its entry is that of any other update.
    fn excuse(&self, past: Past<'_>, deciding: Deciding, cause: Cause) -> Result<(), Cause> {
        match self.may_be_status {
            true => self.decide_status(past, deciding),
            false => Err(cause),
        }
    }

    fn decide_status(&self, past: Past<'_>, deciding: Deciding) -> Result<(), Cause> {
        let status = Request { subresource: "status".into(), ..self.request.clone() };
        let case = self.case(past.facts, &status);
        let mut limits = case.limits(past.limits);
        deciding.retain(&mut limits);
        case.decide(past.limits, &limits, &NEUTRAL).map(|_| ())
    }

    fn case<'a>(&'a self, state: &'a State, request: &'a Request) -> Case<'a> {
        // What the grant superseded has ended in entries of its own.
        let case =
            Case::taking_the_place_of(state, &self.by, request, Vec::new(), Overlay::default());
        let bearer = self.bearer.as_ref().and_then(|bearer| {
            let footprint = state.footprint_in(&self.request.namespace, bearer)?;
            Some(NameBearer { bearer: bearer.clone(), footprint })
        });
        match bearer.filter(|_| case.before.is_none()) {
            Some(bearer) => case.beside(bearer),
            None => case,
        }
    }
}

/// The quota or group that refuses, if it is known.
pub(crate) fn refused_by(cause: &Cause) -> Option<(LimitKind, &Name)> {
    match cause {
        Cause::Denial(
            Denial::ExceedsHard { quota, .. }
            | Denial::MustSpecify { quota, .. }
            | Denial::StatusUnknown { quota, .. }
            | Denial::BrokenSelector { quota, .. },
        ) => Some((LimitKind::ResourceQuota, quota)),
        Cause::Refusal(Refusal::NotReady { group, .. }) => {
            Some((LimitKind::ClusterResourceQuota, group))
        }
        Cause::Refusal(Refusal::Moved { limit, kind, .. }) => Some((*kind, limit)),
        _ => None,
    }
}

/// The object that bore the name of a new one when its reservation was granted: the next entry names it.
fn bearer(reservation: &Reservation, next: Option<&Event>, state: &State) -> Option<Uid> {
    let Some(Event::NameAwaited { uid, namespace, bearer }) = next else {
        return None;
    };
    let is_about = *uid == reservation.uid && *namespace == reservation.namespace;
    // A reservation that waits for an object that is observed only now has not been decided beside it.
    let exists = state.footprint_in(namespace, bearer).is_some();
    (is_about && exists).then(|| bearer.clone())
}

fn request(reservation: &Reservation, footprint: &Arc<Footprint>) -> Request {
    let kind = reservation.resource.as_str();
    let (resource, group) = kind.split_once('.').unwrap_or((kind, ""));
    Request {
        uid: reservation.uid.clone(),
        namespace: reservation.namespace.clone(),
        resource: GroupResource::new(group, resource),
        name: reservation.name.clone(),
        api_version: reservation.api_version.clone(),
        kind: reservation.kind.clone(),
        basis: match reservation.after_version {
            0 => Basis::Create,
            version => Basis::Update { version },
        },
        subresource: Name::default(),
        footprint: footprint.clone(),
        before: None,
        object: None,
        ttl: None,
    }
}

/// Whoever was granted a reservation had the right to it.
fn requester(principal: &Name) -> Requester {
    Requester { is_admin: true, ..Requester::holder(principal.clone()) }
}

/// Settings by which nothing is refused that the limits of the ledger allow.
static NEUTRAL: LazyLock<Policy> = LazyLock::new(|| Policy {
    search_max: 0,
    shown_max: 0,
    limited: Vec::new(),
    unlimited: Unlimited::Allow,
    ..Policy::default()
});

/// The growth of each limit, whether or not there is room.
fn unrefused<'c>(case: &'c Case<'_>, limits: &[Counted<'_>]) -> GrownLimits<'c> {
    let open: Vec<Open<'_, '_>> = limits.iter().map(Open).collect();
    // Without a limit that is enforced, nothing refuses but negative amounts, which nobody was granted.
    case.evaluate_against(&open, &[]).unwrap_or_default()
}

/// A limit that refuses nothing.
struct Open<'l, 's>(&'l Counted<'s>);

impl Limit for Open<'_, '_> {
    fn name(&self) -> &Name {
        self.0.name()
    }
    fn spec(&self) -> &Spec {
        self.0.spec()
    }
    fn hard(&self) -> &ResourceList {
        self.0.hard()
    }
    fn selects(&self, footprint: &Footprint) -> bool {
        self.0.selects(footprint)
    }
    fn is_enforced(&self) -> bool {
        false
    }
    fn counted(&self, name: &Name) -> Option<Quantity> {
        self.0.counted(name)
    }
    fn growth<'a>(&'a self, amounts: &'a ResourceList) -> &'a ResourceList {
        self.0.growth(amounts)
    }
}
