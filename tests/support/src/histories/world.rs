//! A world in which histories happen.

use std::sync::Arc;

use quota_core::{
    audit::Naive,
    decide::{
        self, Adopted, Basis, Decision, Measure, Policy, QuotaChange, Refusal, Request, Requester,
        Review, Sighting,
    },
    event::{Actor, Entry, Event, Reservation},
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{
    Name, Span, Timestamp,
    object::{Amount, Footprint, GroupResource},
    uid::Uid,
};

use crate::histories::{
    groups, listings,
    steps::Step,
    things::{
        self, footprint, namespace, namespace_record, observed, pod, reserve_request, seen, spec,
        uid, workload,
    },
};

/// The transaction, the naive fold beside it, and the history.
#[derive(Default)]
pub struct World {
    /// What the entries make.
    pub state: State,
    /// The same, by the simple fold.
    pub naive: Naive,
    /// The history.
    pub entries: Vec<Entry>,
    /// Requests whose reservations are still remembered.
    pub requests: Vec<Request>,
    /// The grant of the last step.
    granted: Option<Arc<Reservation>>,
    /// The admission of the last step, and its request.
    pub admitted: Option<(Request, bool, Decision)>,
    open: OpenBatch,
    clock: i64,
    watermark: Option<Timestamp>,
    policy: Policy,
}

impl World {
    /// A world in which these steps have happened.
    pub fn run(steps: &[Step]) -> Self {
        Self::run_checking(steps, |_| {})
    }

    /// As [`World::run`], with a check after each step.
    pub fn run_checking(steps: &[Step], check: impl Fn(&Self)) -> Self {
        let mut world = Self::default();
        for step in steps {
            world.step(step);
            check(&world);
        }
        world
    }

    /// What the clock shows: never less than the time of an entry.
    pub fn now(&self) -> Timestamp {
        Timestamp::EPOCH
            .plus(Span::from_seconds(1_000_000 + self.clock))
            .max(self.state.head().time)
    }

    /// Writes entries with these events.
    pub fn record(&mut self, events: Vec<Event>) {
        let now = self.now();
        let mut transaction = WriteTransaction::new(&mut self.state, &mut self.open, now);
        transaction.record(&Actor::named("test"), events);
        for entry in self.open.take() {
            self.naive.apply(&entry);
            self.entries.push(entry);
        }
    }

    /// Decides on a request to reserve, and writes what follows.
    pub fn reserve(&mut self, request: &Request) -> Result<Decision, Refusal> {
        let reserved = decide::reserve(&self.state, self.now(), &by(), request, &self.policy)?;
        self.record(reserved.events.clone());
        Ok(reserved)
    }

    /// Lets a step happen. Returns whether a reservation was granted.
    pub fn step(&mut self, step: &Step) -> bool {
        self.granted = None;
        self.admitted = None;
        let watermark = self.watermark.unwrap_or(Timestamp::MAX);
        let due = decide::due(&self.state, self.now(), watermark, self.policy.max_hold);
        self.record(due.collect());
        match step.clone() {
            Step::Pass { seconds, behind } => {
                self.clock += seconds;
                self.watermark =
                    (behind < 50).then(|| self.now().minus(Span::from_seconds(behind)));
            }
            Step::Reserve { uid: number, namespace: space, name, amount, pod, replica, ttl } => {
                let request = reserve_request(
                    number,
                    space,
                    name,
                    match replica {
                        true => things::replica(amount, false),
                        false => footprint(amount, pod, false),
                    },
                    Basis::Create,
                    ttl,
                );
                return self.request(request);
            }
            Step::Update {
                uid: number,
                namespace: space,
                amount,
                terminating,
                replica,
                version,
            } => {
                let basis = Basis::Update { version };
                return self.request(reserve_request(
                    number,
                    space,
                    None,
                    pod(amount, replica, terminating),
                    basis,
                    30,
                ));
            }
            Step::Admit {
                namespace: space,
                uid: number,
                name,
                amount,
                version,
                replica,
                holds,
            } => {
                let basis = version.map_or(Basis::Create, |version| Basis::Update { version });
                let seen = version.map(|version| footprint(version, true, false));
                let request = Request {
                    before: seen.map(Arc::new),
                    ttl: None,
                    ..reserve_request(
                        number,
                        space,
                        Some(name),
                        pod(amount, replica, false),
                        basis,
                        0,
                    )
                };
                return self.admit(request, Measure::Given, holds);
            }
            Step::AdmitWorkload { namespace: space, uid: number, amount, replicas, scales } => {
                let (basis, measure) = match scales {
                    true => (Basis::Update { version: 1 }, Measure::Scaled { replicas }),
                    false => (Basis::Create, Measure::Given),
                };
                let request = Request {
                    resource: GroupResource::new("apps", "deployments"),
                    ttl: None,
                    ..reserve_request(
                        number,
                        space,
                        Some(number),
                        workload(amount, replicas),
                        basis,
                        0,
                    )
                };
                return self.admit(request, measure, true);
            }
            other => {
                let events = self.events(other);
                self.record(events);
            }
        }
        false
    }

    /// Checks that the grant of the last step exceeds no limit.
    pub fn check_grant(&self) {
        let Some(granted) = &self.granted else { return };
        for held in self.naive.held(&granted.namespace, &granted.uid) {
            // The amount for which a workload and its pods count together may grow by less.
            let is_plain = granted.footprint.traits.amount(&held.resource) == Amount::Plain;
            assert!(!is_plain || !held.counted.is_over(), "{held:?}");
        }
    }

    /// Decides on what an API server asks, and writes what follows. Returns whether it could be decided.
    pub fn admit(&mut self, request: Request, measure: Measure, holds: bool) -> bool {
        let review = Review { request: request.clone(), measure, holds };
        let Ok(admitted) = decide::admit(&self.state, self.now(), &by(), &review, &self.policy)
        else {
            return false;
        };
        self.granted = admitted.events.iter().find_map(|event| match event {
            Event::ReservationGranted(reservation) => Some(reservation.clone()),
            _ => None,
        });
        if self.granted.is_some() {
            self.requests.retain(|earlier| !is_same(earlier, &request));
        }
        self.record(admitted.events.clone());
        self.admitted = Some((request, holds, admitted));
        true
    }

    fn request(&mut self, request: Request) -> bool {
        match self.reserve(&request) {
            Ok(Decision { replayed: None, events, .. }) => {
                self.granted = events.iter().find_map(|event| match event {
                    Event::ReservationGranted(reservation) => Some(reservation.clone()),
                    _ => None,
                });
                self.requests.retain(|earlier| !is_same(earlier, &request));
                if request.basis == Basis::Create {
                    self.requests.push(request);
                }
                true
            }
            _ => false,
        }
    }

    fn events(&self, step: Step) -> Vec<Event> {
        let state = &self.state;
        match step {
            Step::SetQuota { namespace: space, quota, hard, scope } => {
                let change = QuotaChange {
                    namespace: namespace(space),
                    name: Name::from(format!("quota-{quota}")),
                    fresh_uid: Uid::from_uuid([200 + quota; 16]),
                    spec: spec(hard, scope),
                    metadata: match quota {
                        2 => overridden(hard, self.now()),
                        _ => Box::default(),
                    },
                    precondition: None,
                };
                decide::set_quota(state, self.now(), &change).unwrap()
            }
            Step::DeleteQuota { namespace: space, quota } => {
                let name = Name::from(format!("quota-{quota}"));
                decide::delete_quota(state, &namespace(space), &name, None).unwrap_or_default()
            }
            Step::Release { namespace: space, uid: number } => {
                decide::release(state, &by(), &namespace(space), &uid(number)).unwrap_or_default()
            }
            Step::Extend { namespace: space, uid: number, ttl } => {
                let ttl = Span::from_seconds(ttl);
                decide::extend(
                    state,
                    self.now(),
                    &by(),
                    &namespace(space),
                    &uid(number),
                    ttl,
                    &self.policy,
                )
                .unwrap_or_default()
            }
            Step::Commit { namespace: space, uid: number, amount } => {
                let resources = amount.map(|amount| footprint(amount, false, false).resources);
                decide::commit(
                    state,
                    &by(),
                    &namespace(space),
                    &uid(number),
                    resources.as_ref(),
                    &self.policy.bounds,
                )
                .unwrap_or_default()
            }
            Step::Observe {
                namespace: space,
                uid: number,
                version,
                amount,
                pod,
                replica,
                terminating,
                lapse,
            } => {
                let lapse = lapse.map(|seconds| self.now().plus(Span::from_seconds(seconds)));
                let object = observed(
                    number,
                    space,
                    "pods",
                    format!("name-{number}"),
                    version,
                    match replica {
                        true => things::replica(amount, terminating),
                        false => footprint(amount, pod, terminating),
                    },
                    lapse,
                );
                seen(state, &Sighting::Alive { object: Box::new(object), quota: None })
            }
            Step::ObserveWorkload { namespace: space, uid: number, amount, replicas, version } => {
                let object = observed(
                    number,
                    space,
                    "deployments.apps",
                    format!("name-{number}"),
                    version,
                    workload(amount, replicas),
                    None,
                );
                seen(state, &Sighting::Alive { object: Box::new(object), quota: None })
            }
            Step::Adopt { namespace: space, quota, uid: number, version, hard } => {
                let object = observed(
                    number,
                    space,
                    "resourcequotas",
                    format!("quota-{quota}"),
                    version,
                    Footprint::default(),
                    None,
                );
                let quota = Adopted {
                    created: Timestamp::EPOCH,
                    spec: spec(hard, 0),
                    metadata: Box::default(),
                };
                seen(
                    state,
                    &Sighting::Alive { object: Box::new(object), quota: Some(Box::new(quota)) },
                )
            }
            Step::Delete { namespace: space, uid: number } => seen(
                state,
                &Sighting::Deleted {
                    uid: uid(number),
                    namespace: namespace(space),
                    quota: Some(Name::from("quota-1")),
                },
            ),
            Step::SetGroup { group, selector, parent, hard, guaranteed, scope, limits, shown } => {
                let wanted = groups::Wanted {
                    group,
                    selector,
                    parent,
                    hard,
                    guaranteed,
                    scope,
                    limits,
                    shown,
                };
                groups::set(state, self.now(), &wanted)
            }
            Step::DeleteGroup { group } => groups::delete(state, group),
            Step::Namespace { namespace: space, uid: number, version, label, gone } => {
                let sighting = match gone {
                    true => Sighting::NamespaceEnded {
                        namespace: namespace(space),
                        uid: Some(uid(number)).filter(|_| label > 0),
                        adopts: true,
                        version,
                    },
                    false => Sighting::Namespace(namespace_record(space, number, version, label)),
                };
                seen(state, &sighting)
            }
            Step::Charge { charges } => {
                let kinds = charges.then(|| Name::from("deployments.apps"));
                let source = Name::from(listings::SOURCE);
                decide::set_charging(state, &kinds.into_iter().collect(), Some(&source))
            }
            Step::Listing(listing) => listings::events(state, self.now(), &listing),
            Step::Pass { .. }
            | Step::Reserve { .. }
            | Step::Update { .. }
            | Step::Admit { .. }
            | Step::AdmitWorkload { .. } => Vec::new(),
        }
    }
}

fn is_same(one: &Request, other: &Request) -> bool {
    one.uid == other.uid && one.namespace == other.namespace
}

/// Metadata with an override that lowers a limit for some time.
fn overridden(hard: u64, now: Timestamp) -> Box<str> {
    let until = now.plus(Span::from_seconds(5 * i64::try_from(hard).unwrap() - 10));
    let limits =
        serde_json::json!({"hard": {"requests.cpu": (hard / 2).to_string()}, "until": until});
    let annotations = serde_json::json!({"quota-ledger.io/override": limits.to_string()});
    serde_json::json!({"annotations": annotations}).to_string().into()
}

fn by() -> Requester {
    Requester::holder("test")
}
