//! Drift is found and repaired: afterwards there is none, and objects that changed meanwhile are left alone.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use quota_core::{
    audit::Naive,
    decide::{self, ComparedRecord, Comparison, Repair, Repaired},
    event::Observed,
    state::{ObjectView, State},
};
use quota_semantics::{Span, Timestamp, uid::Uid};
use quota_testkit::histories::{
    steps::Step,
    things::{footprint, observed},
    world::World,
};

use super::{fold, strategy::steps};

/// All existing pods, by number: amount, version, and whether the pod is being deleted.
type Listing = BTreeMap<u8, (u64, u64, bool)>;

fn listing() -> impl Strategy<Value = Listing> {
    prop::collection::btree_map(0..14_u8, (0..5_u64, 0..6_u64, any::<bool>()), 0..14)
}

fn listed(listing: &Listing, now: Timestamp) -> Vec<Observed> {
    let object = |(&number, &(amount, version, fades)): (&u8, &(u64, u64, bool))| {
        let name = format!("name-{}", number % 6);
        let lapse = fades.then(|| now.plus(Span::from_seconds(3600)));
        let footprint = footprint(amount, true, fades);
        observed(number, number % 2, "pods", name, version, footprint, lapse)
    };
    listing.iter().map(object).collect()
}

/// The recorded objects that the listing lacks.
fn gone(state: &State, listed: &[Observed]) -> Vec<ObjectView> {
    let keys = listed.iter().map(|object| (&object.namespace, &object.uid));
    let keys: BTreeSet<_> = keys.collect();
    let mut gone = Vec::new();
    let mut next = Some(0);
    while let Some(from) = next {
        // Small steps, so that there are many pages.
        let (found, then) = state.objects_from(from, 3, 2, |resource, _| resource == "pods");
        gone.extend(found.into_iter().filter(|view| !keys.contains(&(&view.namespace, &view.uid))));
        next = then;
    }
    gone
}

/// The repairs of all differences.
fn repairs(state: &State, listed: &[Observed], now: Timestamp) -> Vec<Repair> {
    let end = |view: ObjectView| Repair::End {
        seen: ComparedRecord::from(&view),
        namespace: Some(view.namespace),
        uid: view.uid,
    };
    let set = |object: &Observed, recorded: Option<&ObjectView>| Repair::Set {
        object: Box::new(object.clone()),
        quota: None,
        seen: recorded.map(ComparedRecord::from),
        quota_seen: None,
    };
    let differs = |object: &Observed| match decide::compare(state, object, None, now) {
        Comparison::Same | Comparison::Newer => None,
        Comparison::Missing | Comparison::Recreated(_) => Some(set(object, None)),
        Comparison::Changed(recorded) => Some(set(object, Some(&recorded))),
    };
    let ends = gone(state, listed).into_iter().map(end);
    ends.chain(listed.iter().filter_map(differs)).collect()
}

fn subject(repair: &Repair) -> (&str, &Uid) {
    match repair {
        Repair::Set { object, .. } => (&object.namespace, &object.uid),
        Repair::End { namespace, uid, .. } => (namespace.as_deref().unwrap_or_default(), uid),
    }
}

fn seen(state: &State, (namespace, uid): (&str, &Uid)) -> Option<ComparedRecord> {
    state.object(namespace, uid).as_ref().map(ComparedRecord::from)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn after_a_correction_there_is_no_drift(steps in steps(), listing in listing()) {
        let mut world = World::run(&steps);
        world.step(&Step::Pass { seconds: 0, behind: 0 });
        let now = world.now();
        let listed = listed(&listing, now);
        let all = repairs(&world.state, &listed, now);
        for repair in &all {
            match decide::repair(&world.state, repair, now) {
                Repaired::Done(events) => world.record(events),
                other => prop_assert!(false, "{repair:?}: {other:?}"),
            }
            let again = decide::repair(&world.state, repair, now);
            prop_assert_eq!(again, Repaired::Right);
        }
        prop_assert_eq!(repairs(&world.state, &listed, now).len(), 0);
        prop_assert_eq!(fold(&world.entries).digest(), world.state.digest());
        let mut naive = Naive::default();
        world.entries.iter().for_each(|entry| naive.apply(entry));
        prop_assert_eq!(naive.differences(&world.state), Vec::<String>::new());
    }

    #[test]
    fn what_changed_since_it_was_compared_is_left_alone(steps in steps(), meanwhile in steps(), listing in listing()) {
        let mut world = World::run(&steps);
        let listed = listed(&listing, world.now());
        let all = repairs(&world.state, &listed, world.now());
        let before: Vec<_> = all.iter().map(|repair| seen(&world.state, subject(repair))).collect();
        meanwhile.iter().for_each(|step| { world.step(step); });
        for (repair, before) in all.iter().zip(before) {
            let now = seen(&world.state, subject(repair));
            let head = world.state.head();
            if let Repaired::Done(events) = decide::repair(&world.state, repair, world.now()) {
                prop_assert_eq!(now, before, "{:?}", repair);
                world.record(events);
            } else {
                prop_assert_eq!(world.state.head(), head);
            }
        }
    }
}
