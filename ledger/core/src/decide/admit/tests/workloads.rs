//! Workloads that are charged for their pods, and these pods.

use std::collections::BTreeSet;

use super::*;
use crate::{
    decide::Finish,
    event::{RelistBegin, RelistOutcome, RelistScope},
};

/// A pod that names a charged workload as its controller.
fn replica(id: &str, cpu: &str) -> Review {
    let review = pod(id, cpu);
    let mut request = Request::clone(&review.request);
    let footprint = Arc::make_mut(&mut request.footprint);
    if let Traits::Pod(pod) = &footprint.traits {
        footprint.traits = Traits::Replica(pod.clone());
    }
    Review { request, ..review }
}

#[test]
fn pods_of_a_charged_workload_are_not_counted_twice_in_whatever_order_they_come() {
    let mut world = World::with_quota(&[("requests.cpu", "3"), ("pods", "3"), ("count/pods", "9")]);
    world.admit(&replica("early", "1")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+1", "not charged yet");
    world.observe(&replica("early", "1"), 1);
    world.admit(&deployment("web", 3, CORE)).unwrap();
    assert_eq!(world.counted("requests.cpu"), "1+2");
    world.admit(&replica("p", "1")).unwrap();
    world.admit(&replica("q", "1")).unwrap();
    assert_eq!(world.counted("requests.cpu"), "1+2");
    assert_eq!(world.counted("count/pods"), "1+2");
    world.observe(&deployment("web", 3, CORE), 1);
    assert_eq!(world.counted("requests.cpu"), "3+0");
    world.observe(&replica("p", "1"), 1);
    world.observe(&replica("q", "1"), 1);
    assert_eq!(world.counted("requests.cpu"), "3+0");
    assert!(world.admit(&pod("bare", "1")).is_err());
}

#[test]
fn replicas_beyond_what_is_charged_need_room_of_their_own() {
    let mut world = World::with_quota(&[("requests.cpu", "4"), ("pods", "9")]);
    world.admit(&deployment("web", 2, CORE)).unwrap();
    for id in ["a", "b", "c"] {
        assert_eq!(world.admit(&replica(id, "1")).unwrap().events.len(), 1, "{id} is held");
    }
    assert_eq!(world.counted("requests.cpu"), "0+3");
    let denied = world.admit(&replica("forged", "100")).unwrap_err();
    assert!(denied.contains("requested: requests.cpu=100"), "{denied}");
    world.admit(&replica("d", "1")).unwrap();
    assert!(world.admit(&replica("e", "1")).is_err());
    assert_eq!(world.counted("requests.cpu"), "0+4");
}

#[test]
fn a_replica_that_is_seen_to_leave_its_workload_stays_one() {
    let mut world = World::with_quota(&[("requests.cpu", "2")]);
    world.admit(&deployment("web", 2, CORE)).unwrap();
    world.observe(&deployment("web", 2, CORE), 1);
    for id in ["a", "b"] {
        world.admit(&replica(id, "1")).unwrap();
        world.see(&replica(id, "1"), 1);
        world.see(&pod(id, "1"), 2);
    }
    assert_eq!(world.counted("requests.cpu"), "2+0");
    assert!(world.admit(&replica("c", "1")).is_err(), "it has made two");
    assert!(world.admit(&pod("d", "1")).is_err());
}

#[test]
fn what_is_held_for_a_replica_cannot_be_made_to_hold_for_something_else() {
    let mut world = World::with_quota(&[("requests.cpu", "2"), ("pods", "9")]);
    world.admit(&deployment("web", 2, CORE)).unwrap();
    world.admit(&replica("a", "1")).unwrap();
    world.admit(&replica("b", "1")).unwrap();
    let bare = pod("a", "1");
    world.admit(&bare).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+2");
    assert!(world.admit(&replica("c", "1")).is_err());
    // The charge of a workload cannot be committed either.
    let mut plain = Request::clone(&deployment("web", 2, CORE).request);
    Arc::make_mut(&mut plain.footprint).traits = Traits::Plain;
    plain.basis = Basis::Update { version: 0 };
    let plain = Review { request: plain, ..deployment("web", 2, CORE) };
    assert!(world.admit(&plain).is_err());
    assert_eq!(world.counted("requests.cpu"), "0+2");
}

#[test]
fn a_charged_workload_is_scaled_by_what_one_replica_counts_for() {
    let mut world = World::with_quota(&[("requests.cpu", "5"), ("pods", "10")]);
    world.observe(&deployment("web", 0, CORE), 1);
    assert!(
        world
            .admit(&scale("web", 9))
            .unwrap_err()
            .starts_with("exceeded quota: q, requested: requests.cpu=9")
    );
    world.admit(&scale("web", 4)).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+4");
    assert!(world.admit(&scale("web", 2)).unwrap().events.is_empty());
    assert_eq!(world.counted("pods"), "0+4");
}

const HUGE: &str = r#"{"name":"c","resources":{"requests":{"cpu":"10"}}}"#;

/// The present version may have another template: of an update that needs no room there is no entry.
#[test]
fn a_workload_is_scaled_only_if_its_present_version_is_observed() {
    let mut world = World::with_quota(&[("requests.cpu", "5")]);
    let unseen = world.admit(&scale("web", 1)).unwrap_err();
    assert!(unseen.contains("is not observed yet"), "{unseen}");
    world.admit(&deployment("web", 0, CORE)).unwrap();
    assert!(world.admit(&scale("web", 1)).is_err(), "it may have been changed");
    world.see(&deployment("web", 0, CORE), 0);
    let unknown = world.admit(&scale("web", 1)).unwrap_err();
    assert!(unknown.contains("its source gives no versions"), "{unknown}");
    world.see(&deployment("web", 0, CORE), 1);
    let huge = deployment("web", 0, HUGE);
    let changed =
        update(huge.clone(), Some(deployment("web", 0, CORE).request.footprint.clone()), 1);
    world.admit(&changed).unwrap();
    let later = of_another(scale("web", 4), |request| {
        request.basis = Basis::Update { version: 2 };
    });
    assert!(world.admit(&later).unwrap_err().contains("is not observed yet"));
    world.see(&huge, 2);
    let denied = world.admit(&later).unwrap_err();
    assert!(denied.contains("requested: requests.cpu=40"), "{denied}");
}

#[test]
fn what_a_workload_grows_by_is_held_even_if_pods_that_are_about_to_end_use_it() {
    let mut world = World::with_quota(&[("requests.cpu", "2")]);
    world.see(&deployment("web", 2, CORE), 1);
    for id in ["a", "b"] {
        world.see(&replica(id, "1"), 1);
    }
    world.see(&deployment("web", 1, CORE), 2);
    let back = of_another(scale("web", 2), |request| {
        request.basis = Basis::Update { version: 2 };
    });
    world.admit(&back).unwrap();
    for id in ["a", "b"] {
        world.delete(id);
    }
    assert_eq!(world.counted("requests.cpu"), "1+1");
    assert!(world.admit(&pod("bare", "1")).is_err());
}

/// A creation that is refused elsewhere leaves its hold, and each further one for the name looks at all of them.
#[test]
fn reservations_for_one_name_are_bounded() {
    let mut world = World::with_quota(&[("requests.cpu", "1")]);
    let of_cpu = |cpu: usize| {
        let container = format!(r#"{{"name":"c","resources":{{"requests":{{"cpu":"{cpu}m"}}}}}}"#);
        of_another(deployment("web", 0, &container), |request| {
            request.uid = uid(&format!("u{cpu}"));
        })
    };
    for cpu in 1..=16 {
        world.admit(&of_cpu(cpu)).unwrap();
    }
    let refused = world.admit(&of_cpu(17)).unwrap_err();
    assert!(refused.contains("16 reservations are pending"), "{refused}");
    world.admit(&of_cpu(16)).unwrap();
}

/// Anyone who may reserve can reserve anything under any uid.
#[test]
fn what_others_reserve_under_the_uid_of_an_object_does_not_measure_it() {
    let reserve = |world: &mut World, review: &Review| {
        let reserved = of_another(review.clone(), |request| {
            request.footprint = Arc::default();
        });
        let by = Requester::holder("tenant");
        let granted =
            crate::decide::reserve(&world.state, NOW, &by, &reserved.request, &world.policy);
        WriteTransaction::new(&mut world.state, &mut world.open, NOW)
            .record(&Actor::named("tenant"), granted.unwrap().events);
    };
    let mut world = World::with_quota(&[("requests.cpu", "5")]);
    world.see(&deployment("web", 1, CORE), 1);
    reserve(&mut world, &deployment("web", 1, CORE));
    let scaled = world.admit(&scale("web", 9));
    assert!(scaled.unwrap_err().contains("requested: requests.cpu=8"));

    // An object that is not observed.
    let mut world = World::with_quota(&[("requests.cpu", "5")]);
    let by = Requester::holder("tenant");
    let all = crate::decide::reserve(&world.state, NOW, &by, &pod("a", "5").request, &world.policy);
    WriteTransaction::new(&mut world.state, &mut world.open, NOW)
        .record(&Actor::named("tenant"), all.unwrap().events);
    let before = pod("a", "1").request.footprint.clone();
    world.admit(&update(pod("a", "5"), Some(before), 1)).unwrap();
    assert!(world.state.pending_of("team", &uid("a")).is_some_and(|it| &*it.owner == "test"));
}

#[test]
fn a_template_has_to_specify_what_a_quota_on_cpu_demands() {
    let mut world = World::with_quota(&[("limits.cpu", "5"), ("count/pods", "0")]);
    let denied = world.admit(&deployment("web", 1, CORE)).unwrap_err();
    assert_eq!(denied, "failed quota: q: must specify limits.cpu for: c");
    let limited = r#"{"name":"c","resources":{"limits":{"cpu":"2"}}}"#;
    world.admit(&deployment("web", 2, limited)).unwrap();
    assert_eq!(world.counted("limits.cpu"), "0+4");
    assert_eq!(NOW.plus(Span::from_seconds(30)), world.state.next_expiration().unwrap());
}

/// A tenant's reservation, unlike the webhook's, may say of an object whatever its principal likes.
#[test]
fn what_others_reserve_for_an_observed_pod_does_not_make_it_a_replica() {
    let mut world = World::with_quota(&[("requests.cpu", "9"), ("pods", "9")]);
    world.see(&deployment("web", 1, CORE), 1);
    world.see(&pod("a", "1"), 1);
    assert_eq!(world.counted("requests.cpu"), "2+0");
    let by = Requester::holder("tenant");
    let forged = of_another(replica("a", "0"), |request| request.name = "b".into());
    let granted = crate::decide::reserve(&world.state, NOW, &by, &forged.request, &world.policy);
    world.record(granted.unwrap().events);
    world.see(&pod("a", "1"), 2);
    assert_eq!(world.counted("requests.cpu"), "2+0");
}

/// A publisher may list all namespaces at once, or each by itself.
#[test]
fn a_pod_of_a_kind_that_is_no_longer_charged_is_listed_as_a_pod() {
    for namespace in [None, Some("team".into())] {
        let mut world = World::with_quota(&[("requests.cpu", "9")]);
        let source = Name::from("test");
        world.see(&replica("a", "1"), 1);
        let charged = BTreeSet::from([Name::from("deployments.apps")]);
        let changed = crate::decide::set_charging(&world.state, &charged, Some(&source));
        world.record(changed);
        world.see(&deployment("web", 1, CORE), 1);
        let begin = RelistBegin {
            scope: RelistScope { resource: "pods".into(), namespace, source: source.clone() },
            id: None,
            allow_empty: false,
        };
        world.record(crate::decide::begin_relist(&world.state, begin, false));
        let listed = Sighting::Alive { object: Box::new(observed(&pod("a", "1"), 1)), quota: None };
        world.record(crate::decide::replace(&world.state, &source, listed).unwrap());
        assert_eq!(world.counted("requests.cpu"), "2+0");
    }
}

#[test]
fn a_commit_is_returned_while_the_webhook_holds_for_the_same_object() {
    let mut world = World::with_quota(&[("requests.cpu", "9")]);
    let by = Requester::holder("tenant");
    let reserved =
        crate::decide::reserve(&world.state, NOW, &by, &pod("a", "1").request, &world.policy);
    let by_tenant = |world: &mut World, events: Vec<Event>| {
        WriteTransaction::new(&mut world.state, &mut world.open, NOW)
            .record(&Actor::named("tenant"), events);
    };
    by_tenant(&mut world, reserved.unwrap().events);
    let bounds = world.policy.bounds.clone();
    let committed = crate::decide::commit(&world.state, &by, "team", &uid("a"), None, &bounds);
    by_tenant(&mut world, committed.unwrap());
    let before = pod("a", "1").request.footprint.clone();
    world.admit(&update(pod("a", "3"), Some(before), 1)).unwrap();
    assert!(world.state.pending_of("team", &uid("a")).is_some());
    let returned = crate::decide::release(&world.state, &by, "team", &uid("a")).unwrap();
    assert!(matches!(&returned[..], [Event::ReservationReturned { .. }]));
    by_tenant(&mut world, returned);
    assert!(world.state.committed("team", &uid("a")).is_none());
    assert!(world.state.pending_of("team", &uid("a")).is_some());
    assert!(crate::decide::release(&world.state, &by, "team", &uid("a")).is_err());
}

/// The objects of all relists that are under way were counted by the previous rule.
#[test]
fn all_relists_are_cut_off_by_a_change_of_the_charge_and_their_kinds_awaited() {
    let mut world = World::with_quota(&[("requests.cpu", "9")]);
    let source = Name::from("test");
    world.see(&pod("a", "1"), 1);
    let scope = |resource: &str| RelistScope {
        resource: resource.into(),
        namespace: None,
        source: source.clone(),
    };
    for resource in ["pods", "services"] {
        let begin = RelistBegin { scope: scope(resource), id: None, allow_empty: true };
        world.record(crate::decide::begin_relist(&world.state, begin, false));
    }
    let finish = Finish {
        resource: "services".into(),
        namespace: None,
        id: None,
        allow_empty: true,
        version: 0,
        is_bookmark: false,
    };
    world.record(crate::decide::close_relist(&world.state, &source, &finish));

    let charged = BTreeSet::from([Name::from("deployments.apps")]);
    let changed = crate::decide::set_charging(&world.state, &charged, Some(&source));
    let ended = changed.iter().filter_map(|event| match event {
        Event::RelistEnded(end) if end.outcome == RelistOutcome::Incomplete => {
            Some(end.scope.clone())
        }
        _ => None,
    });
    let ended: Vec<_> = ended.collect();
    assert_eq!(ended, [scope("pods"), scope("services")]);
    world.record(changed);
    assert_eq!(world.state.relist_count(), 0);
    let resets = ["deployments.apps", "pods", "services"].map(scope);
    assert!(world.state.version_resets().iter().eq(&resets));
}
