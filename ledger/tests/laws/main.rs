//! The laws of the core, over random histories.
//!
//! Every history is run twice: by the real transaction, and by the naive fold of audits, which stores no sums and
//! recounts everything from its own lists.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod drift;
mod names;
mod periods;
mod relists;
mod remembered;
mod room;
mod simulate;
mod strategy;
mod versions;

use std::collections::BTreeMap;

use proptest::prelude::*;
use quota_core::{
    audit::Naive,
    codec,
    decide::Refusal,
    event::{Entry, Event},
    state::{Holder, Part, State},
};
use quota_semantics::{
    Timestamp,
    admission::{CheckedQuota, LimitKind},
    quantity::Quantity,
};
use quota_testkit::histories::{groups, steps::Step, world::World};

use strategy::steps;

fn fold(entries: &[Entry]) -> State {
    let mut state = State::default();
    for entry in entries {
        state.apply(entry);
    }
    state
}

fn reread(state: &State) -> State {
    let mut bytes = Vec::new();
    state.image().write(&mut bytes).unwrap();
    let mut rest = bytes.as_slice();
    let read = State::read(&mut rest).unwrap();
    assert!(rest.is_empty());
    read
}

/// All parts of a number, two at a time, each checked to come after the previous one and to name its entry.
fn parts(state: &State, namespace: &str, quota: Option<&str>, resource: &str) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::new();
    loop {
        let after = all.last().map(Part::key);
        let view = state.parts_view(namespace, quota, resource).unwrap();
        let page = view.first(after.as_ref(), 2, || ());
        assert!(page.len() <= 2);
        if page.is_empty() {
            return all;
        }
        for part in page {
            assert!(
                all.last().is_none_or(|last| last.key() < part.key() && last.amount >= part.amount)
            );
            assert!(!part.amount.is_zero() && (1..=state.head().sequence).contains(&part.entry()));
            all.push(part);
        }
    }
}

fn sum(parts: &[Part], reserved: bool) -> Quantity {
    let mut sum = Quantity::ZERO;
    for part in parts {
        if matches!(part.holder, Holder::Reservation(_)) == reserved {
            sum.add_assign(&part.amount);
        }
    }
    sum
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn fold_equals_replay_equals_snapshot_and_tail(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let live = world.state.digest();
        prop_assert_eq!(fold(&world.entries).digest(), live);
        let cut = (world.entries.len() as f64 * cut) as usize;
        let mut resumed = reread(&fold(&world.entries[..cut]));
        for entry in &world.entries[cut..] {
            resumed.apply(entry);
        }
        prop_assert_eq!(resumed.digest(), live);
    }

    #[test]
    fn entries_survive_encoding(steps in steps()) {
        let world = World::run(&steps);
        for batch in world.entries.chunks(7) {
            let payload = codec::encode_entries(batch);
            let count = u32::try_from(batch.len()).unwrap();
            prop_assert_eq!(codec::decode_entries(batch[0].sequence, count, &payload).unwrap(), batch);
        }
    }

    #[test]
    fn damaged_payloads_never_panic(steps in steps(), place in any::<prop::sample::Index>(), bit in 0..8_u8) {
        let world = World::run(&steps);
        prop_assume!(!world.entries.is_empty());
        let mut payload = codec::encode_entries(&world.entries);
        let place = place.index(payload.len());
        payload[place] ^= 1 << bit;
        let _ = codec::decode_entries(1, u32::try_from(world.entries.len()).unwrap(), &payload);
        let _ = codec::decode_entries(1, 1, &payload[place..]);
    }

    #[test]
    fn sums_equal_a_recount(steps in steps()) {
        World::run_checking(&steps, |world| assert_eq!(world.naive.differences(&world.state), Vec::<String>::new()));
    }

    #[test]
    fn the_naive_fold_agrees_at_every_entry(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let cut = (world.entries.len() as f64 * cut) as usize;
        let (mut state, mut naive) = (State::default(), Naive::default());
        let mut resumed = Naive::default();
        for (index, entry) in world.entries.iter().enumerate() {
            if index == cut {
                resumed = Naive::beginning_with(&state);
            }
            state.apply(entry);
            naive.apply(entry);
            resumed.apply(entry);
            prop_assert_eq!(naive.differences(&state), Vec::<String>::new());
        }
        prop_assert_eq!(resumed.differences(&state), Vec::<String>::new());
    }

    #[test]
    fn the_naive_fold_notices_an_object_that_counts_for_something_else(steps in steps(), which in any::<prop::sample::Index>()) {
        let world = World::run(&steps);
        let seen = |entry: &&Entry| matches!(entry.event, Event::ObjectObserved(_));
        let observed: Vec<_> = world.entries.iter().filter(seen).map(|entry| entry.sequence).collect();
        prop_assume!(!observed.is_empty());
        let changed = *which.get(&observed);
        let (mut naive, mut state) = (Naive::default(), State::default());
        let mut key = None;
        for entry in &world.entries {
            naive.apply(entry);
            let mut entry = entry.clone();
            if let Event::ObjectObserved(object) = &mut entry.event && entry.sequence == changed {
                object.footprint.resources.insert("pods".into(), Quantity::from_units(77));
                key = Some((object.namespace.clone(), object.uid.clone()));
            }
            state.apply(&entry);
        }
        let (namespace, uid) = key.unwrap();
        let alive = |state: &State| state.object(&namespace, &uid).map(|object| object.footprint);
        prop_assume!(alive(&state) != alive(&world.state));
        let differences = naive.differences(&state);
        prop_assert!(differences.iter().any(|difference| difference.starts_with("object ")), "{differences:?}");
        prop_assert!(differences.iter().any(|difference| difference.contains("used pods of ")), "{differences:?}");
    }

    #[test]
    fn the_parts_of_a_number_add_up_to_it(steps in steps()) {
        let world = World::run(&steps);
        for ((namespace, name, resource), counted) in world.naive.counted() {
            let all = parts(&world.state, &namespace, Some(&name), &resource);
            prop_assert_eq!(sum(&all, false), counted.used);
            prop_assert_eq!(sum(&all, true), counted.reserved);
        }
        for namespace in world.state.namespaces("") {
            let totals = world.state.totals(namespace);
            for name in totals.used.names().chain(totals.reserved.names()) {
                let all = parts(&world.state, namespace, None, name);
                prop_assert_eq!(sum(&all, false), totals.used.get(name).cloned().unwrap_or_default());
                prop_assert_eq!(sum(&all, true), totals.reserved.get(name).cloned().unwrap_or_default());
            }
        }
        prop_assert!(world.state.parts_view("team-0", Some("none"), "pods").is_none());
    }

    #[test]
    fn what_makes_a_number_is_of_the_moment_that_it_was_taken(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let cut = (world.entries.len() as f64 * cut) as usize;
        let mut state = fold(&world.entries[..cut]);
        let spaces: Vec<String> = state.namespaces("").map(ToString::to_string).collect();
        let mut taken = Vec::new();
        for space in spaces {
            let totals = state.totals(&space);
            for name in totals.used.names().chain(totals.reserved.names()) {
                let view = state.parts_view(&space, None, name).unwrap();
                taken.push((view, totals.used.get(name).cloned(), totals.reserved.get(name).cloned()));
            }
        }
        for entry in &world.entries[cut..] {
            state.apply(entry);
        }
        for (view, used, reserved) in taken {
            let mut pauses = 0;
            let all = view.first(None, usize::MAX, || pauses += 1);
            prop_assert_eq!(sum(&all, false), used.unwrap_or_default());
            prop_assert_eq!(sum(&all, true), reserved.unwrap_or_default());
            prop_assert!(all.len() <= view.len());
        }
    }

    #[test]
    fn no_grant_passes_a_limit(steps in steps()) {
        World::run_checking(&steps, World::check_grant);
    }

    #[test]
    fn whatever_is_claimed_nothing_grows_past_a_limit(steps in steps()) {
        let mut world = World::default();
        for step in &steps {
            let before = world.naive.counted();
            world.step(step);
            let asks = matches!(step, Step::Reserve { .. } | Step::Update { .. } | Step::Admit { .. } | Step::AdmitWorkload { .. });
            if !asks {
                continue;
            }
            for (limit, counted) in world.naive.counted() {
                let grows = before.get(&limit).is_some_and(|before| counted.sum() > before.sum());
                prop_assert!(!grows || !counted.is_over(), "{limit:?}: {counted:?} by {step:?}");
            }
        }
    }

    #[test]
    fn no_grant_passes_a_limit_of_any_group(steps in steps()) {
        let mut world = World::default();
        for step in &steps {
            let before = groups::held(&world.state);
            world.step(step);
            let asks = matches!(step, Step::Reserve { .. } | Step::Update { .. } | Step::Admit { .. } | Step::AdmitWorkload { .. });
            if !asks {
                continue;
            }
            // Whatever else happened at that moment: groups that have grown by a grant are within their limits.
            for (name, (held, hard)) in groups::held(&world.state) {
                let grows = before.get(&name).is_some_and(|(before, _)| held > *before);
                prop_assert!(!grows || held <= hard, "{name}: {held} > {hard}");
            }
        }
    }

    #[test]
    fn what_is_admitted_fits_and_without_an_entry_grows_nowhere(steps in steps()) {
        World::run_checking(&steps, |world| {
            let Some((request, holds, admitted)) = &world.admitted else { return };
            let silent = admitted.events.is_empty();
            assert!(*holds || silent, "a dry run writes nothing");
            let resource = request.resource.to_string();
            let named = world.state.object_named(&request.namespace, &resource, &request.name);
            let lives = named.is_some_and(|object| object.uid != request.uid);
            if silent && *holds && admitted.replayed.is_none() && !admitted.unmeasured && !lives {
                assert!(admitted.charged.is_empty(), "{admitted:?}");
            }
            if silent {
                return;
            }
            let counted = world.naive.counted();
            let is_of_namespace = |quota: &&CheckedQuota| quota.kind == LimitKind::ResourceQuota;
            for quota in admitted.charged.iter().filter(is_of_namespace) {
                for limit in &quota.resources {
                    let key = (request.namespace.clone(), quota.name.clone(), limit.resource.clone());
                    let sum = counted[&key].sum();
                    assert!(limit.requested.is_positive() && sum <= limit.hard, "{sum}: {limit:?}");
                }
            }
        });
    }

    #[test]
    fn a_reservation_ends_at_most_once(steps in steps()) {
        let world = World::run(&steps);
        let (mut pending, mut committed) = (BTreeMap::new(), 0_usize);
        for entry in &world.entries {
            let ended = match &entry.event {
                Event::ReservationGranted(reservation) => {
                    let key = (reservation.namespace.clone(), reservation.uid.clone());
                    let before = pending.insert(key, entry.sequence);
                    prop_assert_eq!(before, None, "granted while pending");
                    continue;
                }
                Event::ReservationReleased { uid, namespace } | Event::ReservationExpired { uid, namespace }
                | Event::ReservationCommitted { uid, namespace, .. }
                | Event::ReservationSuperseded { uid, namespace, .. } => {
                    let key = (namespace.clone(), uid.clone());
                    prop_assert!(pending.contains_key(&key), "{:?} of what is not pending", entry.event);
                    committed += usize::from(matches!(entry.event, Event::ReservationCommitted { .. }));
                    key
                }
                Event::ObjectObserved(object) if object.ends_reservation => (object.namespace.clone(), object.uid.clone()),
                Event::ObjectRefreshed { uid, namespace, ends_reservation: true, .. } => (namespace.clone(), uid.clone()),
                Event::ObjectDeleted { uid, namespace } => (namespace.clone(), uid.clone()),
                Event::ObjectEnded(ending) => (ending.namespace.clone(), ending.uid.clone()),
                Event::ObjectCorrected(correction) if correction.object.ends_reservation => {
                    (correction.object.namespace.clone(), correction.object.uid.clone())
                }
                _ => continue,
            };
            pending.remove(&ended);
        }
        prop_assert!(world.state.committed_count() <= committed);
        prop_assert_eq!(pending.len(), world.state.pending_count());
    }

    #[test]
    fn the_same_request_gets_the_same_answer(steps in steps()) {
        let mut world = World::run(&steps);
        let granted: Vec<_> = world.requests.clone();
        for request in granted {
            let before = world.state.head();
            let ended = world.state.reservation(&request.namespace, &request.uid).unwrap().end;
            match world.reserve(&request) {
                Ok(reserved) => prop_assert!(reserved.replayed.is_some() && ended.is_none_or(|(end, _)| !end.is_void())),
                Err(Refusal::Ended(view)) => prop_assert!(view.end == ended && ended.is_some_and(|(end, _)| end.is_void())),
                Err(other) => prop_assert!(false, "what was granted once is {other:?}"),
            }
            prop_assert_eq!(world.state.head(), before);
        }
    }

    #[test]
    fn ledger_time_never_goes_back(steps in steps()) {
        let world = World::run(&steps);
        let mut last = Timestamp::EPOCH;
        for (index, entry) in world.entries.iter().enumerate() {
            prop_assert_eq!(entry.sequence, index as u64 + 1);
            prop_assert!(entry.time >= last);
            last = entry.time;
        }
    }

    #[test]
    fn of_racers_in_fifty_namespaces_of_a_group_exactly_k_are_admitted(room in 0..60_u64, racers in 0..120_u64, size in 1..4_u64) {
        let mut world = World::default();
        world.step(&Step::SetGroup {
            group: 0, selector: 3, parent: None, hard: room * size, guaranteed: 0, scope: 0, limits: None, shown: None,
        });
        let granted = (0..racers).filter(|racer| world.step(&Step::Reserve {
            namespace: (*racer % 50) as u8, uid: 100 + *racer as u8, name: None, amount: size, pod: false, replica: false, ttl: 60,
        })).count();
        prop_assert_eq!(granted as u64, racers.min(room));
    }

    #[test]
    fn of_racers_on_room_for_k_exactly_k_are_admitted(room in 0..20_u64, racers in 0..40_u64, size in 1..4_u64) {
        let mut world = World::default();
        world.step(&Step::SetQuota { namespace: 0, quota: 0, hard: room * size, scope: 0 });
        let granted = (0..racers).filter(|racer| world.step(&Step::Reserve {
            namespace: 0, uid: 100 + *racer as u8, name: None, amount: size, pod: false, replica: false, ttl: 60,
        })).count();
        prop_assert_eq!(granted as u64, racers.min(room));
    }
}
