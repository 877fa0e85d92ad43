use super::*;
use crate::{
    decide::{self, Sighting, Verdict},
    event::Actor,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{Name, Span, quota::spec::Spec, resource::ResourceList};

fn at(seconds: i64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(1_790_000_000 + seconds))
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn amounts(cpu: i64) -> ResourceList {
    let cpu = quota_semantics::quantity::Quantity::from_units(cpu);
    [(Name::from("requests.cpu"), cpu.clone()), (Name::from("count/pods"), cpu)]
        .into_iter()
        .collect()
}

fn object(id: &str, version: u64, cpu: i64) -> Observed {
    Observed {
        uid: uid(id),
        namespace: Name::from("team-a"),
        resource: Name::from("pods"),
        name: "web".into(),
        version,
        footprint: Footprint { resources: amounts(cpu), ..Footprint::default() },
        lapse: None,
        ends_reservation: false,
    }
}

fn adopted(pods: i64) -> Adopted {
    let pods = quota_semantics::quantity::Quantity::from_units(pods);
    Adopted {
        created: at(0),
        spec: Spec { hard: [(Name::from("pods"), pods)].into_iter().collect(), ..Spec::default() },
        metadata: Box::default(),
    }
}

#[derive(Default)]
struct Given {
    state: State,
    open: OpenBatch,
}

impl Given {
    fn record(&mut self, events: Vec<Event>) {
        WriteTransaction::new(&mut self.state, &mut self.open, at(0))
            .record(&Actor::named("test"), events);
    }

    fn sees(&mut self, object: Observed, quota: Option<Adopted>) {
        let sighting = Sighting::Alive { object: Box::new(object), quota: quota.map(Box::new) };
        let Verdict::Accepted(events) = decide::observe(&self.state, sighting) else {
            panic!("it is news");
        };
        self.record(events);
    }

    fn loses(&mut self, id: &str) {
        self.record(vec![Event::ObjectDeleted { uid: uid(id), namespace: Name::from("team-a") }]);
    }

    fn compare(&self, listed: &Observed) -> Comparison {
        compare(&self.state, listed, None, at(0))
    }

    fn seen(&self, id: &str) -> Option<ComparedRecord> {
        self.state.object("team-a", &uid(id)).as_ref().map(ComparedRecord::from)
    }

    fn set(&self, object: Observed, seen: Option<ComparedRecord>) -> Repaired {
        let repair = Repair::Set { object: Box::new(object), quota: None, seen, quota_seen: None };
        super::repair(&self.state, &repair, at(0))
    }

    fn end(&self, id: &str, seen: ComparedRecord) -> Repaired {
        let uid = uid(id);
        let namespace = None;
        let repair = Repair::End { namespace, uid, seen };
        super::repair(&self.state, &repair, at(0))
    }
}

#[test]
fn a_listed_object_is_the_same_or_differs() {
    let mut given = Given::default();
    assert!(matches!(given.compare(&object("a", 5, 1)), Comparison::Missing));
    given.sees(object("a", 5, 1), None);
    for version in [0, 5, 6] {
        assert!(matches!(given.compare(&object("a", version, 1)), Comparison::Same));
        let standing = given.compare(&object("a", version, 2));
        assert!(
            matches!(standing, Comparison::Changed(recorded) if recorded.version == 5),
            "{version}"
        );
    }
    let elsewhere = Observed { namespace: Name::from("team-b"), ..object("a", 5, 1) };
    assert!(matches!(given.compare(&elsewhere), Comparison::Missing));
    let fading = Observed { lapse: Some(at(60)), ..object("a", 6, 1) };
    assert!(matches!(given.compare(&fading), Comparison::Changed(_)));
    let recreated = given.compare(&object("b", 9, 1));
    assert!(matches!(recreated, Comparison::Recreated(recorded) if recorded.uid == uid("a")));
}

#[test]
fn what_the_ledger_has_seen_later_is_no_drift_and_is_never_set_back() {
    let mut given = Given::default();
    given.sees(object("a", 5, 1), None);
    assert!(matches!(given.compare(&object("a", 4, 2)), Comparison::Newer));
    let seen = given.seen("a");
    assert_eq!(given.set(object("a", 4, 2), seen), Repaired::Changed);
    given.loses("a");
    assert!(matches!(given.compare(&object("a", 6, 1)), Comparison::Newer));
    assert_eq!(given.set(object("a", 6, 1), None), Repaired::Changed);
}

#[test]
fn what_has_ceased_to_count_by_now_is_no_drift_before_that_is_recorded() {
    let mut given = Given::default();
    let fading = Observed { lapse: Some(at(30)), ..object("a", 5, 1) };
    given.sees(fading.clone(), None);
    let mut lapsed = object("a", 5, 1);
    lapsed.footprint = lapsed_footprint(&lapsed.footprint);
    let compare = |listed, now| compare(&given.state, listed, None, now);
    assert!(matches!(compare(&fading, at(30)), Comparison::Same));
    assert!(matches!(compare(&lapsed, at(30)), Comparison::Changed(_)));
    assert!(matches!(compare(&lapsed, at(31)), Comparison::Same));
}

#[test]
fn a_correction_is_for_what_was_compared_and_nothing_else() {
    let mut given = Given::default();
    given.sees(object("a", 5, 1), None);
    let seen = given.seen("a").unwrap();
    let events = match given.set(object("a", 7, 2), Some(seen)) {
        Repaired::Done(events) => events,
        other => panic!("{other:?}"),
    };
    let [Event::ObjectCorrected(correction)] = &*events else {
        panic!("{events:?}");
    };
    assert_eq!(correction.was, Some(object("a", 5, 1).footprint));
    given.record(events);
    assert_eq!(given.set(object("a", 7, 2), Some(seen)), Repaired::Right);
    assert!(matches!(given.compare(&object("a", 7, 2)), Comparison::Same));

    // The record has changed: once by another entry, once by another version alone.
    assert_eq!(given.set(object("a", 8, 3), Some(seen)), Repaired::Changed);
    assert_eq!(given.end("a", seen), Repaired::Changed);
    let seen = given.seen("a").unwrap();
    given.record(vec![Event::ObjectRefreshed {
        uid: uid("a"),
        namespace: Name::from("team-a"),
        version: 9,
        ends_reservation: false,
    }]);
    assert_eq!(given.end("a", seen), Repaired::Changed);
    assert_eq!(given.set(object("a", 9, 3), None), Repaired::Changed);
    assert_eq!(given.set(object("b", 9, 3), Some(seen)), Repaired::Changed);
}

#[test]
fn what_is_gone_is_ended_once() {
    let mut given = Given::default();
    given.sees(object("a", 5, 1), None);
    let seen = given.seen("a").unwrap();
    let Repaired::Done(events) = given.end("a", seen) else {
        panic!("it is gone");
    };
    assert!(
        matches!(&*events, [Event::ObjectEnded(ending)] if ending.cause == Cause::Drift),
        "{events:?}"
    );
    given.record(events);
    assert_eq!(given.end("a", seen), Repaired::Right);
    assert!(
        matches!(given.compare(&object("a", 5, 1)), Comparison::Missing),
        "an ended object counts again when it is observed"
    );
}

#[test]
fn limits_that_differ_are_drift_and_are_set_unless_they_were_changed_meanwhile() {
    let mut given = Given::default();
    let listed = Observed { resource: Name::from("resourcequotas"), ..object("q", 5, 1) };
    given.sees(listed.clone(), Some(adopted(3)));
    let stands = |given: &Given, pods| compare(&given.state, &listed, Some(&adopted(pods)), at(0));
    assert!(matches!(stands(&given, 3), Comparison::Same));
    assert!(matches!(stands(&given, 4), Comparison::Changed(_)));
    let labelled = Adopted { metadata: "{\"labels\":{}}".into(), ..adopted(3) };
    let labelled = compare(&given.state, &listed, Some(&labelled), at(0));
    assert!(matches!(labelled, Comparison::Same));
    let lax = Adopted {
        metadata: r#"{"annotations":{"quota-ledger.io/enforcement":"warn"}}"#.into(),
        ..adopted(3)
    };
    let lax = compare(&given.state, &listed, Some(&lax), at(0));
    assert!(matches!(lax, Comparison::Changed(_)));

    let entry = |given: &Given| Some(given.state.quota_record("team-a", "web")?.1);
    let set = |given: &Given, quota_seen| {
        let repair = Repair::Set {
            object: Box::new(listed.clone()),
            quota: Some(Box::new(adopted(4))),
            seen: given.seen("q"),
            quota_seen,
        };
        super::repair(&given.state, &repair, at(0))
    };
    assert_eq!(set(&given, None), Repaired::Changed);
    let Repaired::Done(events) = set(&given, entry(&given)) else {
        panic!("the limit is another");
    };
    given.record(events);
    assert!(matches!(stands(&given, 4), Comparison::Same));
    assert_eq!(set(&given, None), Repaired::Right);

    // The end of the quota's object ends the quota, also if the events are recorded one at a time.
    let mut ended = || {
        let Repaired::Done(events) = given.end("q", given.seen("q")?) else {
            panic!("it is gone");
        };
        let (first, _) = crate::size::at_once(events, 1);
        given.record(first);
        Some(())
    };
    while ended().is_some() {}
    assert_eq!(entry(&given), None);
}
