//! Granting reservations.

use crate::planted::{self, Bug};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::{
    Denied, LookedAt, Policy, Refusal,
    explain::{detail, looked_at},
};
use crate::{
    Name, Span, Timestamp,
    admission::{self, Attempt, Charge, Denial, Operation},
    codec::{Wire, Writer},
    event::{Event, Reservation},
    object::{EveryClass, Footprint, GroupResource, Object, Traits},
    resource::ResourceList,
    state::{Counted, Overlay, ReservationView, State},
    uid::Uid,
};

/// What a reservation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// The object is to be created.
    Create,
    /// The object is to be changed from this version: the reservation ends when a later one is observed.
    Update {
        /// The version that the change is made to; 0: not known.
        version: u64,
    },
}

/// A wish for capacity.
#[derive(Clone, Debug)]
pub struct Request {
    /// The object that it is for.
    pub uid: Uid,
    /// Its namespace.
    pub namespace: Name,
    /// Its group and resource.
    pub resource: GroupResource,
    /// Its name; empty: not known.
    pub name: Box<str>,
    /// Its apiVersion, as the caller gave it.
    pub api_version: Name,
    /// Its kind, as the caller gave it.
    pub kind: Name,
    /// Create or update.
    pub basis: Basis,
    /// The subresource through which it comes, as in `resize`; empty: none.
    pub subresource: Name,
    /// What the object will count for.
    pub footprint: Footprint,
    /// What it counted for before, as the caller saw it; only for updates of objects not observed yet.
    pub before: Option<Footprint>,
    /// The object, to be asked what its containers specify; none: nothing is required of it.
    pub object: Option<Arc<Object>>,
    /// How long to hold; none: the configured default.
    pub ttl: Option<Span>,
}

/// What came of a wish.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// What is to be written.
    pub events: Vec<Event>,
    /// The same wish was granted before.
    pub replayed: bool,
}

impl Request {
    /// Digest of what is asked. A repeated request has the same.
    fn digest(&self) -> [u8; 16] {
        let mut writer = Writer::default();
        self.namespace.put(&mut writer);
        self.api_version.put(&mut writer);
        self.kind.put(&mut writer);
        self.name.put(&mut writer);
        self.footprint.put(&mut writer);
        self.ttl.map(Span::nanoseconds).put(&mut writer);
        if let Basis::Update { version } = self.basis {
            version.put(&mut writer);
        }
        let hash = blake3::hash(&writer.finish());
        let mut digest = [0; 16];
        digest.copy_from_slice(&hash.as_bytes()[..16]);
        digest
    }

    fn reservation(&self, footprint: Footprint, now: Timestamp, ttl: Span) -> Reservation {
        Reservation {
            uid: self.uid.clone(),
            namespace: self.namespace.clone(),
            resource: Name::from(self.resource.to_string()),
            name: self.name.clone(),
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            footprint,
            created: now,
            expiration: now.plus(ttl),
            after_version: match self.basis {
                Basis::Create => 0,
                Basis::Update { version } => version,
            },
            request: self.digest(),
        }
    }
}

/// Grants a wish, or says why not.
///
/// Granted if for every quota that applies `used + reserved + request <= hard`. The same wish again gets the same
/// answer. A pending reservation for the same name by another uid is superseded. A wish for an object that is
/// known already reserves what it grows.
///
/// # Errors
/// `Denied`, `UidReused`, `TooManyPending`, `InvalidTtl`.
pub fn reserve(
    state: &State,
    now: Timestamp,
    request: &Request,
    policy: &Policy,
) -> Result<Reserved, Refusal> {
    decide(state, now, request, policy, &mut Overlay::default())
}

/// Grants all wishes or none.
///
/// # Errors
/// The index of the first wish that cannot be granted, given those before it, and why.
pub fn reserve_all(
    state: &State,
    now: Timestamp,
    requests: &[Request],
    policy: &Policy,
) -> Result<Vec<Reserved>, (usize, Refusal)> {
    let mut overlay = Overlay::default();
    let mut seen = BTreeSet::new();
    let mut all = Vec::with_capacity(requests.len());
    for (index, request) in requests.iter().enumerate() {
        if !seen.insert(&request.uid) {
            return Err((index, Refusal::UidReused(request.uid.clone())));
        }
        if planted::is(Bug::BatchBlind) {
            overlay = Overlay::default();
        }
        let reserved = decide(state, now, request, policy, &mut overlay);
        all.push(reserved.map_err(|refusal| (index, refusal))?);
    }
    Ok(all)
}

/// What every quota would say, without reserving.
///
/// # Errors
/// `Denied`.
pub fn check(
    state: &State,
    now: Timestamp,
    request: &Request,
    policy: &Policy,
) -> Result<Vec<LookedAt>, Refusal> {
    let case = Case::of(state, request, Overlay::default());
    case.evaluate(state, now, policy)?;
    Ok(looked_at(
        &state.counted(&request.namespace, &case.overlay),
        &case.wanted(),
    ))
}

fn decide(
    state: &State,
    now: Timestamp,
    request: &Request,
    policy: &Policy,
    overlay: &mut Overlay,
) -> Result<Reserved, Refusal> {
    if granted_before(state, request)?.is_some() {
        return Ok(Reserved {
            events: Vec::new(),
            replayed: true,
        });
    }
    let ttl = request.ttl.unwrap_or(policy.default_ttl);
    if ttl <= Span::ZERO || ttl > policy.max_ttl {
        return Err(Refusal::InvalidTtl {
            max: policy.max_ttl,
        });
    }
    // What cannot be granted ends the batch: nobody looks at the overlay then.
    let case = Case::of(state, request, std::mem::take(overlay));
    case.evaluate(state, now, policy)?;
    let events = case.grant(state, now, ttl, policy, overlay)?;
    Ok(Reserved {
        events,
        replayed: false,
    })
}

/// The reservation that was granted for the same wish before. For an update only while it is pending: the same
/// change can be made again later.
pub(super) fn granted_before(
    state: &State,
    request: &Request,
) -> Result<Option<ReservationView>, Refusal> {
    let known = state.reservation(&request.uid);
    let Some(known) = known.filter(|_| !planted::is(Bug::NoIdempotency)) else {
        return Ok(None);
    };
    let creates = request.basis == Basis::Create;
    if known.reservation.request == request.digest() {
        return Ok(Some(known).filter(|known| creates || known.end.is_none()));
    }
    if creates || known.reservation.namespace != request.namespace {
        return Err(Refusal::UidReused(request.uid.clone()));
    }
    Ok(None)
}

/// A wish as the state sees it.
pub(super) struct Case<'a> {
    pub(super) request: &'a Request,
    /// The pending reservation of another uid for the same name: granted, it ends.
    pub(super) superseded: Option<Uid>,
    /// What the object counts for as it is observed.
    observed: Option<Footprint>,
    /// What its pending reservation is for.
    pub(super) pending: Option<Footprint>,
    /// What is counted or held for this uid already: the larger of the two.
    pub(super) before: Option<Footprint>,
    /// What a reservation would be for: what is asked for, and no less than what is held.
    target: Cow<'a, Footprint>,
    /// The sums as they are once the superseded reservation has ended.
    pub(super) overlay: Overlay,
}

impl<'a> Case<'a> {
    pub(super) fn of(state: &State, request: &'a Request, mut overlay: Overlay) -> Self {
        let superseded = superseded(state, request, &overlay);
        if let Some(uid) = &superseded {
            overlay.end(state, uid);
        }
        let observed = state.footprint_in(&request.namespace, &request.uid);
        let observed = observed.cloned();
        let pending = state.reservation(&request.uid);
        let pending = pending.filter(|known| known.end.is_none());
        let pending = pending.map(|known| known.reservation.footprint.clone());
        let mut target = Cow::Borrowed(&request.footprint);
        if let Some(pending) = &pending {
            target.to_mut().resources.max(&pending.resources);
        }
        Self {
            request,
            superseded,
            before: before(request, observed.as_ref(), pending.as_ref()),
            observed,
            pending,
            target,
            overlay,
        }
    }

    /// What would be held beside what is counted or held already.
    pub(super) fn wanted(&self) -> ResourceList {
        match &self.before {
            Some(before) => self.target.resources.delta_over(&before.resources),
            None => self.target.resources.clone(),
        }
    }

    /// Whether it is about a charged workload that nothing is known of yet.
    pub(super) fn is_new_workload(&self) -> bool {
        let is_workload = matches!(self.request.footprint.traits, Traits::Template { .. });
        is_workload && self.before.is_none()
    }

    /// What each quota of the namespace would be charged.
    pub(super) fn evaluate(
        &self,
        state: &State,
        now: Timestamp,
        policy: &Policy,
    ) -> Result<Vec<Charge>, Refusal> {
        let limits = self.limits(state);
        let denial = match self.admitted(&limits, policy) {
            Ok(charges) => return Ok(charges),
            Err(denial) => denial,
        };
        Err(Refusal::Denied(Box::new(Denied {
            detail: detail(state, now, self.request, &limits, &denial),
            quotas: looked_at(&limits, &self.wanted()),
            retry_after: self.retry_after(state, policy, &denial),
            fits_when_empty: self.fits_when_empty(state, policy),
            denial,
        })))
    }

    /// The quotas of the namespace, as [`Case::evaluate`] numbers them.
    pub(super) fn limits<'s>(&'s self, state: &'s State) -> Vec<Counted<'s>> {
        state.counted(&self.request.namespace, &self.overlay)
    }

    pub(super) fn admitted(
        &self,
        limits: &[Counted<'_>],
        policy: &Policy,
    ) -> Result<Vec<Charge>, Denial> {
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
            old: self.before.as_ref(),
            old_has_version: true,
            requirements: &|required| request.object.as_ref()?.missing_requirements(required),
            context: &EveryClass,
        };
        let charges = admission::evaluate(limits, &attempt, &policy.limited)?;
        if self.pending.is_some() && request.subresource != "status" {
            self.refuse_excess(limits)?;
        }
        Ok(charges)
    }

    /// The object as it is observed and what is held for it may be of different quotas: then a quota has to bear
    /// more than what the object grows by.
    fn refuse_excess(&self, limits: &[Counted<'_>]) -> Result<(), Denial> {
        let observed = self.observed.as_ref();
        for limit in limits {
            let held = |target: &Footprint| limit.quota.hold(target, observed).unwrap_or_default();
            let before = self.pending.as_ref().map(held).unwrap_or_default();
            let delta = held(&self.target).delta_over(&before).without_zeros();
            admission::refuse_excess(limit, &delta)?;
        }
        Ok(())
    }

    pub(super) fn grant(
        self,
        state: &State,
        now: Timestamp,
        ttl: Span,
        policy: &Policy,
        overlay: &mut Overlay,
    ) -> Result<Vec<Event>, Refusal> {
        let known = state.reservation(&self.request.uid);
        if let Some(pending) = known.filter(|known| known.end.is_none()) {
            let footprint = self.target.into_owned();
            let expiration = now.plus(ttl).max(pending.reservation.expiration);
            *overlay = self.overlay;
            overlay.end(state, &self.request.uid);
            overlay.grant(
                state,
                &Arc::new(Reservation {
                    footprint: footprint.clone(),
                    ..(*pending.reservation).clone()
                }),
            );
            return Ok(vec![Event::ReservationGrown {
                uid: self.request.uid.clone(),
                namespace: self.request.namespace.clone(),
                footprint,
                expiration,
            }]);
        }
        if self.superseded.is_none() {
            let namespace = &self.request.namespace;
            let [more, more_here] = self.overlay.more_pending(state, namespace);
            let total = state.pending_count().saturating_add_signed(more);
            let here = state.pending_count_in(namespace);
            let here = here.saturating_add_signed(more_here);
            within(total, policy.max_pending, "reservations.max_pending")?;
            within(
                here,
                policy.max_pending_per_namespace,
                "reservations.max_pending_per_namespace",
            )?;
        }
        let reservation = self
            .request
            .reservation(self.request.footprint.clone(), now, ttl);
        let reservation = Arc::new(reservation);
        *overlay = self.overlay;
        overlay.grant(state, &reservation);
        let by = self.request.uid.clone();
        let ended = self.superseded.map(|uid| Event::ReservationSuperseded {
            uid,
            namespace: reservation.namespace.clone(),
            by,
        });
        Ok(ended
            .into_iter()
            .chain([Event::ReservationGranted(reservation)])
            .collect())
    }
}

fn within(pending: usize, limit: usize, key: &'static str) -> Result<(), Refusal> {
    if pending < limit {
        return Ok(());
    }
    Err(Refusal::TooManyPending {
        limit: key,
        pending,
    })
}

fn superseded(state: &State, request: &Request, overlay: &Overlay) -> Option<Uid> {
    if request.name.is_empty() || request.basis != Basis::Create {
        return None;
    }
    let resource = Name::from(request.resource.to_string());
    let uid = overlay.pending_for(state, &request.namespace, &resource, &request.name)?;
    (uid != request.uid).then_some(uid)
}

fn before(
    request: &Request,
    observed: Option<&Footprint>,
    pending: Option<&Footprint>,
) -> Option<Footprint> {
    match (observed, pending) {
        (Some(observed), Some(pending)) => {
            let mut before = pending.clone();
            before.resources.max(&observed.resources);
            Some(before)
        }
        (None, None) => request.before.clone(),
        (observed, pending) => observed.or(pending).cloned(),
    }
}
