//! Random histories, and a world in which they happen.

use std::sync::Arc;

use proptest::prelude::*;
use quota_ledger::{
    Name, Span, Timestamp,
    decide::{
        self, Admitted, Adopted, Basis, Measure, Policy, QuotaChange, Refusal, Request, Reserved,
        Review, Sighting, Verdict,
    },
    desk::{Desk, Open},
    event::{Actor, Entry, Event, Observed, Reservation},
    object::{Footprint, GroupResource, PodTraits, Traits},
    quantity::Quantity,
    quota::spec::Spec,
    state::State,
    uid::Uid,
};

use super::model::Model;

/// Something that happens; small numbers, so that things meet.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    SetQuota {
        namespace: u8,
        quota: u8,
        hard: u64,
        scope: u8,
    },
    DeleteQuota {
        namespace: u8,
        quota: u8,
    },
    Reserve {
        namespace: u8,
        uid: u8,
        name: Option<u8>,
        amount: u64,
        pod: bool,
        ttl: i64,
    },
    Update {
        namespace: u8,
        uid: u8,
        amount: u64,
        terminating: bool,
        version: u64,
    },
    /// An API server is about to create (no version) or change a pod.
    Admit {
        namespace: u8,
        uid: u8,
        name: u8,
        amount: u64,
        version: Option<u64>,
        holds: bool,
    },
    /// An API server is about to create or scale a workload that is charged.
    AdmitWorkload {
        namespace: u8,
        uid: u8,
        amount: u64,
        replicas: u64,
        scales: bool,
    },
    Release {
        namespace: u8,
        uid: u8,
    },
    Extend {
        namespace: u8,
        uid: u8,
        ttl: i64,
    },
    Commit {
        namespace: u8,
        uid: u8,
        amount: Option<u64>,
    },
    Observe {
        namespace: u8,
        uid: u8,
        version: u64,
        amount: u64,
        pod: bool,
        terminating: bool,
        lapse: Option<i64>,
    },
    Adopt {
        namespace: u8,
        quota: u8,
        uid: u8,
        version: u64,
        hard: u64,
    },
    Delete {
        namespace: u8,
        uid: u8,
    },
    /// The clock moves, back too; the sources may be behind it.
    Pass {
        seconds: i64,
        behind: i64,
    },
}

pub(crate) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::collection::vec(step(), 0..60)
}

fn step() -> impl Strategy<Value = Step> {
    let namespace = 0..2_u8;
    let uid = 0..6_u8;
    prop_oneof![
        2 => (namespace.clone(), 0..3_u8, 0..12_u64, 0..4_u8)
            .prop_map(|(namespace, quota, hard, scope)| Step::SetQuota { namespace, quota, hard, scope }),
        1 => (namespace.clone(), 0..3_u8).prop_map(|(namespace, quota)| Step::DeleteQuota { namespace, quota }),
        6 => (namespace.clone(), uid.clone(), prop::option::of(0..3_u8), 0..5_u64, any::<bool>(), 1..90_i64)
            .prop_map(|(namespace, uid, name, amount, pod, ttl)| Step::Reserve { namespace, uid, name, amount, pod, ttl }),
        3 => (namespace.clone(), uid.clone(), 0..6_u64, any::<bool>(), 0..5_u64)
            .prop_map(|(namespace, uid, amount, terminating, version)| Step::Update { namespace, uid, amount, terminating, version }),
        5 => (namespace.clone(), uid.clone(), 0..6_u8, 0..5_u64, prop::option::of(0..5_u64), prop::bool::weighted(0.8))
            .prop_map(|(namespace, uid, name, amount, version, holds)|
                Step::Admit { namespace, uid, name, amount, version, holds }),
        3 => (namespace.clone(), 10..13_u8, 0..4_u64, 0..5_u64, any::<bool>())
            .prop_map(|(namespace, uid, amount, replicas, scales)|
                Step::AdmitWorkload { namespace, uid, amount, replicas, scales }),
        2 => (namespace.clone(), uid.clone()).prop_map(|(namespace, uid)| Step::Release { namespace, uid }),
        1 => (namespace.clone(), uid.clone(), 1..90_i64).prop_map(|(namespace, uid, ttl)| Step::Extend { namespace, uid, ttl }),
        2 => (namespace.clone(), uid.clone(), prop::option::of(0..5_u64))
            .prop_map(|(namespace, uid, amount)| Step::Commit { namespace, uid, amount }),
        6 => (namespace.clone(), uid.clone(), 0..6_u64, 0..5_u64, any::<bool>(), any::<bool>(), prop::option::of(-60..60_i64))
            .prop_map(|(namespace, uid, version, amount, pod, terminating, lapse)|
                Step::Observe { namespace, uid, version, amount, pod, terminating, lapse }),
        1 => (namespace.clone(), 0..3_u8, 20..23_u8, 0..6_u64, 0..12_u64)
            .prop_map(|(namespace, quota, uid, version, hard)| Step::Adopt { namespace, quota, uid, version, hard }),
        2 => (namespace, uid).prop_map(|(namespace, uid)| Step::Delete { namespace, uid }),
        3 => (-20..60_i64, 0..100_i64).prop_map(|(seconds, behind)| Step::Pass { seconds, behind }),
    ]
}

pub(crate) fn namespace(number: u8) -> Name {
    Name::from(format!("team-{number}"))
}

pub(crate) fn uid(number: u8) -> Uid {
    // Both forms of a uid take part.
    if number.is_multiple_of(2) {
        Uid::from_uuid([number; 16])
    } else {
        Uid::new(&format!("vm-{number}")).unwrap()
    }
}

fn footprint(amount: u64, pod: bool, terminating: bool) -> Footprint {
    let units = Quantity::from_units(i64::try_from(amount).unwrap());
    let resources = [("pods", Quantity::from_units(1)), ("requests.cpu", units)];
    Footprint {
        resources: resources
            .into_iter()
            .map(|(name, quantity)| (Name::from(name), quantity))
            .collect(),
        traits: match pod {
            false => Traits::Plain,
            true => Traits::Pod(PodTraits {
                best_effort: amount == 0,
                terminating,
                ..PodTraits::default()
            }),
        },
    }
}

fn workload(amount: u64, replicas: u64) -> Footprint {
    let units = Quantity::from_units(i64::try_from(amount).unwrap());
    let count = Name::from("count/deployments.apps");
    let itself = Footprint {
        resources: [(count, Quantity::from_units(1))].into_iter().collect(),
        traits: Traits::Template {
            pod: PodTraits::default(),
            replica: [(Name::from("requests.cpu"), units)].into_iter().collect(),
        },
    };
    itself.scaled(replicas).unwrap()
}

fn spec(hard: u64, scope: u8) -> Spec {
    let hard = Quantity::from_units(i64::try_from(hard).unwrap());
    let scopes = match scope {
        0 | 1 => Vec::new(),
        2 => vec![Name::from("Terminating")],
        _ => vec![Name::from("NotBestEffort")],
    };
    Spec {
        hard: [(Name::from("requests.cpu"), hard)].into_iter().collect(),
        scopes,
        selector: None,
    }
}

/// The desk, the model beside it, and what has happened.
#[derive(Default)]
pub(crate) struct World {
    pub(crate) state: State,
    pub(crate) model: Model,
    pub(crate) entries: Vec<Entry>,
    /// Wishes whose reservation is still remembered.
    pub(crate) wishes: Vec<Request>,
    /// What the last step granted.
    pub(crate) granted: Option<Arc<Reservation>>,
    /// What the last step admitted, and for which wish.
    pub(crate) admitted: Option<(Request, bool, Admitted)>,
    open: Open,
    clock: i64,
    watermark: Option<Timestamp>,
    policy: Policy,
}

impl World {
    pub(crate) fn run(steps: &[Step]) -> Self {
        Self::run_checking(steps, |_| {})
    }

    pub(crate) fn run_checking(steps: &[Step], check: impl Fn(&Self)) -> Self {
        let mut world = Self::default();
        for step in steps {
            world.step(step);
            check(&world);
        }
        world
    }

    fn now(&self) -> Timestamp {
        Timestamp::EPOCH
            .plus(Span::from_seconds(1_000_000 + self.clock))
            .max(self.state.head().time)
    }

    fn record(&mut self, events: Vec<Event>) {
        let now = self.now();
        let mut desk = Desk::new(&mut self.state, &mut self.open, now);
        desk.record(&Actor::named("test"), events);
        for entry in self.open.take() {
            self.model.apply(&entry);
            self.entries.push(entry);
        }
    }

    pub(crate) fn reserve(&mut self, wish: &Request) -> Result<Reserved, Refusal> {
        let reserved = decide::reserve(&self.state, self.now(), wish, &self.policy)?;
        self.record(reserved.events.clone());
        Ok(reserved)
    }

    /// Answers whether something was granted.
    pub(crate) fn step(&mut self, step: &Step) -> bool {
        self.granted = None;
        self.admitted = None;
        let watermark = self.watermark.unwrap_or(Timestamp::MAX);
        self.record(decide::due(
            &self.state,
            self.now(),
            watermark,
            self.policy.max_hold,
        ));
        match step.clone() {
            Step::Pass { seconds, behind } => {
                self.clock += seconds;
                self.watermark =
                    (behind < 50).then(|| self.now().minus(Span::from_seconds(behind)));
            }
            Step::Reserve {
                uid: number,
                namespace: space,
                name,
                amount,
                pod,
                ttl,
            } => {
                let wish = wish(
                    number,
                    space,
                    name,
                    footprint(amount, pod, false),
                    Basis::Create,
                    ttl,
                );
                return self.wish(wish);
            }
            Step::Update {
                uid: number,
                namespace: space,
                amount,
                terminating,
                version,
            } => {
                let basis = Basis::Update { version };
                return self.wish(wish(
                    number,
                    space,
                    None,
                    footprint(amount, true, terminating),
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
                holds,
            } => {
                let basis = version.map_or(Basis::Create, |version| Basis::Update { version });
                let seen = version.map(|version| footprint(version, true, false));
                let request = Request {
                    before: seen,
                    ttl: None,
                    ..wish(
                        number,
                        space,
                        Some(name),
                        footprint(amount, true, false),
                        basis,
                        0,
                    )
                };
                return self.admit(request, Measure::Given, holds);
            }
            Step::AdmitWorkload {
                namespace: space,
                uid: number,
                amount,
                replicas,
                scales,
            } => {
                let (basis, measure) = match scales {
                    true => (Basis::Update { version: 1 }, Measure::Scaled { replicas }),
                    false => (Basis::Create, Measure::Given),
                };
                let request = Request {
                    resource: GroupResource::new("apps", "deployments"),
                    ttl: None,
                    ..wish(
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

    fn admit(&mut self, request: Request, measure: Measure, holds: bool) -> bool {
        let review = Review {
            request: request.clone(),
            measure,
            holds,
        };
        let Ok(admitted) = decide::admit(&self.state, self.now(), &review, &self.policy) else {
            return false;
        };
        self.granted = admitted.events.iter().find_map(|event| match event {
            Event::ReservationGranted(reservation) => Some(reservation.clone()),
            _ => None,
        });
        if self.granted.is_some() {
            self.wishes.retain(|earlier| earlier.uid != request.uid);
        }
        self.record(admitted.events.clone());
        self.admitted = Some((request, holds, admitted));
        true
    }

    fn wish(&mut self, wish: Request) -> bool {
        match self.reserve(&wish) {
            Ok(Reserved {
                replayed: false,
                events,
            }) => {
                self.granted = events.iter().find_map(|event| match event {
                    Event::ReservationGranted(reservation) => Some(reservation.clone()),
                    _ => None,
                });
                self.wishes.retain(|earlier| earlier.uid != wish.uid);
                if wish.basis == Basis::Create {
                    self.wishes.push(wish);
                }
                true
            }
            _ => false,
        }
    }

    fn events(&self, step: Step) -> Vec<Event> {
        let state = &self.state;
        match step {
            Step::SetQuota {
                namespace: space,
                quota,
                hard,
                scope,
            } => {
                let change = QuotaChange {
                    namespace: namespace(space),
                    name: Name::from(format!("quota-{quota}")),
                    fresh_uid: Uid::from_uuid([200 + quota; 16]),
                    spec: spec(hard, scope),
                    metadata: Box::default(),
                    precondition: None,
                };
                decide::set_quota(state, self.now(), &change).unwrap()
            }
            Step::DeleteQuota {
                namespace: space,
                quota,
            } => {
                let name = Name::from(format!("quota-{quota}"));
                decide::delete_quota(state, &namespace(space), &name, None).unwrap_or_default()
            }
            Step::Release {
                namespace: space,
                uid: number,
            } => decide::release(state, &namespace(space), &uid(number)).unwrap_or_default(),
            Step::Extend {
                namespace: space,
                uid: number,
                ttl,
            } => {
                let ttl = Span::from_seconds(ttl);
                decide::extend(
                    state,
                    self.now(),
                    &namespace(space),
                    &uid(number),
                    ttl,
                    &self.policy,
                )
                .unwrap_or_default()
            }
            Step::Commit {
                namespace: space,
                uid: number,
                amount,
            } => {
                let resources = amount.map(|amount| footprint(amount, false, false).resources);
                decide::commit(state, &namespace(space), &uid(number), resources.as_ref())
                    .unwrap_or_default()
            }
            Step::Observe {
                namespace: space,
                uid: number,
                version,
                amount,
                pod,
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
                    footprint(amount, pod, terminating),
                    lapse,
                );
                seen(
                    state,
                    &Sighting::Alive {
                        object: Box::new(object),
                        quota: None,
                    },
                )
            }
            Step::Adopt {
                namespace: space,
                quota,
                uid: number,
                version,
                hard,
            } => {
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
                    &Sighting::Alive {
                        object: Box::new(object),
                        quota: Some(Box::new(quota)),
                    },
                )
            }
            Step::Delete {
                namespace: space,
                uid: number,
            } => seen(
                state,
                &Sighting::Deleted {
                    uid: uid(number),
                    namespace: namespace(space),
                    quota: Some(Name::from("quota-1")),
                },
            ),
            Step::Pass { .. }
            | Step::Reserve { .. }
            | Step::Update { .. }
            | Step::Admit { .. }
            | Step::AdmitWorkload { .. } => Vec::new(),
        }
    }
}

fn seen(state: &State, sighting: &Sighting) -> Vec<Event> {
    match decide::observe(state, sighting) {
        Verdict::Accepted(events) => events,
        Verdict::Ignored => Vec::new(),
    }
}

fn observed(
    number: u8,
    space: u8,
    resource: &str,
    name: String,
    version: u64,
    footprint: Footprint,
    lapse: Option<Timestamp>,
) -> Observed {
    Observed {
        uid: uid(number),
        namespace: namespace(space),
        resource: Name::from(resource),
        name: name.into(),
        version,
        footprint,
        lapse,
        ends_reservation: false,
    }
}

fn wish(
    number: u8,
    space: u8,
    name: Option<u8>,
    footprint: Footprint,
    basis: Basis,
    ttl: i64,
) -> Request {
    Request {
        uid: uid(number),
        namespace: namespace(space),
        resource: GroupResource::new("", "pods"),
        name: name
            .map(|name| format!("name-{name}"))
            .unwrap_or_default()
            .into(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        basis,
        subresource: Name::default(),
        footprint,
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(ttl)),
    }
}
