//! One reservation, from its request to its end.

use std::{collections::BTreeMap, sync::Arc};

use quota_core::{
    decide::Consumed,
    event::{Watermark, Watermarks},
};
use quota_semantics::{
    admission::CheckedQuota,
    object::{PodTraits, Traits},
    quantity::Quantity,
};

use super::*;

#[test]
fn a_denial_speaks_kubernetes_words_and_then_of_reservations() {
    let mut given = Given::hard("pods=2,requests.cpu=2");
    given.sees(&alive("seen", 1, "pods=1,requests.cpu=500m"));
    let alone = denied(given.reserve(&reserve_request("big", "requests.cpu=2")));
    assert_eq!(
        alone.detail,
        "exceeded quota: compute, requested: requests.cpu=2, used: requests.cpu=500m, limited: requests.cpu=2",
    );
    assert_eq!(alone.retry_after, None);
    given.reserve(&reserve_request("first", "requests.cpu=1")).unwrap();
    given.seconds += 10;
    let beside = denied(given.reserve(&reserve_request("second", "pods=1,requests.cpu=1")));
    assert_eq!(
        beside.detail,
        "exceeded quota: compute, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2; \
         reserved: requests.cpu=1 by 1 pending reservation, next expires in 20s",
    );
    assert_eq!(beside.retry_after, Some(at(30)));
    let cpu = &beside.quotas[0].resources[1];
    assert_eq!(
        (cpu.used.to_string(), cpu.reserved.to_string(), cpu.requested.to_string()),
        ("500m".into(), "1".into(), "1".into())
    );
}

#[test]
fn a_denial_says_whether_it_could_ever_be_granted() {
    let mut given = Given::hard("pods=3,requests.cpu=8");
    given.sees(&alive("seen", 1, "pods=1,requests.cpu=6"));
    let fits =
        |given: &mut Given, request: &Request| denied(given.reserve(request)).fits_when_empty;
    assert!(fits(&mut given, &reserve_request("b", "pods=3")));
    assert!(!fits(&mut given, &reserve_request("c", "pods=4")));
    let grows_to = |amounts| Request {
        basis: Basis::Update { version: 1 },
        ..reserve_request("seen", amounts)
    };
    let grown = fits(&mut given, &grows_to("pods=1,requests.cpu=9"));
    assert!(!grown, "it grows by 3 of 8, but to more than 8");
    given.sees(&alive("other", 1, "pods=1,requests.cpu=1"));
    assert!(fits(&mut given, &grows_to("pods=1,requests.cpu=8")));
}

#[test]
fn retry_is_worth_it_once_enough_reservations_have_expired() {
    let mut given = Given::hard("pods=3");
    for (seconds, id) in [(0, "a"), (5, "b"), (5, "c")] {
        given.seconds += seconds;
        given.reserve(&reserve_request(id, "pods=1")).unwrap();
    }
    assert_eq!(denied(given.reserve(&reserve_request("d", "pods=2"))).retry_after, Some(at(35)));
    assert_eq!(denied(given.reserve(&reserve_request("d", "pods=4"))).retry_after, None);
}

/// Other requests wait for the search, so its work is bounded: all requests of one call share the work of one search.
#[test]
fn the_search_for_room_is_bounded_and_shared() {
    let mut given = Given::hard("pods=800");
    for number in 0..800 {
        given.reserve(&reserve_request(&format!("u{number}"), "pods=1")).unwrap();
    }
    let late = reserve_request("late", "pods=500");
    let retry_after = |policy: &Policy| {
        let reserved = decide::reserve(&given.state, at(1), &by(), &late, policy);
        denied(reserved).retry_after
    };
    let policy = Policy::default();
    assert_eq!(retry_after(&policy), Some(at(30)));
    assert_eq!(retry_after(&policy.shared_by(1000)), None);
    assert_eq!(retry_after(&policy.shared_by(2)), Some(at(30)));
}

/// A denial waits in memory for its answer. A check shows everything.
#[test]
fn a_denial_shows_a_bounded_number_of_limits_and_the_exceeded_ones_first() {
    const QUOTAS: usize = 100;
    const RESOURCES: usize = 64;
    let mut given = Given::default();
    let amounts = |amount: usize| {
        let names = (0..RESOURCES).map(|number| format!("example.com/r{number:02}={amount}"));
        names.collect::<Vec<_>>().join(",")
    };
    for number in 0..QUOTAS {
        let hard = if number == QUOTAS - 1 { 1 } else { 1000 };
        let change = QuotaChange {
            name: format!("q{number:02}").into(),
            fresh_uid: uid(&format!("q{number:02}")),
            ..quota(&amounts(hard), None)
        };
        let events = decide::set_quota(&given.state, given.now(), &change).unwrap();
        given.record(events);
    }
    let request = reserve_request("wide", &amounts(2));
    let by_policy =
        |policy: &Policy| denied(decide::reserve(&given.state, at(1), &by(), &request, policy));
    let policy = Policy::default();
    let refused = by_policy(&policy);
    let shown = |quotas: &[CheckedQuota]| -> usize {
        quotas.iter().map(|quota| quota.resources.len()).sum()
    };
    assert_eq!(&*refused.quotas[0].name, "q99");
    assert!(shown(&refused.quotas) <= policy.shown_max, "{}", shown(&refused.quotas));
    assert_eq!(refused.quotas.len() + refused.quotas_omitted, QUOTAS);
    let in_batch = by_policy(&policy.shared_by(1));
    assert_eq!(in_batch.quotas.len(), refused.quotas.len());
    let checked = decide::check(&given.state, at(1), &by(), &request, &policy);
    let Err(Refusal::Denied(checked)) = checked else {
        panic!("not denied");
    };
    assert_eq!((checked.quotas.len(), checked.quotas_omitted), (QUOTAS, 0));
    assert_eq!(shown(&checked.quotas), QUOTAS * RESOURCES);
}

#[test]
fn a_repeated_request_is_answered_as_before_until_its_reservation_has_ended_with_nothing() {
    let mut given = Given::hard("pods=1");
    assert!(given.reserve(&reserve_request("a", "pods=1")).unwrap().replayed.is_none());
    assert!(given.reserve(&reserve_request("a", "pods=1")).unwrap().replayed.is_some());
    assert!(matches!(given.reserve(&reserve_request("a", "pods=0")), Err(Refusal::UidReused(_))));
    given.record(decide::release(&given.state, &by(), "team-a", &uid("a")).unwrap());
    let Err(Refusal::Ended(ended)) = given.reserve(&reserve_request("a", "pods=1")) else {
        panic!("nothing is held for it any more");
    };
    assert_eq!(ended.end, Some((End::Released, given.now())));
    given.reserve(&reserve_request("b", "pods=1")).unwrap();
}

#[test]
fn a_request_for_the_same_name_takes_the_place_of_the_pending_one() {
    let mut given = Given::hard("pods=1");
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    given.reserve(&named("b", "web", "pods=1")).unwrap();
    assert_eq!(given.end("a"), Some(End::Superseded));
    denied(given.reserve(&named("c", "other", "pods=1")));
    assert_eq!(given.counted(), ("0".into(), "1".into()));
}

#[test]
fn the_first_sight_of_the_object_ends_its_reservation() {
    let mut given = Given::hard("pods=3");
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    assert!(given.sees(&alive("a", 7, "pods=2")));
    assert_eq!((given.end("a"), given.counted()), (Some(End::Observed), ("2".into(), "0".into())));
    assert!(given.reserve(&reserve_request("a", "pods=1")).unwrap().replayed.is_some());
}

#[test]
fn an_update_reserves_what_grows_until_a_newer_version_is_seen() {
    let mut given = Given::hard("pods=10");
    given.sees(&alive("a", 5, "pods=2"));
    given.reserve(&update("a", 5, "pods=5")).unwrap();
    assert_eq!(given.counted(), ("2".into(), "3".into()));
    given.reserve(&update("a", 5, "pods=4")).unwrap();
    assert_eq!(given.counted(), ("2".into(), "3".into()), "the larger of both is held");
    denied(given.reserve(&update("a", 5, "pods=11")));
    assert!(!given.sees(&alive("a", 5, "pods=2")));
    assert!(given.sees(&alive("a", 6, "pods=5")));
    assert_eq!(given.counted(), ("5".into(), "0".into()));
}

#[test]
fn an_update_of_what_is_only_reserved_raises_the_reservation() {
    let mut given = Given::hard("pods=4");
    given.reserve(&reserve_request("a", "pods=2")).unwrap();
    given.reserve(&update("a", 0, "pods=3")).unwrap();
    assert_eq!(given.counted(), ("0".into(), "3".into()));
    denied(given.reserve(&reserve_request("b", "pods=2")));
    given.reserve(&reserve_request("b", "pods=1")).unwrap();
}

#[test]
fn an_update_that_does_not_grow_passes_a_limit_that_is_passed_already() {
    let mut given = Given::hard("pods=1,requests.cpu=4");
    given.sees(&alive("a", 1, "pods=3,requests.cpu=1"));
    given.reserve(&update("a", 1, "pods=3,requests.cpu=2")).unwrap();
    denied(given.reserve(&update("a", 1, "pods=4")));
}

#[test]
fn a_reservation_outlives_its_time_while_the_sources_are_behind_but_not_for_ever() {
    let mut given = Given::hard("pods=1");
    given.policy.max_hold = Span::from_seconds(100);
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    assert_eq!(given.passes(30, at(29)), 0);
    assert_eq!(given.passes(0, at(30)), 1);
    assert_eq!(given.end("a"), Some(End::Expired));
    given.reserve(&reserve_request("b", "pods=1")).unwrap();
    assert_eq!(given.passes(129, at(0)), 0);
    let late = at(160);
    let max_hold = given.policy.max_hold;
    let held_too_long = |now, watermark: Timestamp| {
        decide::held_too_long(&given.state, now, watermark.into(), max_hold, 1)
    };
    assert!(!held_too_long(at(159), at(0)));
    assert!(!held_too_long(late, at(60)));
    assert!(held_too_long(late, at(59)));
    assert_eq!(given.passes(1, at(0)), 1);
}

/// The watermark that is waited for is that of the kinds which the daemon is configured to need. A quota may limit others.
#[test]
fn a_reservation_waits_for_the_watermark_of_its_own_kind() {
    let mut given = Given::hard("pods=9");
    given.policy.max_hold = Span::from_seconds(100);
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    given.seconds = 40;
    reports(&mut given, "bridge", "services", at(40), false);
    assert_eq!(due(&given, at(40)), 0, "nobody has reported the kind");
    reports(&mut given, "another", "pods", at(40), false);
    lists(&mut given, "another");
    assert_eq!(due(&given, at(40)), 0, "another source is not waited for");
    reports(&mut given, "bridge", "pods", at(30), false);
    assert_eq!(due(&given, at(40)), 0, "it is not listed");
    lists(&mut given, "bridge");
    assert_eq!(due(&given, at(40)), 1);
    assert_eq!(due(&given, at(29)), 0, "other kinds are behind");
}

/// The bridge that reported the kind may be gone, or may not list the kind any more.
#[test]
fn a_reservation_is_held_if_nobody_reports_its_kind_any_more_but_not_for_ever() {
    let mut given = Given::hard("pods=9");
    given.policy.max_hold = Span::from_seconds(100);
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    lists(&mut given, "bridge");
    reports(&mut given, "bridge", "pods", at(29), false);
    given.seconds = 129;
    assert_eq!(due(&given, at(129)), 0);
    given.seconds = 130;
    assert_eq!(due(&given, at(130)), 1);
    let publisher = Name::from("bridge");
    let consumed = Consumed { watermark: at(130), publisher: Some(&publisher) };
    let max_hold = given.policy.max_hold;
    assert!(decide::held_too_long(&given.state, at(130), consumed, max_hold, 1));
    // Without a publisher of watermarks there is nothing to wait for.
    assert_eq!(decide::due(&given.state, at(40), at(40), max_hold).count(), 1);
}

/// What the cluster does not have cannot be created there. The publisher says so again and again, or nobody may know.
#[test]
fn a_reservation_of_a_kind_that_the_cluster_does_not_have_waits_for_the_last_such_report() {
    let mut given = Given::hard("pods=9");
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    given.seconds = 40;
    reports(&mut given, "bridge", "pods", at(29), true);
    assert_eq!(due(&given, at(40)), 0);
    reports(&mut given, "bridge", "pods", at(30), true);
    assert_eq!(due(&given, at(40)), 1);
}

fn reports(given: &mut Given, source: &str, kind: &str, watermark: Timestamp, is_absent: bool) {
    let watermark = Watermark {
        resource: Name::from(kind),
        watermark,
        version: 7,
        is_absent,
        failing: Name::default(),
    };
    let watermarks = Watermarks {
        source: Name::from(source),
        resources: vec![watermark],
        ..Watermarks::default()
    };
    given.record(vec![Event::WatermarksAdvanced(Box::new(watermarks))]);
}

/// Pods are listed.
fn lists(given: &mut Given, source: &str) {
    given.record(vec![Event::ResourceListed {
        source: Name::from(source),
        resource: Name::from("pods"),
    }]);
}

/// How many reservations end by now, if the publisher is the bridge.
fn due(given: &Given, watermark: Timestamp) -> usize {
    let publisher = Name::from("bridge");
    let consumed = Consumed { watermark, publisher: Some(&publisher) };
    decide::due(&given.state, given.now(), consumed, given.policy.max_hold).count()
}

#[test]
fn extending_never_shortens_and_what_has_ended_stays_ended() {
    let mut given = Given::hard("pods=2");
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    let extend = |given: &Given, id: &str, seconds| {
        decide::extend(
            &given.state,
            given.now(),
            &by(),
            "team-a",
            &uid(id),
            Span::from_seconds(seconds),
            &given.policy,
        )
    };
    assert!(extend(&given, "a", 10).unwrap().is_empty());
    given.record(extend(&given, "a", 60).unwrap());
    assert_eq!(given.passes(45, Timestamp::MAX), 0);
    assert!(matches!(extend(&given, "a", 601), Err(Refusal::InvalidTtl { .. })));
    assert!(matches!(extend(&given, "x", 60), Err(Refusal::NotFound(_))));
    assert_eq!(given.passes(15, Timestamp::MAX), 1);
    assert!(matches!(extend(&given, "a", 60), Err(Refusal::Expired(_))));
    given.reserve(&reserve_request("b", "pods=1")).unwrap();
    given.sees(&alive("b", 1, "pods=1"));
    assert!(matches!(extend(&given, "b", 60), Err(Refusal::AlreadyObserved(_))));
}

#[test]
fn a_reservation_is_known_by_its_namespace_and_uid() {
    let mut given = Given::hard("pods=9");
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    assert!(matches!(
        decide::release(&given.state, &by(), "team-b", &uid("a")),
        Err(Refusal::NotFound(_))
    ));
    let elsewhere = Request { namespace: Name::from("team-b"), ..update("a", 0, "pods=1") };
    given.reserve(&elsewhere).unwrap();
    given.record(decide::release(&given.state, &by(), "team-b", &uid("a")).unwrap());
    assert_eq!(given.counted(), ("0".into(), "1".into()));
}

#[test]
fn limits_on_the_number_of_pending_reservations_hold() {
    let mut given = Given::hard("pods=9");
    given.policy.max_pending_per_namespace = 1;
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    assert!(matches!(
        given.reserve(&reserve_request("b", "pods=1")),
        Err(Refusal::TooManyPending { pending: 1, .. })
    ));
    given.reserve(&named("c", "web", "pods=1")).unwrap();
}

#[test]
fn a_principal_has_so_many_pending_reservations_unless_nobody_is_told_apart() {
    let mut given = Given::hard("pods=9");
    given.policy.max_pending_per_principal = 1;
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    let refused = given.reserve(&reserve_request("b", "pods=1"));
    let limit = "reservations.max_pending_per_principal";
    assert!(
        matches!(refused, Err(Refusal::TooManyPending { pending: 1, limit: key }) if key == limit)
    );
    let reserve = |given: &Given, by: &Requester| {
        let request = reserve_request("c", "pods=1");
        decide::reserve(&given.state, given.now(), by, &request, &given.policy)
    };
    let anybody = Requester { is_anybody: true, ..by() };
    assert!(reserve(&given, &anybody).is_ok());
    assert!(reserve(&given, &Requester::holder("other")).is_ok());
    let batch = [reserve_request("d", "pods=1"), reserve_request("e", "pods=1")];
    assert_eq!(given.reserve_all(&batch).unwrap_err().0, 0);
    let released = decide::release(&given.state, &by(), "team-a", &uid("a"));
    given.record(released.unwrap());
    assert_eq!(given.reserve_all(&batch).unwrap_err().0, 1);
    given.reserve(&reserve_request("b", "pods=1")).unwrap();
}

#[test]
fn a_check_says_what_reserving_would_and_writes_nothing() {
    let mut given = Given::hard("pods=1");
    let head = given.state.head();
    assert_eq!(
        decide::check(
            &given.state,
            given.now(),
            &by(),
            &reserve_request("a", "pods=1"),
            &given.policy
        )
        .unwrap()
        .quotas
        .len(),
        1
    );
    assert!(
        decide::check(
            &given.state,
            given.now(),
            &by(),
            &reserve_request("a", "pods=2"),
            &given.policy
        )
        .is_err()
    );
    assert_eq!(given.state.head(), head);
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
}

#[test]
fn what_another_principal_made_is_left_alone_but_by_an_admin() {
    let mut given = Given::hard("pods=9");
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    let (other, now) = (Requester::holder("other"), given.now());
    let id = uid("a");
    let minute = Span::from_seconds(60);
    let attempts = |given: &Given, by: &Requester| {
        let (state, policy) = (&given.state, &given.policy);
        let reserved = decide::reserve(state, now, by, &named("b", "web", "pods=1"), policy);
        [
            decide::release(state, by, "team-a", &id),
            decide::commit(state, by, "team-a", &id, None, &given.policy.bounds),
            decide::extend(state, now, by, "team-a", &id, minute, policy),
            reserved.map(|reserved| reserved.events),
        ]
    };
    for attempt in attempts(&given, &other) {
        assert!(matches!(attempt, Err(Refusal::NotOwner(_))), "{attempt:?}");
    }
    let admin = Requester { is_admin: true, ..other };
    for by in [admin, by()] {
        for attempt in attempts(&given, &by) {
            assert!(!attempt.unwrap().is_empty());
        }
    }
}

#[test]
fn of_what_is_pending_for_the_name_of_an_observed_object_the_latest_waits_and_what_it_covers_ends()
{
    let mut given = Given::hard("pods=9");
    let [other, third] = ["other", "third"].map(Requester::holder);
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    // For an API server, the reservation is decided beside that of another principal.
    for (by, uid, pods) in [(&third, "c", "pods=3"), (&other, "b", "pods=2")] {
        let review = decide::Review {
            request: named(uid, "web", pods),
            measure: decide::Measure::Given,
            holds: true,
        };
        let admitted = decide::admit(&given.state, given.now(), by, &review, &given.policy);
        given.record(admitted.unwrap().events);
    }
    assert_eq!(given.counted(), ("0".into(), "6".into()));
    given.sees(&alive("web", 1, "pods=1"));
    let ends = ["a", "b", "c"].map(|uid| given.end(uid));
    // The largest may be that of the object that was stored after the observed one.
    assert_eq!(ends, [Some(End::Superseded), None, None]);
    assert_eq!(given.counted(), ("1".into(), "4".into()));
}

/// The holder of the latest may release it at any time.
#[test]
fn what_is_pending_for_the_name_of_an_observed_object_ends_for_that_of_the_same_principal_only() {
    let mut given = Given::hard("pods=9");
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    for (principal, uid) in [("webhook", "b"), ("other", "c"), ("webhook", "d")] {
        let review = decide::Review {
            request: named(uid, "web", "pods=2"),
            measure: decide::Measure::Given,
            holds: true,
        };
        let (by, now) = (Requester::holder(principal), given.now());
        let admitted = decide::admit(&given.state, now, &by, &review, &given.policy).unwrap();
        // A principal's newer reservation for the name takes the place of its older one when it is granted, unless
        // other limits count it.
        let granted = admitted.events.into_iter();
        let granted = granted.filter(|event| matches!(event, Event::ReservationGranted(_)));
        WriteTransaction::new(&mut given.state, &mut given.open, now)
            .record(&Actor::named(principal), granted);
    }
    given.sees(&alive("web", 1, "pods=1"));
    let ends = ["a", "b", "c", "d"].map(|uid| given.end(uid));
    assert_eq!(ends, [None, Some(End::Superseded), None, None]);
}

/// A limit may be set, or a group joined, while the reservation is pending.
#[test]
fn no_amount_is_negative_even_where_nothing_limits_it() {
    let mut given = Given::default();
    let negative = reserve_request("a", "pods=1,requests.cpu=-5");
    let denial = match given.reserve(&negative) {
        Err(Refusal::Denied(denied)) => denied.denial,
        other => panic!("{other:?}"),
    };
    assert!(matches!(
        denial,
        Denial::NegativeUsage { resources } if resources == [Name::from("requests.cpu")]
    ));
    given.reserve(&reserve_request("a", "pods=1,requests.cpu=0")).unwrap();
}

/// The classes of a pod or a volume claim, the labels, and the amounts of one pod of a workload are recorded, too.
#[test]
fn all_names_of_a_reservation_are_bounded() {
    let mut given = Given::hard("pods=9");
    let mut request = |traits, labels| {
        let mut request = reserve_request("a", "pods=1");
        let footprint = Arc::make_mut(&mut request.footprint);
        footprint.traits = traits;
        footprint.labels = labels;
        match given.reserve(&request) {
            Err(Refusal::LimitReached { limit, .. }) => limit,
            other => panic!("{other:?}"),
        }
    };
    let long = Name::from("x".repeat(8 * 1024));
    let pod = PodTraits { priority_class: long.clone(), ..PodTraits::default() };
    let of = |count: usize| -> ResourceList {
        let names = (0..count).map(|number| Name::from(format!("{number}")));
        names.map(|name| (name, Quantity::from_units(1))).collect()
    };
    let bytes = "limits.reservation_name_bytes";
    let attributes_classes = vec![long.clone()];
    let replica = of(65);
    let template = |pod, replica| Traits::Template { pod, replica };
    let none = BTreeMap::new;
    assert_eq!(request(Traits::Pod(pod.clone()), none()), bytes);
    assert_eq!(request(Traits::Replica(pod.clone()), none()), bytes);
    assert_eq!(request(template(pod, of(1)), none()), bytes);
    assert_eq!(request(Traits::VolumeClaim { attributes_classes }, none()), bytes);
    assert_eq!(request(Traits::Plain, BTreeMap::from([("app".into(), long)])), bytes);
    let resources = "limits.reservation_resources";
    assert_eq!(request(template(PodTraits::default(), replica), none()), resources);
}

#[test]
fn a_reservation_is_not_extended_without_end() {
    let mut given = Given::hard("pods=1");
    given.policy.bounds.max_lifetime = Span::from_seconds(150);
    given.reserve(&reserve_request("a", "pods=1")).unwrap();
    let extend = |given: &Given| {
        let minute = Span::from_seconds(60);
        let (now, policy) = (given.now(), &given.policy);
        decide::extend(&given.state, now, &by(), "team-a", &uid("a"), minute, policy)
    };
    for seconds in [29, 59, 89] {
        given.seconds = seconds;
        given.record(extend(&given).unwrap());
    }
    given.seconds = 91;
    let refused = extend(&given);
    assert!(
        matches!(
            refused,
            Err(Refusal::LimitReached {
                limit: "reservations.max_lifetime",
                requested: 151,
                most: 150
            })
        ),
        "{refused:?}"
    );
    assert_eq!(given.passes(57, Timestamp::MAX), 0);
    assert_eq!(given.passes(1, Timestamp::MAX), 1);
}
