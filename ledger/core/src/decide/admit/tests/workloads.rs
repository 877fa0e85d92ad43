//! Workloads that are charged for their pods, and these pods.

use super::*;

/// A pod that names a charged workload as its controller.
fn replica(id: &str, cpu: &str) -> Review {
    let review = pod(id, cpu);
    let mut request = Request::clone(&review.request);
    if let Traits::Pod(pod) = request.footprint.traits {
        request.footprint.traits = Traits::Replica(pod);
    }
    Review {
        request: request.into(),
        ..review
    }
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
        assert_eq!(
            world.admit(&replica(id, "1")).unwrap().events.len(),
            1,
            "{id} is held"
        );
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
    plain.footprint.traits = Traits::Plain;
    plain.basis = Basis::Update { version: 0 };
    let plain = Review {
        request: plain.into(),
        ..deployment("web", 2, CORE)
    };
    assert!(world.admit(&plain).is_err());
    assert_eq!(world.counted("requests.cpu"), "0+2");
}

#[test]
fn a_charged_workload_is_scaled_by_what_one_replica_counts_for() {
    let mut world = World::with_quota(&[("requests.cpu", "5"), ("pods", "10")]);
    assert!(
        world.admit(&scale("web", 9)).unwrap().unmeasured,
        "not known"
    );
    world.admit(&deployment("web", 0, CORE)).unwrap();
    assert!(
        world
            .admit(&scale("web", 9))
            .unwrap_err()
            .starts_with("exceeded quota: q, requested: requests.cpu=9")
    );
    world.observe(&deployment("web", 0, CORE), 1);
    world.admit(&scale("web", 4)).unwrap();
    assert_eq!(world.counted("requests.cpu"), "0+4");
    assert!(world.admit(&scale("web", 2)).unwrap().events.is_empty());
    assert_eq!(world.counted("pods"), "0+4");
}

/// Anyone who may reserve can reserve anything under any uid.
#[test]
fn what_others_reserve_under_the_uid_of_an_object_does_not_measure_it() {
    let reserve = |world: &mut World, review: &Review| {
        let reserved = of_another(review.clone(), |request| {
            request.footprint = Footprint::default();
        });
        let by = By::holder("tenant");
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
    let by = By::holder("tenant");
    let all = crate::decide::reserve(
        &world.state,
        NOW,
        &by,
        &pod("a", "5").request,
        &world.policy,
    );
    WriteTransaction::new(&mut world.state, &mut world.open, NOW)
        .record(&Actor::named("tenant"), all.unwrap().events);
    let before = pod("a", "1").request.footprint.clone();
    world
        .admit(&update(pod("a", "5"), Some(before), 1))
        .unwrap();
    assert!(
        world
            .state
            .pending_of("team", &uid("a"))
            .is_some_and(|it| &*it.owner == "test")
    );
}

#[test]
fn a_template_has_to_specify_what_a_quota_on_cpu_demands() {
    let mut world = World::with_quota(&[("limits.cpu", "5"), ("count/pods", "0")]);
    let denied = world.admit(&deployment("web", 1, CORE)).unwrap_err();
    assert_eq!(denied, "failed quota: q: must specify limits.cpu for: c");
    let limited = r#"{"name":"c","resources":{"limits":{"cpu":"2"}}}"#;
    world.admit(&deployment("web", 2, limited)).unwrap();
    assert_eq!(world.counted("limits.cpu"), "0+4");
    assert_eq!(
        NOW.plus(Span::from_seconds(30)),
        world.state.next_expiration().unwrap()
    );
}
