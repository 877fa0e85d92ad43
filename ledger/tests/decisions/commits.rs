//! Commits: the holder's statement that the object exists.

use super::*;

#[test]
fn a_commit_counts_as_used_and_takes_no_more_than_was_reserved() {
    let mut given = Given::hard("pods=4");
    given.reserve(&reserve_request("a", "pods=3")).unwrap();
    let commit = |given: &Given, amounts: Option<&str>| {
        decide::commit(
            &given.state,
            &by(),
            "team-a",
            &uid("a"),
            amounts.map(list).as_ref(),
            &given.policy.bounds,
        )
    };
    assert!(matches!(commit(&given, Some("pods=4")), Err(Refusal::ExceedsReservation { .. })));
    assert!(matches!(commit(&given, Some("services=1")), Err(Refusal::ExceedsReservation { .. })));
    given.record(commit(&given, Some("pods=2")).unwrap());
    assert_eq!((given.end("a"), given.counted()), (Some(End::Committed), ("2".into(), "0".into())));
    assert!(commit(&given, None).unwrap().is_empty(), "repeated, it changes nothing");
    assert!(given.sees(&alive("a", 3, "pods=1")));
    assert!(given.sees(&deleted("a")));
    assert_eq!(given.counted(), ("0".into(), "0".into()));
}

#[test]
fn so_much_is_committed_in_a_namespace() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.committed_per_namespace = 1;
    for id in ["a", "b"] {
        given.reserve(&reserve_request(id, "pods=1")).unwrap();
    }
    let commit = |given: &Given, id: &str| {
        let bounds = &given.policy.bounds;
        decide::commit(&given.state, &by(), "team-a", &uid(id), None, bounds)
    };
    let events = commit(&given, "a").unwrap();
    given.record(events);
    assert!(commit(&given, "a").unwrap().is_empty());
    assert!(matches!(commit(&given, "b"), Err(Refusal::LimitReached { .. })));
    let returned = decide::release(&given.state, &by(), "team-a", &uid("a"));
    given.record(returned.unwrap());
    assert_eq!(commit(&given, "b").unwrap().len(), 1);
}

#[test]
fn a_principal_commits_so_much_in_all_namespaces() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.committed_per_principal = 2;
    let anybody = Requester { is_anybody: true, ..by() };
    let commit = |state: &State, by: &Requester, policy: &Policy, id: &str| {
        decide::commit(state, by, &format!("team-{id}"), &uid(id), None, &policy.bounds)
    };
    for id in ["a", "b", "c"] {
        let request =
            Request { namespace: format!("team-{id}").into(), ..reserve_request(id, "pods=1") };
        given.reserve(&request).unwrap();
    }
    for id in ["a", "b"] {
        let events = commit(&given.state, &by(), &given.policy, id).unwrap();
        given.record(events);
    }
    let mut image = Vec::new();
    given.state.image().write(&mut image).unwrap();
    let restored = State::read(&mut &*image).unwrap();
    for state in [&given.state, &restored] {
        let refused = commit(state, &by(), &given.policy, "c").unwrap_err();
        let key = "limits.committed_per_principal";
        assert!(
            matches!(refused, Refusal::LimitReached { limit, requested: 3, most: 2 } if limit == key),
            "{refused}"
        );
        assert!(commit(state, &by(), &given.policy, "a").unwrap().is_empty());
        assert_eq!(commit(state, &anybody, &given.policy, "c").unwrap().len(), 1);
    }
    let returned = decide::release(&given.state, &by(), "team-a", &uid("a"));
    given.record(returned.unwrap());
    let events = commit(&given.state, &by(), &given.policy, "c").unwrap();
    given.record(events);

    // The commit of an object that a source reports ends.
    let request = Request { namespace: "team-d".into(), ..reserve_request("d", "pods=1") };
    given.reserve(&request).unwrap();
    assert!(commit(&given.state, &by(), &given.policy, "d").is_err());
    let mut sighting = alive("b", 3, "pods=1");
    if let Sighting::Alive { object, .. } = &mut sighting {
        object.namespace = "team-b".into();
    }
    assert!(given.sees(&sighting));
    assert_eq!(commit(&given.state, &by(), &given.policy, "d").unwrap().len(), 1);
}

/// It is then a commit of the other principal.
#[test]
fn a_commit_that_replaces_that_of_another_principal_is_bounded_as_a_new_one() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.committed_per_principal = 1;
    given.policy.bounds.committed_per_namespace = 2;
    let record = |given: &mut Given, holder: &'static str, events| {
        let now = given.now();
        WriteTransaction::new(&mut given.state, &mut given.open, now)
            .record(&Actor::named(holder), events);
    };
    let other = Requester::holder("other");
    let commit = |given: &Given, by: &Requester, id: &str| {
        let bounds = &given.policy.bounds;
        decide::commit(&given.state, by, "team-a", &uid(id), None, bounds)
    };
    // As an update under review is held beside the commit of the object.
    let held = Given::hard("pods=9").reserve(&reserve_request("a", "pods=2"));
    for (holder, id) in [("test", "a"), ("other", "b")] {
        let reserved = Given::hard("pods=9").reserve(&reserve_request(id, "pods=1"));
        record(&mut given, holder, reserved.unwrap().events);
        let events = commit(&given, &Requester::holder(holder), id).unwrap();
        record(&mut given, holder, events);
    }
    record(&mut given, "other", held.unwrap().events);
    let refused = commit(&given, &other, "a").unwrap_err();
    assert!(
        matches!(refused, Refusal::LimitReached { limit, .. } if limit == "limits.committed_per_principal"),
        "{refused}"
    );
    let returned = decide::release(&given.state, &other, "team-a", &uid("b"));
    record(&mut given, "other", returned.unwrap());
    assert_eq!(commit(&given, &other, "a").unwrap().len(), 1);
}

#[test]
fn what_was_committed_is_given_back_once_unless_a_source_has_shown_it() {
    let mut given = Given::hard("pods=9");
    let release =
        |given: &Given, id: &str| decide::release(&given.state, &by(), "team-a", &uid(id));
    for id in ["a", "b"] {
        given.reserve(&reserve_request(id, "pods=2")).unwrap();
        given.record(
            decide::commit(&given.state, &by(), "team-a", &uid(id), None, &given.policy.bounds)
                .unwrap(),
        );
    }
    assert_eq!(given.counted(), ("4".into(), "0".into()));
    given.record(release(&given, "a").unwrap());
    assert_eq!(given.counted(), ("2".into(), "0".into()));
    assert_eq!(given.end("a"), Some(End::Returned));
    assert!(release(&given, "a").unwrap().is_empty());
    assert!(matches!(given.reserve(&reserve_request("a", "pods=2")), Err(Refusal::Ended(_))));
    assert!(given.reserve(&reserve_request("b", "pods=2")).unwrap().replayed.is_some());
    given.sees(&alive("b", 3, "pods=1"));
    assert_eq!(given.counted(), ("1".into(), "0".into()));
    assert!(matches!(release(&given, "b"), Err(Refusal::AlreadyObserved(_))));
}

/// Watches look only at entries that may change what counts.
#[test]
fn an_event_that_ends_a_commit_is_more_than_a_new_version() {
    let mut given = Given::hard("pods=9");
    given.sees(&alive("a", 5, "pods=1"));
    given.reserve(&reserve_request("a", "pods=2")).unwrap();
    let bounds = &given.policy.bounds;
    let committed = decide::commit(&given.state, &by(), "team-a", &uid("a"), None, bounds);
    given.record(committed.unwrap());
    assert_eq!(given.counted(), ("2".into(), "0".into()));
    let verdict = decide::observe(&given.state, alive("a", 6, "pods=1"));
    let decide::Verdict::Accepted(events) = verdict else { panic!("{verdict:?}") };
    assert!(matches!(&*events, [Event::ObjectObserved(_)]), "{events:?}");
    given.record(events);
    assert_eq!(given.counted(), ("1".into(), "0".into()));
}
