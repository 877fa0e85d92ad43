//! Simulation: what other limits would have done to the recorded past.
//!
//! Three pasts go through the entries of a period:
//!
//! - The *recorded* one has the limits of the ledger. Each recorded grant is decided again in it, by the functions that
//!   decide live, and has to be granted: what cannot reproduce the past says nothing about another one.
//! - *Demand* has the candidate limits, and nothing is refused: how much would have been taken. It has the same objects
//!   and reservations, so only its sums follow.
//! - The *counterfactual* one has the candidate limits, too, and every grant is decided again. What concerns an object
//!   that was refused is left out from there on. Until something is refused, it is the same as demand.
//!
//! Objects that no reservation preceded are facts: they count in all three.
//!
//! Without groups among the candidates, only the entries of the candidates' namespaces are followed. Groups that count
//! other namespaces as well keep their recorded limits then, and can refuse nothing that they have granted: less counts
//! in them than did.

mod candidates;
mod left_out;
mod tally;

use std::{collections::BTreeSet, sync::Arc};

use candidates::Changed;
pub use candidates::{Candidates, Subject};
use left_out::{Effect, LeftOut};
pub use tally::LimitOutcome;
use tally::{LimitId, LimitRef, Tallies};

use crate::{
    decide::{Basis, Deciding, GroupBounds, Need, Past, PastRequest, Refusal, Request, refused_by},
    event::{Actor, Entry, Event, Sequence},
    state::State,
};
use serde::Serialize;

use quota_semantics::{
    Name, Timestamp, admission::LimitKind, object::Footprint, object::GroupResource,
    resource::ResourceList, uid::Uid,
};

/// The most refused requests that an outcome names.
pub const REFUSALS_MAX: usize = 100;

/// A recorded decision that does not follow from the recorded limits.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("entry {sequence} does not follow from the limits of its time: {reason}")]
pub struct NotReproducible {
    /// The entry that records the grant.
    pub sequence: Sequence,
    /// Why it would not be granted.
    pub reason: String,
}

/// Why a period cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unsimulated {
    /// The code that decides cannot reproduce it.
    #[error(transparent)]
    NotReproducible(#[from] NotReproducible),
    /// What is to be left out never was in the period.
    #[error("{0} not found in the period")]
    Unknown(Subject),
}

/// A denial that the daemon remembers.
#[derive(Clone, Debug)]
pub struct PastDenial {
    /// The last entry before the decision.
    pub sequence: Sequence,
    /// The principal that made the request.
    pub principal: Name,
    /// The namespace of the request.
    pub namespace: Name,
    /// The object of the request.
    pub uid: Uid,
    /// Its kind, as in `pods`.
    pub resource: GroupResource,
    /// Its name; empty: unknown.
    pub name: Box<str>,
    /// The requested amounts.
    pub requested: ResourceList,
}

/// A recorded grant that the candidates refuse.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refused {
    /// The entry that records the grant.
    pub sequence: Sequence,
    /// Its time.
    pub time: Timestamp,
    /// The namespace.
    pub namespace: Name,
    /// The object.
    pub object: RefusedObject,
    /// Whoever asked for it.
    pub owner: Arc<Actor>,
    /// The limits that refuse it.
    pub limits: Vec<Refusing>,
}

/// The object of a refused grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedObject {
    /// Its uid.
    pub uid: Uid,
    /// Its kind, as in `pods`.
    pub resource: Name,
    /// Its apiVersion, as the holder gave it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub api_version: Name,
    /// Its kind, as the holder gave it.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub kind: Name,
    /// Its name; empty: unknown.
    #[serde(skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The amounts that it asked for.
    pub requested: ResourceList,
}

/// A limit that refuses a grant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusing {
    /// Whether it is one of a quota or of a group.
    pub kind: LimitKind,
    /// The name of the quota or group.
    pub name: Name,
    /// The resource, if one is exceeded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<Name>,
}

/// What candidate limits would have done: the answer of `POST /v1/simulate`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Outcome {
    /// The beginning of the period.
    pub from: Timestamp,
    /// Its end.
    pub to: Timestamp,
    /// The first entry of the period; one more than the last one, if there is none.
    pub first_sequence: Sequence,
    /// The last entry of the period.
    pub last_sequence: Sequence,
    /// What was verified.
    pub identity: Identity,
    /// Recorded grants that the candidates grant.
    pub granted: u64,
    /// Those that they refuse.
    pub refused: u64,
    /// Those about objects that would not have existed.
    pub left_out: u64,
    /// The candidates, and other limits that refuse something, by namespace, name and resource.
    pub limits: Vec<LimitOutcome>,
    /// The first refused ones.
    pub refusals: Vec<Refused>,
    /// Remembered denials that the candidates grant.
    pub denials_granted: u64,
    /// The time of the oldest denial that is remembered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub denials_since: Option<Timestamp>,
    /// What a simulation cannot know.
    pub unknown: [&'static str; 3],
}

/// The check that recorded decisions follow from the recorded limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Identity {
    /// Recorded grants that were decided again and found to be granted.
    pub decisions: u64,
}

/// What a simulation cannot know.
const UNKNOWN: [&str; 3] = [
    "retries: a refused request may have been made again, and a recorded one may not have been made",
    "requests that nobody made because the limits were known",
    "rules about whole objects and settings of the daemon, such as amounts that each container has to specify",
];

/// The recorded past, in which each grant is decided again. An entry takes effect once the next one is known, which may
/// tell how it was decided.
#[derive(Debug)]
pub struct Decided {
    state: State,
    last: Option<Entry>,
}

impl Decided {
    /// Begins with a state.
    #[must_use]
    pub const fn new(state: State) -> Self {
        Self { state, last: None }
    }

    /// The state behind the entry before the last one; behind the last one after a step without an entry.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Takes the next entry. None: the last entry of a batch was the last one for now.
    ///
    /// # Errors
    /// [`NotReproducible`]. The entry before takes effect nevertheless.
    pub fn step(&mut self, next: Option<Entry>) -> Result<(), NotReproducible> {
        let Some(last) = std::mem::replace(&mut self.last, next) else {
            return Ok(());
        };
        let next = self.last.as_ref().map(|next| &next.event);
        let request = PastRequest::of(&last, next, &self.state);
        let decided = request.map_or(Ok(()), |request| decide_again(&self.state, &last, &request));
        self.state.apply(&last);
        decided
    }
}

/// Decides a recorded grant again, under the limits of its time.
fn decide_again(
    recorded: &State,
    entry: &Entry,
    request: &PastRequest,
) -> Result<(), NotReproducible> {
    let again = request.decide(recorded.into(), Deciding::All);
    again.map_err(|cause| NotReproducible { sequence: entry.sequence, reason: cause.to_string() })
}

/// A simulation under way. Takes the entries of a period, in order.
#[derive(Debug)]
pub struct Simulation {
    recorded: State,
    /// The limits of demand, for the recorded objects and reservations. None without candidates: then only the recorded
    /// decisions are verified.
    demand: Option<State>,
    /// None until something is refused: then it is as demand.
    counterfactual: Option<State>,
    changed: Changed,
    /// What is to be left out, and has not been seen yet.
    unseen: BTreeSet<Subject>,
    left_out: LeftOut,
    tallies: Tallies,
    denials: std::vec::IntoIter<PastDenial>,
    /// The last entry: the one behind it tells how it was decided.
    last: Option<Entry>,
    outcome: Outcome,
}

impl Simulation {
    /// Begins at `from`, in the state of that time. `denials` ascend.
    ///
    /// # Errors
    /// The candidates that cannot be set in that state, by their numbers: quotas first, then groups.
    pub fn begin(
        mut recorded: State,
        from: Timestamp,
        candidates: Candidates,
        denials: Vec<PastDenial>,
        bounds: &GroupBounds,
    ) -> Result<Self, Vec<(usize, Refusal)>> {
        let changed = candidates.changed();
        let unseen = candidates.deleted.iter();
        let unseen = unseen.filter(|subject| !subject.is_in(&recorded)).cloned();
        let unseen = unseen.collect();
        let demand = match changed.is_empty() {
            true => None,
            false => {
                let quotas = candidates.quotas.iter();
                let namespaces: Vec<_> = quotas.map(|quota| quota.namespace.clone()).collect();
                let set = |demand: &mut State| candidates.set(demand, from, bounds);
                Some(recorded.with_other_limits(namespaces.iter(), set)?)
            }
        };
        let mut simulation = Self {
            recorded,
            demand,
            counterfactual: None,
            changed,
            unseen,
            left_out: LeftOut::default(),
            tallies: Tallies::default(),
            denials: denials.into_iter(),
            last: None,
            outcome: Outcome { from, unknown: UNKNOWN, ..Outcome::default() },
        };
        let before = simulation.recorded.head().sequence;
        simulation.outcome.first_sequence = before + 1;
        simulation.measure_all(from, before);
        Ok(simulation)
    }

    /// Takes the next entry.
    ///
    /// # Errors
    /// [`NotReproducible`]
    pub fn step(&mut self, entry: Entry) -> Result<(), NotReproducible> {
        match self.last.take() {
            Some(last) => self.take(&last, Some(&entry))?,
            None => self.decide_denials(entry.sequence),
        }
        self.last = Some(entry);
        Ok(())
    }

    /// Ends the period.
    ///
    /// # Errors
    /// [`Unsimulated`]
    pub fn finish(mut self, to: Timestamp) -> Result<Outcome, Unsimulated> {
        if let Some(last) = self.last.take() {
            self.take(&last, None)?;
        }
        if let Some(unseen) = self.unseen.pop_first() {
            return Err(Unsimulated::Unknown(unseen));
        }
        self.decide_denials(Sequence::MAX);
        self.outcome.to = to;
        self.outcome.last_sequence = self.recorded.head().sequence;
        self.outcome.limits = self.tallies.finish(to);
        Ok(self.outcome)
    }

    fn take(&mut self, entry: &Entry, next: Option<&Entry>) -> Result<(), NotReproducible> {
        self.end_overrides(entry);
        let next_event = next.map(|next| &next.event);
        let namespace = entry.event.namespace();
        let mut is_refused = false;
        let is_grant =
            matches!(entry.event, Event::ReservationGranted(_) | Event::ReservationGrown { .. });
        if let Some(namespace) = namespace.filter(|_| is_grant)
            && self.is_affected(namespace)
            && let Some(request) = PastRequest::of(entry, next_event, &self.recorded)
        {
            decide_again(&self.recorded, entry, &request)?;
            self.outcome.identity.decisions += 1;
            is_refused = self.decide(entry, &request) == Decision::Refused;
        }
        if !self.unseen.is_empty()
            && let Some(set) = Subject::set_by(&entry.event)
        {
            self.unseen.remove(&set);
        }
        self.recorded.apply(entry);
        let follows = self.changed.follows(&entry.event);
        if let Some(demand) = &mut self.demand {
            self.recorded.lead(demand, entry, follows);
        }
        if follows && let Some(state) = &mut self.counterfactual {
            let effect = match is_refused {
                true => Effect::None,
                false => self.left_out.effect(&entry.event, state),
            };
            effect.apply(state, entry);
        }
        if follows {
            self.measure(entry);
        }
        if let Some(next) = next {
            self.decide_denials(next.sequence);
        }
        Ok(())
    }

    /// Decides a recorded grant under the candidates.
    fn decide(&mut self, entry: &Entry, request: &PastRequest) -> Decision {
        let Some(demand) = &mut self.demand else {
            self.outcome.granted += 1;
            return Decision::Granted;
        };
        let deciding = self.changed.deciding();
        let key = request.key();
        let mut refusing = Vec::new();
        let mut refuse = |need: &Need<'_>| {
            if need.is_refused {
                let limit = LimitId::from(&LimitRef::of(key.0, need));
                refusing.push((limit, need.resource.clone()));
            }
        };
        let (changed, tallies) = (&self.changed, &mut self.tallies);
        // Only candidates are measured.
        let is_candidate = |kind: LimitKind, name: &Name| {
            changed.has((kind == LimitKind::ResourceQuota).then_some(key.0), name)
        };
        self.recorded.lend_sums(demand, key.0);
        let past = Past { facts: &self.recorded, limits: demand };
        let mut decided = Ok(());
        match &self.counterfactual {
            // Until something is refused, both pasts are one.
            None => {
                decided = request.judge(past, deciding, |need| {
                    refuse(&need);
                    if is_candidate(need.kind, need.limit) {
                        tallies.ask(key.0, &need);
                    }
                });
            }
            Some(_) => {
                request.needs(past, deciding, is_candidate, |need| tallies.ask(key.0, &need));
            }
        }
        self.recorded.lend_sums(demand, key.0);
        if self.left_out.has_no(key, &entry.event, &self.recorded) {
            self.outcome.left_out += 1;
            return Decision::LeftOut;
        }
        if let Some(state) = &self.counterfactual {
            decided = request.decide(state.into(), deciding);
            if decided.is_err() {
                request.needs(state.into(), deciding, |_, _| true, |need| refuse(&need));
            }
        }
        let Err(cause) = decided else {
            self.outcome.granted += 1;
            self.left_out.grant(key);
            return Decision::Granted;
        };
        self.outcome.refused += 1;
        self.tallies.refuse(&refusing, entry.time);
        if self.outcome.refusals.len() < REFUSALS_MAX
            && let Some(reservation) = request.reservation(entry, &self.recorded)
        {
            let limits = refusing.into_iter();
            let limits = limits.map(|(limit, resource)| limit.refusing(Some(resource)));
            let mut limits: Vec<_> = limits.collect();
            if limits.is_empty() {
                limits.extend(refused_by(&cause).map(|(kind, name)| Refusing {
                    kind,
                    name: name.clone(),
                    resource: None,
                }));
            }
            limits.dedup();
            self.outcome.refusals.push(Refused {
                sequence: entry.sequence,
                time: entry.time,
                namespace: reservation.namespace.clone(),
                object: RefusedObject {
                    uid: reservation.uid.clone(),
                    resource: reservation.resource.clone(),
                    api_version: reservation.api_version.clone(),
                    kind: reservation.kind.clone(),
                    name: reservation.name.clone(),
                    requested: reservation.footprint.resources.clone(),
                },
                owner: entry.actor.clone(),
                limits,
            });
        }
        let recorded = &self.recorded;
        let state = self.counterfactual.get_or_insert_with(|| recorded.apart_with(demand));
        self.left_out.refuse(key, entry, state);
        Decision::Refused
    }

    /// Decides the remembered denials before this entry.
    fn decide_denials(&mut self, before: Sequence) {
        while let Some(denial) = self.denials.as_slice().first()
            && denial.sequence < before
        {
            let Some(denial) = self.denials.next() else {
                return;
            };
            if !self.is_affected(&denial.namespace) {
                continue;
            }
            let deciding = self.changed.deciding();
            let request = denial.into_request();
            let (namespace, _) = request.key();
            let decided = match (&self.counterfactual, &mut self.demand) {
                (Some(state), _) => request.decide(state.into(), deciding),
                (None, Some(limits)) => {
                    self.recorded.lend_sums(limits, namespace);
                    let decided = request.decide(Past { facts: &self.recorded, limits }, deciding);
                    self.recorded.lend_sums(limits, namespace);
                    decided
                }
                (None, None) => continue,
            };
            // Shared groups that are not followed have their recorded limits.
            let is_granted = decided.is_ok()
                && (deciding == Deciding::All
                    || request.decide((&self.recorded).into(), Deciding::Shared).is_ok());
            self.outcome.denials_granted += u64::from(is_granted);
        }
    }

    /// Whether the candidates may decide about a namespace.
    fn is_affected(&self, namespace: &Name) -> bool {
        let groups = &self.changed.groups;
        let is_in_any = |state: &State| state.is_in_any(namespace, groups);
        self.demand.is_none()
            || self.changed.quotas.contains_key(namespace)
            || !groups.is_empty()
                && (is_in_any(&self.recorded) || self.demand.as_ref().is_some_and(is_in_any))
    }

    /// Ends the overrides of candidates whose time is over.
    fn end_overrides(&mut self, entry: &Entry) {
        for state in [&mut self.demand, &mut self.counterfactual] {
            let Some(state) = state else { continue };
            if state.next_override_end().is_none_or(|end| end > entry.time) {
                continue;
            }
            let over = state.overrides_over(entry.time);
            let over = over.filter(|(namespace, name)| self.changed.has(namespace.as_ref(), name));
            let over: Vec<_> = over.cloned().collect();
            for (namespace, quota) in over {
                let event = Event::OverrideEnded { namespace, quota };
                candidates::apply(state, entry.time, event);
            }
        }
    }

    /// Measures what may have changed with an entry.
    fn measure(&mut self, entry: &Entry) {
        let Some(demand) = &self.demand else { return };
        let (time, sequence) = (entry.time, entry.sequence);
        match &entry.event {
            Event::GroupSet(_) | Event::GroupDeleted { .. } | Event::WorkloadsCharged { .. } => {
                self.measure_all(time, sequence);
            }
            Event::OverrideEnded { namespace: None, .. } => self.measure_all(time, sequence),
            event => {
                let Some(namespace) = event.namespace() else {
                    return;
                };
                let quotas = self.changed.quotas.get(namespace);
                for name in quotas.into_iter().flatten() {
                    let levels = demand.limit_of_quota(&self.recorded, namespace, name);
                    let id = LimitRef::quota(namespace, name);
                    self.tallies.measure(id, levels, time, sequence);
                }
                for name in &self.changed.groups {
                    match demand.limit_of_group(name) {
                        Some(levels) => {
                            let id = LimitRef::group(None, name);
                            self.tallies.measure(id, Some(levels), time, sequence);
                        }
                        None => {
                            let exists = exists(&self.recorded, demand, namespace);
                            let levels = demand.limit_of_each(&self.recorded, name, namespace);
                            let levels = levels.filter(|_| exists);
                            let id = LimitRef::group(Some(namespace), name);
                            self.tallies.measure(id, levels, time, sequence);
                        }
                    }
                }
            }
        }
    }

    fn measure_all(&mut self, time: Timestamp, sequence: Sequence) {
        let Some(demand) = &self.demand else { return };
        for (namespace, names) in &self.changed.quotas {
            for name in names {
                let levels = demand.limit_of_quota(&self.recorded, namespace, name);
                let id = LimitRef::quota(namespace, name);
                self.tallies.measure(id, levels, time, sequence);
            }
        }
        for name in &self.changed.groups {
            if let Some(levels) = demand.limit_of_group(name) {
                let id = LimitRef::group(None, name);
                self.tallies.measure(id, Some(levels), time, sequence);
                continue;
            }
            let members = demand.namespaces_of_group(name);
            for namespace in members.filter(|name| exists(&self.recorded, demand, name)) {
                let levels = demand.limit_of_each(&self.recorded, name, namespace);
                let id = LimitRef::group(Some(namespace), name);
                self.tallies.measure(id, levels, time, sequence);
            }
        }
    }
}

/// Whether demand would have a namespace, if empty ones were not kept for it.
fn exists(recorded: &State, demand: &State, namespace: &str) -> bool {
    !(recorded.is_vacant(namespace) && demand.is_vacant(namespace))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Decision {
    Granted,
    Refused,
    LeftOut,
}

impl PastDenial {
    fn into_request(self) -> PastRequest {
        let request = Request {
            uid: self.uid,
            namespace: self.namespace,
            resource: self.resource,
            name: self.name,
            api_version: Name::default(),
            kind: Name::default(),
            basis: Basis::Create,
            subresource: Name::default(),
            footprint: Arc::new(Footprint { resources: self.requested, ..Footprint::default() }),
            before: None,
            object: None,
            ttl: None,
        };
        PastRequest::denied(request, &self.principal)
    }
}
