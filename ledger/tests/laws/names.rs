//! An API server that is ahead of the observed events: objects are deleted and created again under their names.

use std::collections::{BTreeMap, VecDeque};

use proptest::prelude::*;
use quota_core::{
    decide::{Basis, Request, Sighting},
    event::Event,
};
use quota_semantics::{Name, object::Traits, quantity::Quantity, uid::Uid};
use quota_testkit::histories::{
    steps::Step,
    things::{footprint, namespace, observed, reserve_request, seen},
    world::World,
};

const HARD: u64 = 6;

/// The limit of a group of objects without a label.
const UNLABELLED: u64 = 1;

#[derive(Clone, Debug)]
enum Act {
    Create {
        name: u8,
        amount: u64,
        terminating: bool,
    },
    Delete {
        name: u8,
    },
    /// The events of a name arrive, the oldest first.
    Show {
        name: u8,
    },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        4 => (0..4_u8, 0..4_u64, any::<bool>())
            .prop_map(|(name, amount, terminating)| Act::Create { name, amount, terminating }),
        3 => (0..4_u8).prop_map(|name| Act::Delete { name }),
        3 => (0..4_u8).prop_map(|name| Act::Show { name }),
    ];
    prop::collection::vec(act, 0..60)
}

/// Whether a limit counts this object.
type Counts = fn(&Stored) -> bool;

/// An object that the API server has stored.
struct Stored {
    uid: Uid,
    amount: u64,
    traits: Traits,
}

#[derive(Default)]
struct Cluster {
    world: World,
    stored: BTreeMap<u8, Stored>,
    untold: BTreeMap<u8, VecDeque<Sighting>>,
    uids: u8,
    versions: u64,
    created: u64,
}

impl Cluster {
    fn with_quotas() -> Self {
        let mut cluster = Self::default();
        // Quota 2 would have an override.
        for (quota, scope) in [(0, 0), (1, 2), (3, 3)] {
            cluster.world.step(&Step::SetQuota {
                namespace: 0,
                quota,
                hard: HARD - u64::from(quota),
                scope,
            });
        }
        // A group for objects without a label: those with odd amounts. The first step records labels.
        for _ in 0..2 {
            cluster.world.step(&Step::SetGroup {
                group: 0,
                selector: 3,
                parent: None,
                hard: UNLABELLED,
                guaranteed: 0,
                scope: 2,
                limits: None,
                shown: None,
            });
        }
        assert_eq!(quota_testkit::histories::groups::held(&cluster.world.state).len(), 1);
        cluster
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Create { name, amount, terminating } => self.create(name, amount, terminating),
            Act::Delete { name } => {
                if let Some(stored) = self.stored.remove(&name) {
                    let deleted =
                        Sighting::Deleted { uid: stored.uid, namespace: namespace(0), quota: None };
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
        }
    }

    fn create(&mut self, name: u8, amount: u64, terminating: bool) {
        self.uids += 1;
        let footprint = footprint(amount, true, terminating);
        let request = Request {
            ttl: None,
            ..reserve_request(self.uids, 0, Some(name), footprint.clone(), Basis::Create, 0)
        };
        if !self.world.admit(request, quota_core::decide::Measure::Given, true) {
            return;
        }
        // AlreadyExists: the API server calls the webhook before it finds the name in its storage.
        if self.stored.contains_key(&name) {
            return;
        }
        self.versions += 1;
        self.created += 1;
        let mut object = observed(
            self.uids,
            0,
            "pods",
            format!("name-{name}"),
            self.versions,
            footprint.clone(),
            None,
        );
        object.ends_reservation = false;
        let stored = Stored { uid: object.uid.clone(), amount, traits: footprint.traits };
        self.stored.insert(name, stored);
        let alive = Sighting::Alive { object: Box::new(object), quota: None };
        self.untold.entry(name).or_default().push_back(alive);
    }

    /// Stored objects are within every limit, whether or not the ledger has observed them.
    fn check(&self) {
        let limits: [(u64, Counts); 4] = [
            (HARD, |_| true),
            (HARD - 1, |stored| matches!(&stored.traits, Traits::Pod(pod) if pod.terminating)),
            (HARD - 3, |stored| matches!(&stored.traits, Traits::Pod(pod) if !pod.best_effort)),
            (UNLABELLED, |stored| stored.amount % 2 == 1),
        ];
        for (hard, counts) in limits {
            let counted = self.stored.values().filter(|stored| counts(stored));
            let sum: u64 = counted.map(|stored| stored.amount).sum();
            assert!(sum <= hard, "{sum} of {hard} are stored");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn no_limit_is_passed_by_names_that_come_back_before_their_ends_are_seen(acts in acts()) {
        let mut cluster = Cluster::with_quotas();
        for act in &acts {
            cluster.act(act);
            cluster.check();
        }
        let (mut state, mut naive) = (quota_core::state::State::default(), quota_core::audit::Naive::default());
        for entry in &cluster.world.entries {
            state.apply(entry);
            naive.apply(entry);
            prop_assert_eq!(naive.differences(&state), Vec::<String>::new());
        }
        prop_assert_eq!(super::reread(&state).digest(), state.digest());
    }

    /// A full namespace, some of whose objects are deleted and created again unchanged before any deletion is observed:
    /// all are admitted.
    #[test]
    fn objects_of_a_full_namespace_are_made_again_under_their_names(again in prop::collection::vec(0..4_u8, 0..12), shown in prop::collection::vec(0..4_u8, 0..12)) {
        let mut cluster = Cluster::default();
        cluster.world.step(&Step::SetQuota { namespace: 0, quota: 0, hard: 8, scope: 0 });
        for name in 0..4 {
            cluster.act(&Act::Create { name, amount: 2, terminating: false });
            cluster.act(&Act::Show { name });
        }
        let created = cluster.created;
        for (index, name) in again.iter().enumerate() {
            cluster.act(&Act::Delete { name: *name });
            cluster.act(&Act::Create { name: *name, amount: 2, terminating: false });
            prop_assert_eq!(cluster.created, created + index as u64 + 1);
            if let Some(name) = shown.get(index) {
                cluster.act(&Act::Show { name: *name });
            }
            cluster.act(&Act::Create { name: 9, amount: 1, terminating: false });
            prop_assert!(!cluster.stored.contains_key(&9), "there is no room");
        }
        let pending = |event: &&Event| matches!(event, Event::NameAwaited { .. });
        let events: Vec<_> = cluster.world.entries.iter().map(|entry| &entry.event).collect();
        prop_assert!(again.is_empty() || events.into_iter().any(|event| pending(&event)));
        let quota = Name::from("quota-0");
        let figure = cluster.world.state.quota(&namespace(0), &quota).unwrap().figures.remove(0);
        let mut counted = figure.used.unwrap_or_default();
        counted.add_assign(&figure.reserved);
        prop_assert_eq!(counted, Quantity::from_units(8));
    }
}
