//! Several requests, decided together.

use super::*;

#[test]
fn all_or_none_of_a_batch() {
    let mut given = Given::hard("pods=3");
    let three = [
        reserve_request("a", "pods=1"),
        reserve_request("b", "pods=1"),
        reserve_request("c", "pods=2"),
    ];
    assert!(matches!(given.reserve_all(&three), Err((2, Refusal::Denied(_)))));
    assert!(matches!(
        given.reserve_all(&[reserve_request("a", "pods=1"), reserve_request("a", "pods=1")]),
        Err((1, Refusal::UidReused(_)))
    ));
    given.reserve(&named("old", "web", "pods=3")).unwrap();
    let replacing = [named("new", "web", "pods=2"), reserve_request("b", "pods=1")];
    for reserved in given.reserve_all(&replacing).unwrap() {
        given.record(reserved.events);
    }
    assert_eq!(
        (given.end("old"), given.counted()),
        (Some(End::Superseded), ("0".into(), "3".into()))
    );
}

/// Reserves a batch. Returns the number of entries.
fn reserve_together(given: &mut Given, requests: &[Request]) -> Result<usize, (usize, Refusal)> {
    let all = given.reserve_all(requests)?;
    let events: Vec<Event> = all.into_iter().flat_map(|one| one.events).collect();
    let count = events.len();
    given.record(events);
    Ok(count)
}

#[test]
fn requests_of_a_batch_see_that_a_name_was_taken_over_before_them() {
    let mut given = Given::hard("pods=4");
    given.reserve(&named("old", "web", "pods=2")).unwrap();
    let twice = [
        named("new", "web", "pods=2"),
        named("newer", "web", "pods=2"),
        reserve_request("other", "pods=3"),
    ];
    let refused = reserve_together(&mut given, &twice);
    assert!(matches!(refused, Err((2, Refusal::Denied(_)))));
    assert_eq!(reserve_together(&mut given, &twice[..2]).unwrap(), 4);
    assert_eq!(given.counted(), ("0".into(), "2".into()));
    for superseded in ["old", "new"] {
        assert_eq!(given.end(superseded), Some(End::Superseded));
    }
}

#[test]
fn requests_of_a_batch_see_what_was_grown_before_them() {
    let mut given = Given::hard("pods=4");
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    let both = [update("a", 1, "pods=3"), reserve_request("b", "pods=2")];
    let refused = reserve_together(&mut given, &both);
    assert!(matches!(refused, Err((1, Refusal::Denied(_)))));
    let fitting = [update("a", 1, "pods=3"), reserve_request("b", "pods=1")];
    reserve_together(&mut given, &fitting).unwrap();
    assert_eq!(given.counted(), ("0".into(), "4".into()));
}

#[test]
fn a_batch_stays_below_the_limits_of_pending_reservations() {
    let mut given = Given::hard("pods=9");
    given.policy.max_pending = 2;
    let three = ["a", "b", "c"].map(|id| reserve_request(id, "pods=1"));
    let refused = reserve_together(&mut given, &three);
    assert!(matches!(refused, Err((2, Refusal::TooManyPending { pending: 2, .. }))));
    reserve_together(&mut given, &three[..2]).unwrap();
    given.policy.max_pending = 9;
    given.policy.max_pending_per_namespace = 2;
    let refused = reserve_together(&mut given, &three[2..]);
    assert!(matches!(refused, Err((0, Refusal::TooManyPending { .. }))));
}

#[test]
fn what_is_held_is_told_as_it_was_asked_for_by_the_batch_or_before() {
    let held = |refusal: Refusal| match refusal {
        Refusal::Denied(denied) => denied.quotas[0].resources[0].reserved.to_string(),
        other => panic!("{other:?}"),
    };
    let mut given = Given::hard("pods=1");
    let both = [reserve_request("a", "pods=01"), reserve_request("b", "pods=1")];
    let (_, refusal) = reserve_together(&mut given, &both).unwrap_err();
    assert_eq!(held(refusal), "01");
    given.reserve(&both[0]).unwrap();
    assert_eq!(held(given.reserve(&both[1]).unwrap_err()), "01");
}

#[test]
fn a_request_whose_reservation_the_batch_itself_supersedes_is_refused() {
    let mut given = Given::hard("pods=4");
    let old = named("old", "web", "pods=2");
    given.reserve(&old).unwrap();
    let both = [named("new", "web", "pods=2"), old];
    let refused = reserve_together(&mut given, &both);
    let Err((1, Refusal::Ended(ended))) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(ended.end, Some((End::Superseded, given.now())));
    // In the other order, the first one is granted still when it is answered.
    let both = [both[1].clone(), both[0].clone()];
    assert_eq!(reserve_together(&mut given, &both).unwrap(), 2);
}

#[test]
fn a_batch_names_no_more_resources_than_single_requests_may() {
    let mut given = Given::hard("pods=4");
    given.policy.bounds.resources_per_namespace = 5;
    given.reserve(&reserve_request("z", "a=1,b=1")).unwrap();
    let three = [
        reserve_request("x", "b=1,c=1"),
        reserve_request("y", "c=1,d=1,e=1"),
        reserve_request("w", "a=1,c=1,f=1"),
    ];
    let refused = reserve_together(&mut given, &three);
    assert!(matches!(refused, Err((2, Refusal::LimitReached { requested: 6, most: 5, .. }))));
    reserve_together(&mut given, &three[..2]).unwrap();
    given.reserve(&reserve_request("v", "a=1,e=1")).unwrap();
}
