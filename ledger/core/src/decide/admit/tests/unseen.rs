//! An API server that is ahead of the observed events: it changes objects again before it is known that it changed them.

use super::*;

/// A pod that asks for so much instead of so much, as of this version.
fn changed(id: &str, [before, after]: [&str; 2], version: u64) -> Review {
    let before = pod(id, before).request.footprint.clone();
    update(pod(id, after), Some(before), version)
}

impl World {
    /// A quota of 30 cores, and a pod of 10 that was observed in version 10.
    fn with_one_of_ten() -> Self {
        let mut world = Self::with_quota(&[("requests.cpu", "30")]);
        world.see(&pod("a", "10"), 10);
        world
    }

    /// Observes the pod with so much, and checks what counts then. The limit is full: nothing else is admitted.
    fn sees_full(&mut self, cpu: &str, version: u64, counted: &str) {
        self.see(&pod("a", cpu), version);
        assert_eq!(self.counted("requests.cpu"), counted, "in {version}");
        assert!(self.admit(&pod("another", "1")).is_err(), "in {version}");
    }
}

#[test]
fn a_second_update_is_held_until_it_is_observed_itself() {
    let mut world = World::with_one_of_ten();
    world.admit(&changed("a", ["10", "20"], 10)).unwrap();
    world.admit(&changed("a", ["20", "30"], 11)).unwrap();
    assert_eq!(world.counted("requests.cpu"), "10+20");
    world.sees_full("20", 11, "20+10");
    world.sees_full("30", 12, "30+0");
    assert_eq!(world.state.pending_count(), 0);
}

#[test]
fn an_update_that_is_tried_again_after_a_conflict_is_held_until_it_is_observed() {
    let mut world = World::with_one_of_ten();
    world.admit(&changed("a", ["10", "30"], 10)).unwrap();
    // The status was written meanwhile. Nothing more is needed.
    let again = world.admit(&changed("a", ["10", "30"], 11)).unwrap();
    assert!(again.charged.is_empty());
    let again = world.admit(&changed("a", ["10", "30"], 11)).unwrap();
    assert!(again.events.is_empty(), "it is held as long already");
    world.sees_full("10", 11, "10+20");
    world.sees_full("30", 12, "30+0");
    assert_eq!(world.state.pending_count(), 0);
}

#[test]
fn an_update_behind_a_creation_is_held_until_it_is_observed_itself() {
    let mut world = World::with_quota(&[("requests.cpu", "30")]);
    world.admit(&pod("a", "10")).unwrap();
    world.admit(&changed("a", ["10", "30"], 1)).unwrap();
    // A conflict, as above.
    world.admit(&changed("a", ["10", "30"], 2)).unwrap();
    world.sees_full("10", 1, "10+20");
    world.sees_full("10", 2, "10+20");
    world.sees_full("30", 3, "30+0");
    assert_eq!(world.state.pending_count(), 0);
}

/// What is observed counts for less in between than before and after.
#[test]
fn an_object_that_shrinks_and_grows_again_is_held_until_that_is_observed() {
    let mut world = World::with_quota(&[("requests.cpu", "30")]);
    world.see(&pod("a", "30"), 10);
    assert!(world.admit(&changed("a", ["30", "10"], 10)).unwrap().events.is_empty());
    world.admit(&changed("a", ["10", "30"], 11)).unwrap();
    world.sees_full("10", 11, "10+20");
    world.sees_full("30", 12, "30+0");

    let mut world = World::with_quota(&[("requests.cpu", "30")]);
    world.admit(&pod("a", "30")).unwrap();
    world.admit(&changed("a", ["30", "10"], 1)).unwrap();
    world.admit(&changed("a", ["10", "30"], 2)).unwrap();
    world.sees_full("30", 1, "30+0");
    world.sees_full("10", 2, "10+20");
    world.sees_full("30", 3, "30+0");
    assert_eq!(world.state.pending_count(), 0);
}

#[test]
fn a_workload_that_shrinks_and_grows_again_is_held_until_that_is_observed() {
    let mut world = World::with_quota(&[("requests.cpu", "3")]);
    world.see(&deployment("web", 3, CORE), 10);
    let up = |version| {
        let before = deployment("web", 1, CORE).request.footprint.clone();
        update(deployment("web", 3, CORE), Some(before), version)
    };
    assert!(world.admit(&up(10)).unwrap().events.is_empty(), "this version is observed");
    world.admit(&up(11)).unwrap();
    assert!(world.admit(&up(11)).unwrap().events.is_empty());
    world.see(&deployment("web", 1, CORE), 11);
    assert_eq!(world.counted("requests.cpu"), "1+2");
    // The status was written, and the scaling tried again.
    world.admit(&up(12)).unwrap();
    world.see(&deployment("web", 1, CORE), 12);
    assert_eq!(world.counted("requests.cpu"), "1+2");
    world.see(&deployment("web", 3, CORE), 13);
    assert_eq!(world.counted("requests.cpu"), "3+0");
    assert_eq!(world.state.pending_count(), 0);
}

#[test]
fn an_update_that_does_not_grow_does_not_make_a_hold_last_longer() {
    let mut world = World::with_one_of_ten();
    world.admit(&changed("a", ["10", "20"], 10)).unwrap();
    for same in [["20", "20"], ["20", "15"]] {
        let admitted = world.admit(&changed("a", same, 11)).unwrap();
        assert!(admitted.events.is_empty(), "{same:?}");
    }
    world.see(&pod("a", "20"), 11);
    assert_eq!(world.state.pending_count(), 0);
    assert_eq!(world.counted("requests.cpu"), "20+0");
}

/// The update is refused after its review, so no event ends what is held for it.
#[test]
fn what_is_held_for_an_update_that_is_never_stored_expires() {
    let mut world = World::with_one_of_ten();
    world.admit(&changed("a", ["10", "20"], 10)).unwrap();
    world.admit(&changed("a", ["20", "30"], 11)).unwrap();
    world.see(&pod("a", "20"), 11);
    let later = NOW.plus(Span::from_seconds(31));
    let due = crate::decide::due(&world.state, later, later, Span::from_seconds(600));
    let due: Vec<_> = due.collect();
    world.record(due);
    assert_eq!(world.counted("requests.cpu"), "20+0");
}

/// An update is refused after its review, and tried again when the reservation has nearly expired: the object may be
/// stored now.
#[test]
fn what_a_later_review_relies_on_is_held_as_long_as_what_is_granted_then() {
    let later = NOW.plus(Span::from_seconds(20));
    let retries = [
        changed("a", ["10", "20"], 10),
        changed("a", ["10", "15"], 10),
        changed("a", ["15", "20"], 11),
    ];
    for retry in retries {
        let mut world = World::with_one_of_ten();
        world.admit(&changed("a", ["10", "20"], 10)).unwrap();
        let asked_only = Review { holds: false, ..retry.clone() };
        for (now, review, is_prolonged) in [
            (NOW, &retry, false),
            (later, &asked_only, false),
            (later, &retry, true),
            (later, &retry, false),
        ] {
            let by = Requester::holder("test");
            let admitted = admit(&world.state, now, &by, review, &world.policy).unwrap();
            let expirations = admitted.events.iter().filter_map(|event| match event {
                Event::ReservationExtended { expiration, .. } => Some(*expiration),
                _ => None,
            });
            let until = is_prolonged.then(|| later.plus(world.policy.default_ttl));
            assert_eq!(expirations.collect::<Vec<_>>(), Vec::from_iter(until));
            world.record(admitted.events);
        }
    }
}

/// What is committed for a name that another object still bears holds only the excess over that object.
#[test]
fn a_commit_that_waits_for_a_name_is_shown_with_the_limits_that_it_takes() {
    let mut world = World::with_quota(&[("requests.cpu", "9")]);
    let named =
        |id: &str, cpu: &str| of_another(pod(id, cpu), |request| request.name = "web".into());
    world.observe(&named("old", "1"), 1);
    world.admit(&named("new", "1")).unwrap();
    let holding = |world: &World| {
        let status = world.state.reservation_status("team", &uid("new")).unwrap();
        status.holding.unwrap().quotas
    };
    assert!(holding(&world).is_empty());
    let committed = Event::ReservationCommitted {
        uid: uid("new"),
        namespace: "team".into(),
        resources: named("new", "1").request.footprint.resources.clone(),
    };
    world.record(vec![committed]);
    assert!(holding(&world).is_empty());
    world.delete("old");
    assert_eq!(holding(&world), ["q"]);
}
