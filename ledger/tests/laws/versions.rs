//! An API server that is ahead of the observed events: objects are changed again before it is observed that they
//! changed, writes conflict and are tried again, and some are refused after their review.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use proptest::prelude::*;
use quota_core::{
    audit::Naive,
    decide::{Basis, Measure, Request, Sighting},
    state::State,
};
use quota_semantics::object::{Footprint, Traits};
use quota_testkit::histories::{
    steps::Step,
    things::{footprint, namespace, observed, reserve_request, seen},
    world::World,
};

const HARD: u64 = 8;

#[derive(Clone, Debug)]
enum Act {
    Create {
        name: u8,
        amount: u64,
        terminating: bool,
    },
    /// An update is reviewed, and then stored or refused: by a conflict, or by another webhook.
    Update {
        name: u8,
        amount: u64,
        terminating: bool,
        is_stored: bool,
    },
    /// A write that is not reviewed: the status of an object.
    Touch {
        name: u8,
    },
    Delete {
        name: u8,
    },
    /// The events of a name arrive, the oldest first.
    Show {
        name: u8,
    },
    /// An event is left out, since the object has changed again: so does a relist.
    Skip {
        name: u8,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let name = 0..3_u8;
    let act = prop_oneof![
        2 => (name.clone(), 1..5_u64, any::<bool>())
            .prop_map(|(name, amount, terminating)| Act::Create { name, amount, terminating }),
        6 => (name.clone(), 1..7_u64, any::<bool>(), prop::bool::weighted(0.7))
            .prop_map(|(name, amount, terminating, is_stored)| Act::Update { name, amount, terminating, is_stored }),
        2 => name.clone().prop_map(|name| Act::Touch { name }),
        1 => name.clone().prop_map(|name| Act::Delete { name }),
        5 => name.clone().prop_map(|name| Act::Show { name }),
        1 => name.prop_map(|name| Act::Skip { name }),
    ];
    prop::collection::vec(act, 0..60)
}

/// An object that the API server has stored.
struct Stored {
    uid: u8,
    version: u64,
    amount: u64,
    footprint: Footprint,
}

#[derive(Default)]
struct Cluster {
    world: World,
    stored: BTreeMap<u8, Stored>,
    untold: BTreeMap<u8, VecDeque<Sighting>>,
    uids: u8,
    versions: u64,
}

impl Cluster {
    fn with_quotas() -> Self {
        let mut cluster = Self::default();
        for (quota, hard, scope) in [(0, HARD, 0), (1, HARD - 3, 2)] {
            cluster.world.step(&Step::SetQuota { namespace: 0, quota, hard, scope });
        }
        cluster
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Create { name, amount, terminating } => {
                self.uids += 1;
                let footprint = footprint(amount, true, terminating);
                let is_admitted = self.review(self.uids, name, &footprint, None);
                if is_admitted && !self.stored.contains_key(&name) {
                    let stored = Stored { uid: self.uids, version: 0, amount, footprint };
                    self.stored.insert(name, stored);
                    self.write(name);
                }
            }
            Act::Update { name, amount, terminating, is_stored } => {
                let Some(old) = self.stored.remove(&name) else {
                    return;
                };
                let footprint = footprint(amount, true, terminating);
                let before = Some((old.version, old.footprint.clone()));
                let is_admitted = self.review(old.uid, name, &footprint, before);
                let is_stored = is_admitted && is_stored;
                let now = match is_stored {
                    true => Stored { amount, footprint, ..old },
                    false => old,
                };
                self.stored.insert(name, now);
                if is_stored {
                    self.write(name);
                }
            }
            Act::Touch { name } => self.write(name),
            Act::Delete { name } => {
                if let Some(stored) = self.stored.remove(&name) {
                    let deleted = Sighting::Deleted {
                        uid: quota_testkit::histories::things::uid(stored.uid),
                        namespace: namespace(0),
                        quota: None,
                    };
                    self.untold.entry(name).or_default().push_back(deleted);
                }
            }
            Act::Show { name } => {
                let untold = self.untold.get_mut(&name);
                if let Some(sighting) = untold.and_then(VecDeque::pop_front) {
                    let events = seen(&self.world.state, &sighting);
                    self.world.record(events);
                }
            }
            Act::Skip { name } => {
                let untold = self.untold.entry(name).or_default();
                if let (
                    Some(Sighting::Alive { object, .. }),
                    Some(Sighting::Alive { object: next, .. }),
                ) = (untold.front(), untold.get(1))
                    && object.uid == next.uid
                {
                    untold.pop_front();
                }
            }
        }
    }

    /// Whether the webhook admits it.
    fn review(
        &mut self,
        uid: u8,
        name: u8,
        footprint: &Footprint,
        before: Option<(u64, Footprint)>,
    ) -> bool {
        let (basis, before) = match before {
            None => (Basis::Create, None),
            Some((version, before)) => (Basis::Update { version }, Some(before)),
        };
        let request = Request {
            ttl: None,
            before: before.map(Arc::new),
            ..reserve_request(uid, 0, Some(name), footprint.clone(), basis, 0)
        };
        self.world.admit(request, Measure::Given, true)
    }

    /// The stored object gets a version, and an event.
    fn write(&mut self, name: u8) {
        let Some(stored) = self.stored.get_mut(&name) else {
            return;
        };
        self.versions += 1;
        stored.version = self.versions;
        let object = observed(
            stored.uid,
            0,
            "pods",
            format!("name-{name}"),
            stored.version,
            stored.footprint.clone(),
            None,
        );
        let alive = Sighting::Alive { object: Box::new(object), quota: None };
        self.untold.entry(name).or_default().push_back(alive);
    }

    /// Stored objects are within every limit, whether or not the ledger has observed them.
    fn check(&self) {
        let is_terminating = |stored: &&Stored| matches!(&stored.footprint.traits, Traits::Pod(pod) if pod.terminating);
        let all: u64 = self.stored.values().map(|stored| stored.amount).sum();
        assert!(all <= HARD, "{all} of {HARD} are stored");
        let terminating = self.stored.values().filter(is_terminating);
        let terminating: u64 = terminating.map(|stored| stored.amount).sum();
        assert!(terminating <= HARD - 3, "{terminating} are stored");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1024, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_passed_by_updates_behind_updates_that_are_not_seen_yet(acts in acts()) {
        let mut cluster = Cluster::with_quotas();
        for act in &acts {
            cluster.act(act);
            cluster.check();
        }
        let (mut state, mut naive) = (State::default(), Naive::default());
        for entry in &cluster.world.entries {
            state.apply(entry);
            naive.apply(entry);
            prop_assert_eq!(naive.differences(&state), Vec::<String>::new());
        }
        prop_assert_eq!(super::reread(&state).digest(), state.digest());
    }

    /// A hold does not outlast the events of its object: once all have arrived, nothing of a stored update is held.
    #[test]
    fn nothing_is_held_once_all_events_have_arrived(acts in acts()) {
        let mut cluster = Cluster::with_quotas();
        for act in &acts {
            let act = match act.clone() {
                Act::Update { name, amount, terminating, .. } => {
                    Act::Update { name, amount, terminating, is_stored: true }
                }
                // A name that is taken: what is held for it has no event.
                Act::Create { name, .. } if cluster.stored.contains_key(&name) => continue,
                act => act,
            };
            cluster.act(&act);
        }
        for name in 0..3 {
            while cluster.untold.get(&name).is_some_and(|untold| !untold.is_empty()) {
                cluster.act(&Act::Show { name });
            }
        }
        prop_assert_eq!(cluster.world.state.pending_count(), 0);
    }
}
