//! A relist restores the true state, whatever was lost before it, and ends no object that exists.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quota_core::{
    decide::{self, Finish, Sighting, Verdict},
    event::{Actor, Entry, Event, RelistBegin, RelistScope},
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{Name, Timestamp, uid::Uid};
use quota_testkit::histories::things::{footprint, namespace, observed};

/// A change in the cluster.
#[derive(Clone, Debug)]
enum Happening {
    Create { space: u8, amount: u64 },
    Change { which: prop::sample::Index, amount: u64 },
    Delete { which: prop::sample::Index },
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..2_u8, 0..4_u64).prop_map(|(space, amount)| Happening::Create { space, amount }),
        2 => (any::<prop::sample::Index>(), 0..4_u64).prop_map(|(which, amount)| Happening::Change { which, amount }),
        2 => any::<prop::sample::Index>().prop_map(|which| Happening::Delete { which }),
    ]
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Thing {
    space: u8,
    amount: u64,
    version: u64,
}

/// The state of the cluster.
#[derive(Clone, Debug, Default)]
struct Outside {
    things: BTreeMap<u64, Thing>,
    version: u64,
}

impl Outside {
    /// Applies a change, and returns the event of the watch.
    fn happen(&mut self, happening: &Happening) -> Option<Sighting> {
        self.version += 1;
        let numbers: Vec<u64> = self.things.keys().copied().collect();
        let number = match happening {
            Happening::Create { .. } => self.version,
            Happening::Change { which, .. } | Happening::Delete { which } => {
                (!numbers.is_empty()).then(|| *which.get(&numbers))?
            }
        };
        match *happening {
            Happening::Create { space, amount } => {
                let version = self.version;
                self.things.insert(number, Thing { space, amount, version });
            }
            Happening::Change { amount, .. } => {
                let thing = self.things.get_mut(&number)?;
                (thing.amount, thing.version) = (amount, self.version);
            }
            Happening::Delete { .. } => {
                let space = self.things.remove(&number)?.space;
                return Some(Sighting::Deleted {
                    uid: uid(number),
                    namespace: namespace(space),
                    quota: None,
                });
            }
        }
        Some(alive(number, self.things.get(&number)?))
    }
}

fn uid(number: u64) -> Uid {
    Uid::new(&format!("u-{number}")).unwrap()
}

fn alive(number: u64, thing: &Thing) -> Sighting {
    let name = format!("name-{number}");
    let footprint = footprint(thing.amount, true, false);
    let mut object = observed(0, thing.space, "pods", name, thing.version, footprint, None);
    object.uid = uid(number);
    Sighting::Alive { object: Box::new(object), quota: None }
}

const SOURCE: &str = "stream/OBJECTS";

/// A ledger that consumes a stream, as the daemon does.
#[derive(Default)]
struct Inside {
    state: State,
    open: OpenBatch,
    entries: Vec<Entry>,
}

impl Inside {
    fn record(&mut self, events: impl IntoIterator<Item = Event>) {
        let mut transaction =
            WriteTransaction::new(&mut self.state, &mut self.open, Timestamp::EPOCH);
        transaction.record(&Actor::named(SOURCE), events);
        self.entries.extend(self.open.take());
    }

    fn see(&mut self, sighting: &Sighting) {
        match decide::observe(&self.state, sighting.clone()) {
            Verdict::Accepted(events) => self.record(events),
            Verdict::Ignored(_) => {
                let source = Name::from(SOURCE);
                let uids: Vec<Uid> =
                    decide::listed(&self.state, &source, sighting).cloned().into_iter().collect();
                if !uids.is_empty() {
                    self.record([Event::ObjectsListed { source, uids }]);
                }
            }
        }
    }

    fn begin(&mut self, scope: &RelistScope) {
        let begin = RelistBegin { scope: scope.clone(), id: None, allow_empty: true };
        let events = decide::begin_relist(&self.state, begin, false);
        self.record(events);
    }

    fn finish(&mut self, scope: &RelistScope) {
        let finish = Finish {
            resource: scope.resource.clone(),
            namespace: scope.namespace.clone(),
            id: None,
            allow_empty: false,
            version: 0,
            is_bookmark: false,
        };
        let events = decide::close_relist(&self.state, &scope.source, &finish);
        self.record(events);
    }

    /// Reads this many places from `from` on for objects that are gone. Returns the next place.
    fn sweep(&mut self, scope: &RelistScope, from: u32, most: u32) -> Option<u32> {
        let relist = self.state.relist(scope)?;
        let (uids, next) = self.state.unlisted(scope, from, most);
        let gone = decide::end_unlisted(&self.state, scope, relist.began, &uids);
        self.record(gone);
        if next.is_none() {
            let over = decide::end_relist(&self.state, scope, relist.began);
            self.record(over);
        }
        next
    }

    /// Restarts with the written entries.
    fn restart(&mut self) {
        let mut bytes = Vec::new();
        self.state.image().write(&mut bytes).unwrap();
        self.state = State::read(&mut bytes.as_slice()).unwrap();
    }

    fn things(&self) -> BTreeMap<Uid, (Name, u64, String)> {
        let mut all = BTreeMap::new();
        for space in self.state.namespaces("") {
            for view in self.state.objects(space, None, usize::MAX, |_, _| true) {
                let cpu = view.footprint.resources.get("requests.cpu").unwrap();
                all.insert(view.uid, (view.namespace, view.version, cpu.to_string()));
            }
        }
        all
    }
}

fn truth(outside: &Outside) -> BTreeMap<Uid, (Name, u64, String)> {
    let thing = |(number, thing): (&u64, &Thing)| {
        let thing = (namespace(thing.space), thing.version, thing.amount.to_string());
        (uid(*number), thing)
    };
    outside.things.iter().map(thing).collect()
}

/// The sightings between the begin of a relist and its end, in any order that keeps those of the list and those of the
/// watch in order.
fn interleaved(list: &[Sighting], live: &[Sighting], order: &[bool]) -> Vec<Sighting> {
    let (mut list, mut live) = (list.iter(), live.iter());
    let mut merged = Vec::new();
    for &lists in order {
        merged.extend(if lists { list.next() } else { live.next() });
    }
    merged.extend(list);
    merged.extend(live);
    merged.into_iter().cloned().collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn after_loss_a_relist_leads_to_the_truth(
        past in prop::collection::vec((happening(), any::<bool>()), 0..40),
        during in prop::collection::vec(happening(), 0..12),
        order in prop::collection::vec(any::<bool>(), 0..40),
        begun_before in prop::option::of(0..20_usize),
        after in prop::collection::vec(happening(), 0..6),
        only in prop::option::of(0..2_u8),
        restart in 0..40_usize,
        page in 1..5_u32,
    ) {
        let scope = RelistScope {
            resource: Name::from("pods"),
            namespace: only.map(namespace),
            source: Name::from(SOURCE),
        };
        let (mut outside, mut inside) = (Outside::default(), Inside::default());
        for (index, (happening, lost)) in past.iter().enumerate() {
            // An unfinished relist of the same scope has no effect.
            if begun_before == Some(index) {
                inside.begin(&scope);
            }
            let reported = outside.happen(happening);
            let is_elsewhere = |sighting: &Sighting| only.is_some_and(|only| match sighting {
                Sighting::Alive { object, .. } => object.namespace != namespace(only),
                Sighting::Deleted { namespace: space, .. }
                | Sighting::NamespaceEnded { namespace: space, .. } => *space != namespace(only),
                Sighting::Namespace(record) => record.name != namespace(only),
                Sighting::Group { .. } | Sighting::GroupEnded { .. } => true,
            });
            // Events outside the scope of the relist have to be received without it.
            if let Some(sighting) = reported && (!lost || is_elsewhere(&sighting)) {
                inside.see(&sighting);
            }
        }
        let in_scope = |thing: &Thing| only.is_none_or(|only| thing.space == only);
        let listed: Vec<(u64, Thing)> = outside.things.iter()
            .filter(|(_, thing)| in_scope(thing))
            .map(|(number, thing)| (*number, thing.clone()))
            .collect();
        let list: Vec<_> = listed.iter().map(|(number, thing)| alive(*number, thing)).collect();
        let live: Vec<_> = during.iter().filter_map(|happening| outside.happen(happening)).collect();
        inside.begin(&scope);
        for (index, sighting) in interleaved(&list, &live, &order).iter().enumerate() {
            inside.see(sighting);
            if index == restart {
                inside.restart();
            }
        }
        inside.finish(&scope);
        // Changes go on while the relist is being finished.
        let mut after = after.iter();
        let mut next = Some(0);
        while let Some(from) = next {
            next = inside.sweep(&scope, from, page);
            if let Some(sighting) = after.next().and_then(|happening| outside.happen(happening)) {
                inside.see(&sighting);
            }
            if restart % 3 == 0 {
                inside.restart();
            }
        }
        prop_assert_eq!(inside.things(), truth(&outside));
        prop_assert_eq!(inside.state.relist_count(), 0);
        let mut again = State::default();
        inside.entries.iter().for_each(|entry| again.apply(entry));
        prop_assert_eq!(again.digest(), inside.state.digest());
    }

    #[test]
    fn a_relist_ends_nothing_that_is_there_and_listed(
        past in prop::collection::vec((happening(), any::<bool>()), 0..30),
        during in prop::collection::vec((happening(), any::<bool>()), 0..20),
        order in prop::collection::vec(any::<bool>(), 0..40),
        gap in prop::option::of(0..20_usize),
        cut in prop::option::of(0..20_usize),
    ) {
        let scope = RelistScope {
            resource: Name::from("pods"),
            namespace: None,
            source: Name::from(SOURCE),
        };
        let (mut outside, mut inside) = (Outside::default(), Inside::default());
        for (happening, lost) in &past {
            if let Some(sighting) = outside.happen(happening).filter(|_| !lost) {
                inside.see(&sighting);
            }
        }
        let list: Vec<_> = outside.things.iter().map(|(number, thing)| alive(*number, thing)).collect();
        let before: BTreeSet<u64> = outside.things.keys().copied().collect();
        let live: Vec<_> = during.iter()
            .filter_map(|(happening, lost)| outside.happen(happening).filter(|_| !lost))
            .collect();
        inside.begin(&scope);
        let merged = interleaved(&list, &live, &order);
        for (index, sighting) in merged.iter().enumerate() {
            // Sightings in a gap may have been part of the list.
            if gap == Some(index) {
                inside.record([decide::gap(&Name::from("OBJECTS"), 1, 1)]);
                continue;
            }
            inside.see(sighting);
            if cut == Some(index) {
                inside.begin(&scope);
                list.iter().for_each(|sighting| inside.see(sighting));
            }
        }
        inside.finish(&scope);
        let mut next = inside.state.relist(&scope).map(|_| 0);
        while let Some(from) = next {
            next = inside.sweep(&scope, from, 3);
        }
        let lives_on: BTreeSet<Uid> = outside.things.keys()
            .filter(|number| before.contains(number))
            .map(|number| uid(*number))
            .collect();
        for entry in &inside.entries {
            if let Event::ObjectEnded(ending) = &entry.event {
                prop_assert!(!lives_on.contains(&ending.uid), "{} was ended", ending.uid);
            }
        }
    }
}
