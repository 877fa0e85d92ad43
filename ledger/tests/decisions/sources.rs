//! Reports of sources, and how far sources are consumed.

use quota_core::{
    decide::Finish,
    event::{RelistBegin, RelistOutcome, RelistScope, Watermark, Watermarks},
};

use super::*;

#[test]
fn late_events_change_nothing_and_deletion_is_final() {
    let mut given = Given::hard("pods=9");
    assert!(given.sees(&alive("a", 5, "pods=2")));
    assert!(!given.sees(&alive("a", 5, "pods=3")));
    assert!(!given.sees(&alive("a", 4, "pods=3")));
    assert!(given.sees(&deleted("a")));
    assert!(!given.sees(&deleted("a")));
    assert!(!given.sees(&alive("a", 6, "pods=2")));
    assert!(given.sees(&deleted("never-seen")));
    assert!(!given.sees(&alive("never-seen", 1, "pods=2")));
    assert_eq!(given.counted().0, "0");
}

#[test]
fn an_unknown_version_is_news_only_if_something_changed() {
    let mut given = Given::hard("pods=9");
    assert!(given.sees(&alive("a", 0, "pods=2")));
    assert!(!given.sees(&alive("a", 0, "pods=2")));
    assert!(given.sees(&alive("a", 0, "pods=3")));
}

#[test]
fn a_cursor_only_moves_on() {
    let mut given = Given::default();
    let source = Name::from("OBJECTS");
    let cursor = |position| quota_core::event::Cursor {
        incarnation: Name::from("x"),
        position,
        ..Default::default()
    };
    given.record(decide::advance(&given.state, &source, &cursor(5)).into_iter().collect());
    assert_eq!(decide::advance(&given.state, &source, &cursor(5)), None);
    assert_eq!(decide::advance(&given.state, &source, &cursor(4)), None);
    assert!(decide::advance(&given.state, &source, &cursor(6)).is_some());
    given.record(decide::reset(&given.state, &source, &Name::from("y")));
    assert_eq!(given.state.sources()["OBJECTS"].position, 0);
    assert!(decide::advance(&given.state, &source, &cursor(1)).is_some());
}

#[test]
fn how_far_a_source_was_consumed_stays_known_however_often_it_begins_anew() {
    let mut given = Given::default();
    let source = Name::from("OBJECTS");
    let resets = |given: &mut Given| {
        let events = decide::reset(&given.state, &source, &Name::from("again"));
        let count = events.len();
        given.record(events);
        count
    };
    let consumes = |given: &mut Given, position, time| {
        let cursor = quota_core::event::Cursor {
            incarnation: Name::from("again"),
            position,
            time,
            checksum: 7,
        };
        let events = decide::advance(&given.state, &source, &cursor);
        given.record(events.into_iter().collect());
    };
    let was_before = |given: &Given, time| decide::was_consumed_before(&given.state, &source, time);
    assert_eq!(resets(&mut given), 1, "at first contact nothing was before");
    assert!(!was_before(&given, at(0)));
    consumes(&mut given, 9, at(90));
    assert!(!was_before(&given, at(0)));
    assert_eq!(resets(&mut given), 2);
    let consumed_before = |given: &Given| [0, 90, 91].map(|time| was_before(given, at(time)));
    assert_eq!(consumed_before(&given), [true, true, false]);
    // The source goes back again before it has reached the former position.
    consumes(&mut given, 5, at(50));
    assert_eq!(resets(&mut given), 1);
    assert_eq!(consumed_before(&given), [true, true, false]);
    assert_eq!(resets(&mut given), 1);
    consumes(&mut given, 5, at(91));
    assert_eq!(resets(&mut given), 2);
    assert_eq!(consumed_before(&given), [true; 3]);
    assert_eq!(given.state.sources()["OBJECTS"].position, 0);
}

#[test]
fn a_list_that_is_older_than_the_watermark_has_everything_replaced_by_the_next_one() {
    let mut given = Given::hard("pods=9");
    let (source, pods) = (Name::from("bridge"), Name::from("pods"));
    let scope = RelistScope { resource: pods.clone(), namespace: None, source: source.clone() };
    let lists = |given: &mut Given, version: u64| {
        let begin = RelistBegin { scope: scope.clone(), id: None, allow_empty: true };
        given.record(decide::begin_relist(&given.state, begin, false));
        let finish = Finish {
            resource: pods.clone(),
            namespace: None,
            id: None,
            allow_empty: true,
            version,
            is_bookmark: false,
        };
        let events = decide::close_relist(&given.state, &source, &finish);
        given.record(events.clone());
        let began = given.state.relist(&scope).map(|relist| relist.began);
        given.record(
            began
                .and_then(|began| decide::end_relist(&given.state, &scope, began))
                .into_iter()
                .collect(),
        );
        events
    };
    let reports = |given: &mut Given, version: u64, seconds: i64| {
        let watermarks = Watermarks {
            source: Name::from("bridge"),
            resources: vec![Watermark {
                resource: Name::from("pods"),
                watermark: at(seconds),
                version,
                is_absent: false,
                failing: Name::default(),
            }],
            ..Watermarks::default()
        };
        given.record(vec![Event::WatermarksAdvanced(Box::new(watermarks))]);
    };
    let is_closed = |events: &[Event]| matches!(events.first(), Some(Event::RelistClosed(_)));

    assert!(is_closed(&lists(&mut given, 40)));
    reports(&mut given, 50, 1);
    assert!(is_closed(&lists(&mut given, 50)), "nothing has happened");
    let back = lists(&mut given, 14);
    let [Event::RelistEnded(ended), Event::VersionsReset(reset)] = &*back else {
        panic!("{back:?}");
    };
    assert_eq!(ended.outcome, RelistOutcome::Incomplete);
    assert_eq!(**reset, scope);
    assert!(is_closed(&lists(&mut given, 15)), "it replaces");
    assert!(given.state.version_resets().is_empty());
    reports(&mut given, 15, 2);
    assert!(is_closed(&lists(&mut given, 15)));
}

/// The stream was lost together with the cluster's etcd, so the ledger has forgotten what was reported.
#[test]
fn a_list_that_is_older_than_the_recorded_objects_shows_a_restored_cluster_too() {
    let mut given = Given::hard("pods=9");
    let (source, pods) = (Name::from("bridge"), Name::from("pods"));
    let scope = RelistScope { resource: pods.clone(), namespace: None, source: source.clone() };
    let begins = |given: &mut Given| {
        let begin = RelistBegin { scope: scope.clone(), id: None, allow_empty: true };
        given.record(decide::begin_relist(&given.state, begin, false));
    };
    let ends = |given: &Given, version: u64| {
        let finish = Finish {
            resource: pods.clone(),
            namespace: None,
            id: None,
            allow_empty: true,
            version,
            is_bookmark: false,
        };
        let events = decide::close_relist(&given.state, &source, &finish);
        matches!(events.last(), Some(Event::VersionsReset(_)))
    };
    assert!(given.sees(&alive("a", 30, "pods=1")));
    begins(&mut given);
    assert!(!ends(&given, 14), "this source does not report versions");
    let hello = Watermarks {
        source: source.clone(),
        cluster_uid: Name::from("cluster"),
        ..Watermarks::default()
    };
    given.record(vec![Event::WatermarksAdvanced(Box::new(hello))]);
    assert!(ends(&given, 14));
    assert!(!ends(&given, 30));
    // What changed since the list began may be later than the list.
    assert!(given.sees(&alive("b", 31, "pods=1")));
    assert!(!ends(&given, 30));
}

/// A publisher that names the kind replaces one that left it to be guessed.
#[test]
fn an_object_whose_kind_gets_its_right_name_is_recorded_again() {
    let mut given = Given::hard("pods=9");
    let named = |resource: &str| match alive("a", 3, "pods=1") {
        Sighting::Alive { mut object, quota } => {
            object.resource = resource.into();
            Sighting::Alive { object, quota }
        }
        other => other,
    };
    assert!(given.sees(&named("networkattachmentdefinitions.k8s.cni.cncf.io")));
    let right = named("network-attachment-definitions.k8s.cni.cncf.io");
    assert!(given.sees(&right));
    assert!(!given.sees(&right));
    assert_eq!(given.counted(), ("1".into(), "0".into()));
}
