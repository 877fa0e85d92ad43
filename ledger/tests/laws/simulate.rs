//! Simulations of random histories.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use proptest::prelude::*;
use quota_core::{
    decide::{GroupBounds, QuotaChange},
    event::{Actor, Entry, Event, GroupRecord, QuotaRecord},
    simulate::{Candidates, Decided, Outcome, Simulation, Subject, Unsimulated},
    state::State,
};
use quota_semantics::{
    Name, Timestamp, admission::LimitKind, candidate::Candidate, quantity::Quantity,
    quota::spec::Spec, resource::ResourceList, uid::Uid,
};
use quota_testkit::histories::{steps::Step, things, world::World};
use serde_json::json;

use super::{fold, reread, strategy::steps};

/// Everything that histories ask for.
const LIMITED: [&str; 3] = ["requests.cpu", "pods", "count/deployments.apps"];

/// Simulates the entries behind `state`.
fn simulate(
    state: State,
    entries: &[Entry],
    candidates: Candidates,
) -> Result<Outcome, Unsimulated> {
    let from = state.head().time;
    let bounds = GroupBounds::default();
    let mut simulation = Simulation::begin(state, from, candidates, Vec::new(), &bounds).unwrap();
    for entry in entries {
        simulation.step(entry.clone())?;
    }
    simulation.finish(entries.last().map_or(from, |entry| entry.time))
}

/// A quota with this limit on everything that histories ask for.
fn quota(namespace: u8, name: &str, hard: i64) -> QuotaChange {
    QuotaChange {
        namespace: things::namespace(namespace),
        name: name.into(),
        fresh_uid: Uid::from_uuid([200; 16]),
        spec: Spec { hard: limited(hard), ..spec() },
        metadata: Box::default(),
        precondition: None,
    }
}

fn limited(hard: i64) -> ResourceList {
    let hard = LIMITED.map(|name| (Name::from(name), Quantity::from_units(hard)));
    ResourceList::from_iter(hard)
}

fn spec() -> Spec {
    things::spec(0, 0)
}

/// A group of the namespaces with a label.
fn group(quota: &Spec) -> Candidate {
    let group = json!({"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota",
        "metadata": {"name": "candidate"},
        "spec": {"selector": {"labels": {"matchLabels": {"team": "t-1"}}},
                 "quota": {"hard": quota.hard, "scopes": quota.scopes}}});
    Candidate::read(group.to_string().as_bytes()).unwrap()
}

fn set_quota(quota: &QuotaChange) -> Event {
    Event::QuotaSet(Arc::new(QuotaRecord {
        namespace: quota.namespace.clone(),
        name: quota.name.clone(),
        uid: quota.fresh_uid.clone(),
        created: Timestamp::EPOCH,
        spec: quota.spec.clone(),
        metadata: Box::default(),
    }))
}

fn set_group(group: Candidate) -> Event {
    let Candidate::Group { name, spec } = group else { panic!("it is a group") };
    Event::GroupSet(Arc::new(GroupRecord {
        name,
        uid: Uid::from_uuid([201; 16]),
        created: Timestamp::EPOCH,
        spec,
        metadata: Box::default(),
    }))
}

/// The names of all quotas and groups that a history sets.
fn limits(entries: &[Entry]) -> BTreeSet<Subject> {
    let limits = entries.iter().filter_map(|entry| match &entry.event {
        Event::QuotaSet(quota) => {
            Some(Subject { namespace: Some(quota.namespace.clone()), name: quota.name.clone() })
        }
        Event::GroupSet(group) => Some(Subject { namespace: None, name: group.name.clone() }),
        _ => None,
    });
    limits.collect()
}

/// How many grants among the last `count` entries ask for something for an object that nothing is known of.
fn new_requests(entries: &[Entry], count: usize) -> u64 {
    let (mut known, mut new) = (BTreeSet::new(), 0);
    for (index, entry) in entries.iter().enumerate() {
        let next = entries.get(index + 1).map(|next| &next.event);
        match &entry.event {
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                known.insert((object.namespace.clone(), object.uid.clone()));
            }
            Event::ObjectCorrected(correction) => {
                let object = &correction.object;
                known.insert((object.namespace.clone(), object.uid.clone()));
            }
            Event::ReservationGranted(granted) => {
                let key = (granted.namespace.clone(), granted.uid.clone());
                // A pod of a charged workload asks for nothing more, and neither does what takes the place of another
                // object.
                let is_alone = granted.footprint.traits.is_plain()
                    && !matches!(next, Some(Event::NameAwaited { .. }));
                let asks = LIMITED.iter().any(|name| {
                    let amount = granted.footprint.resources.get(*name);
                    amount.is_some_and(Quantity::is_positive)
                });
                if is_alone && asks && !known.contains(&key) && index + count >= entries.len() {
                    new += 1;
                }
            }
            _ => {}
        }
    }
    new
}

fn parts(entries: &[Entry], cut: f64) -> (State, &[Entry]) {
    let cut = (entries.len() as f64 * cut) as usize;
    (fold(&entries[..cut]), &entries[cut..])
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn what_was_granted_is_granted_again(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (state, entries) = parts(&world.entries, cut);
        let grants = entries.iter().filter(|entry| matches!(
            entry.event, Event::ReservationGranted(_) | Event::ReservationGrown { .. }
        ));
        let outcome = simulate(state, entries, Candidates::default()).unwrap();
        prop_assert_eq!(outcome.identity.decisions, grants.count() as u64);
        // The audit does the same on the way.
        let mut decided = Decided::new(State::default());
        for entry in world.entries.iter().cloned().map(Some).chain([None]) {
            prop_assert_eq!(decided.step(entry), Ok(()));
        }
        prop_assert_eq!(decided.state().digest(), fold(&world.entries).digest());
        prop_assert_eq!(outcome.granted, outcome.identity.decisions);
    }

    #[test]
    fn the_recorded_limits_refuse_nothing(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (state, entries) = parts(&world.entries, cut);
        // Those that do not change meanwhile.
        let changed = limits(entries);
        let mut candidates = Candidates::default();
        for space in 0..2 {
            for record in state.quota_records(&things::namespace(space)) {
                let subject = Subject { namespace: Some(record.namespace.clone()), name: record.name.clone() };
                let is_deleted = entries.iter().any(|entry| matches!(
                    &entry.event,
                    Event::QuotaDeleted { namespace, name } if *namespace == record.namespace && *name == record.name
                ));
                if !changed.contains(&subject) && !is_deleted {
                    candidates.quotas.push(QuotaChange {
                        namespace: record.namespace.clone(),
                        name: record.name.clone(),
                        fresh_uid: record.uid.clone(),
                        spec: record.spec.clone(),
                        metadata: record.metadata.clone(),
                        precondition: None,
                    });
                }
            }
        }
        let outcome = simulate(state, entries, candidates).unwrap();
        prop_assert_eq!(outcome.refused, 0);
        prop_assert_eq!(outcome.granted, outcome.identity.decisions);
        for limit in outcome.limits {
            prop_assert!(limit.least_refusing_none <= limit.hard.clone().unwrap(), "{:?}", limit);
            prop_assert!(limit.least_refusing_none <= limit.peak, "{:?}", limit);
            prop_assert!(limit.least_refusing_1_percent <= limit.least_refusing_none, "{:?}", limit);
        }
    }

    #[test]
    fn limits_of_zero_refuse_what_asks_for_something(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (state, entries) = parts(&world.entries, cut);
        let quotas = vec![quota(0, "zero", 0), quota(1, "zero", 0)];
        let candidates = Candidates { quotas, ..Candidates::default() };
        let outcome = simulate(state, entries, candidates).unwrap();
        let asks = outcome.limits.iter().any(|limit| limit.grants > 0);
        prop_assert_eq!(outcome.refused > 0, asks);
        let new = new_requests(&world.entries, entries.len());
        prop_assert!(outcome.refused + outcome.left_out >= new, "{} of {new}", outcome.refused);
        prop_assert_eq!(outcome.granted + outcome.refused + outcome.left_out, outcome.identity.decisions);
        for limit in outcome.limits.iter().filter(|limit| limit.grants > 0) {
            prop_assert!(limit.least_refusing_none.is_positive(), "{:?}", limit);
        }
        let named = outcome.refused.min(100);
        prop_assert_eq!(outcome.refusals.len() as u64, named);
        prop_assert!(outcome.refusals.iter().all(|refused| !refused.limits.is_empty()));
    }

    #[test]
    fn without_limits_nothing_is_refused(steps in steps(), cut in 0.0..1.0_f64, kept in any::<bool>()) {
        let world = World::run(&steps);
        let (state, entries) = parts(&world.entries, cut);
        let mut candidates = Candidates { deleted: limits(&world.entries).into_iter().collect(), ..Candidates::default() };
        // Those that there are in the period.
        let of_period = limits(entries);
        candidates.deleted.retain(|subject| of_period.contains(subject) || match &subject.namespace {
            Some(namespace) => state.quota_record(namespace, &subject.name).is_some(),
            None => state.group_record(&subject.name).is_some(),
        });
        if kept {
            candidates.deleted.retain(|subject| subject.namespace.is_none());
            candidates.quotas = limits(&world.entries).into_iter().filter_map(|subject| Some(QuotaChange {
                namespace: subject.namespace?,
                name: subject.name,
                ..quota(0, "", 1_000_000)
            })).collect();
        }
        let outcome = simulate(state, entries, candidates).unwrap();
        prop_assert_eq!(outcome.refused, 0);
        prop_assert_eq!(outcome.granted, outcome.identity.decisions);
    }

    #[test]
    fn the_least_limit_that_refuses_none_does_so_and_is_the_least(steps in steps(), cut in 0.0..1.0_f64) {
        let world = World::run(&steps);
        let (_, entries) = parts(&world.entries, cut);
        let state = || parts(&world.entries, cut).0;
        let with = |hard: Quantity| {
            let mut quota = quota(0, "candidate", 0);
            quota.spec.hard = [(Name::from("requests.cpu"), hard)].into_iter().collect();
            Candidates { quotas: vec![quota], ..Candidates::default() }
        };
        let outcome = simulate(state(), entries, with(Quantity::from_units(3))).unwrap();
        let limit = outcome.limits.into_iter().find(|limit| *limit.name == *"candidate").unwrap();
        let least = simulate(state(), entries, with(limit.least_refusing_none.clone())).unwrap();
        prop_assert_eq!(least.refused, 0);
        if limit.grants > 0 {
            let mut less = limit.least_refusing_none.clone();
            less.sub_assign(&Quantity::from_units(1));
            prop_assert!(simulate(state(), entries, with(less)).unwrap().refused > 0);
        }
        let few = simulate(state(), entries, with(limit.least_refusing_1_percent)).unwrap();
        prop_assert!(few.refused <= limit.grants / 100);
    }

    #[test]
    fn demand_is_a_fold_with_the_candidates(steps in steps(), cut in 0.0..1.0_f64, scope in 0..4_u8) {
        let world = World::run(&steps);
        let (mut state, entries) = parts(&world.entries, cut);
        let spec = things::spec(3, scope);
        let quota = QuotaChange { spec: Spec { hard: limited(3), ..spec.clone() }, ..quota(0, "candidate", 3) };
        let group = group(&Spec { hard: limited(3), ..spec });
        let mut candidates = Candidates { quotas: vec![quota.clone()], ..Candidates::default() };
        candidates.add(group.clone());
        let outcome = simulate(state.clone(), entries, candidates).unwrap();
        let set = [set_quota(&quota), set_group(group)];
        let head = state.head();
        let set = set.map(|event| Entry { sequence: head.sequence, time: head.time, actor: Actor::named("test"), event });
        let mut peaks = BTreeMap::new();
        for (index, entry) in set.iter().chain(entries).enumerate() {
            state.apply(entry);
            if index > 0 {
                let quota = state.quota(&quota.namespace, "candidate").unwrap().figures;
                let group = state.group("candidate").unwrap().figures;
                let figures = quota.into_iter().map(|figure| (false, figure));
                let of_group = group.into_iter().map(|figure| (true, figure.figure));
                for (is_group, figure) in figures.chain(of_group) {
                    let mut taken = figure.used.unwrap_or_default();
                    taken.add_assign(&figure.reserved);
                    let peak = peaks.entry((is_group, figure.resource)).or_insert_with(|| taken.clone());
                    *peak = taken.max(peak.clone());
                }
            }
        }
        let limits = outcome.limits.into_iter().filter(|limit| *limit.name == *"candidate");
        let found: BTreeMap<_, _> = limits.map(|limit| ((limit.kind == LimitKind::ClusterResourceQuota, limit.resource), limit.peak)).collect();
        prop_assert_eq!(found, peaks);
    }

    #[test]
    fn other_namespaces_do_not_matter(steps in steps(), cut in 0.0..1.0_f64, hard in 0..12_i64) {
        let world = World::run(&steps);
        let (state, entries) = parts(&world.entries, cut);
        let candidates = || Candidates { quotas: vec![quota(0, "quota-0", hard)], ..Candidates::default() };
        let is_own = |entry: &&Entry| {
            entry.event.namespace().is_none_or(|namespace| *namespace == things::namespace(0))
        };
        let before: Vec<Entry> = world.entries[..world.entries.len() - entries.len()].iter().filter(is_own).cloned().collect();
        let alone: Vec<Entry> = entries.iter().filter(is_own).cloned().collect();
        let begin = state.head().time;
        let mut ends = [
            simulate(fold(&before), &alone, candidates()),
            simulate(state, entries, candidates()),
        ];
        // How long a limit was reached depends on the end of the period, which is the last entry here.
        for outcome in ends.iter_mut().flatten() {
            (outcome.from, outcome.to) = (begin, begin);
            (outcome.first_sequence, outcome.last_sequence) = (1, 1);
            for limit in &mut outcome.limits {
                limit.time_full.clear();
                // What counts at first has no entry of its own.
                limit.peak_time = limit.peak_time.filter(|time| *time > begin);
                limit.peak_sequence = limit.peak_time.map_or(0, |_| limit.peak_sequence);
            }
        }
        let [alone, all] = ends;
        prop_assert_eq!(alone.unwrap(), all.unwrap());
    }

    #[test]
    fn it_is_the_same_from_a_snapshot(steps in steps(), cut in 0.0..1.0_f64, hard in 0..12_i64) {
        let world = World::run(&steps);
        let (state, entries) = parts(&world.entries, cut);
        let candidates = || Candidates { quotas: vec![quota(0, "quota-0", hard)], ..Candidates::default() };
        let resumed = simulate(reread(&state), entries, candidates());
        prop_assert_eq!(resumed, simulate(state, entries, candidates()));
    }
}

/// Two of three pods fit; the third one, and all that follows about it, is left out.
#[test]
fn what_is_refused_takes_no_room_later() {
    let mut world = World::default();
    let reserve = |uid: u8| Step::Reserve {
        namespace: 0,
        uid,
        name: None,
        amount: 2,
        pod: true,
        replica: false,
        ttl: 60,
    };
    let observe = |uid: u8| Step::Observe {
        namespace: 0,
        uid,
        version: 1,
        amount: 2,
        pod: true,
        replica: false,
        terminating: false,
        lapse: None,
    };
    for uid in 0..3 {
        assert!(world.step(&reserve(uid)));
        world.step(&observe(uid));
    }
    world.step(&Step::Delete { namespace: 0, uid: 0 });
    assert!(world.step(&reserve(3)));
    let mut four = quota(0, "small", 9);
    four.spec.hard.insert("requests.cpu".into(), Quantity::from_units(4));
    let candidates = Candidates { quotas: vec![four], ..Candidates::default() };
    let outcome = simulate(State::default(), &world.entries, candidates).unwrap();
    assert_eq!((outcome.granted, outcome.refused), (3, 1));
    assert_eq!(outcome.refusals[0].object.uid, things::uid(2));
    let cpu = outcome.limits.iter().find(|limit| *limit.resource == *"requests.cpu").unwrap();
    assert_eq!(cpu.peak, Quantity::from_units(6));
    assert_eq!(cpu.least_refusing_none, Quantity::from_units(6));
    assert_eq!((cpu.grants, cpu.refused), (4, 1));
}

/// A decision that does not follow from the recorded limits is named.
#[test]
fn a_past_that_cannot_be_reproduced_is_not_simulated() {
    let mut world = World::default();
    world.step(&Step::SetQuota { namespace: 0, quota: 0, hard: 5, scope: 0 });
    world.step(&Step::Reserve {
        namespace: 0,
        uid: 1,
        name: None,
        amount: 4,
        pod: false,
        replica: false,
        ttl: 60,
    });
    let mut forged = world.entries.clone();
    let grant = forged.last_mut().unwrap();
    let Event::ReservationGranted(reservation) = &mut grant.event else {
        panic!("{grant:?}");
    };
    let reservation = Arc::make_mut(reservation);
    let amounts = &mut Arc::make_mut(&mut reservation.footprint).resources;
    amounts.insert("requests.cpu".into(), Quantity::from_units(6));
    let sequence = grant.sequence;
    let failed = simulate(State::default(), &forged, Candidates::default()).unwrap_err();
    let Unsimulated::NotReproducible(differs) = failed else {
        panic!("{failed}");
    };
    assert_eq!(differs.sequence, sequence);
    assert!(differs.reason.contains("exceeded quota"), "{differs}");
    let mut decided = Decided::new(State::default());
    let steps = forged.iter().cloned().map(Some).chain([None]);
    let failed: Vec<_> = steps.filter_map(|entry| decided.step(entry).err()).collect();
    assert_eq!(failed, [differs]);
}
