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
    assert!(matches!(
        given.reserve_all(&three),
        Err((2, Refusal::Denied(_)))
    ));
    assert!(matches!(
        given.reserve_all(&[
            reserve_request("a", "pods=1"),
            reserve_request("a", "pods=1")
        ]),
        Err((1, Refusal::UidReused(_)))
    ));
    given.reserve(&named("old", "web", "pods=3")).unwrap();
    let replacing = [
        named("new", "web", "pods=2"),
        reserve_request("b", "pods=1"),
    ];
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
    assert!(matches!(
        refused,
        Err((2, Refusal::TooManyPending { pending: 2, .. }))
    ));
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
    let both = [
        reserve_request("a", "pods=01"),
        reserve_request("b", "pods=1"),
    ];
    let (_, refusal) = reserve_together(&mut given, &both).unwrap_err();
    assert_eq!(held(refusal), "01");
    given.reserve(&both[0]).unwrap();
    assert_eq!(held(given.reserve(&both[1]).unwrap_err()), "01");
}
