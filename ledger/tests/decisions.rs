//! Given entries, when a command comes, then these events or this refusal.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use quota_ledger::{
    Name, Span, Timestamp,
    decide::{
        self, Adopted, Basis, Policy, Precondition, QuotaChange, Refusal, Request, Reserved,
        Sighting, Verdict,
    },
    desk::{Desk, Open},
    event::{Actor, Event, Observed},
    object::{Footprint, GroupResource},
    quota::spec::Spec,
    resource::ResourceList,
    state::{End, State},
    uid::Uid,
};

const START: i64 = 1_770_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::EPOCH.plus(Span::from_seconds(START + seconds))
}

fn list(text: &str) -> ResourceList {
    let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
    pairs
        .map(|(name, amount)| (Name::from(name), amount.parse().unwrap()))
        .collect()
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

fn team() -> Name {
    Name::from("team-a")
}

fn wish(id: &str, amounts: &str) -> Request {
    Request {
        uid: uid(id),
        namespace: team(),
        resource: GroupResource::new("", "pods"),
        name: Box::default(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        basis: Basis::Create,
        subresource: Name::default(),
        footprint: Footprint {
            resources: list(amounts),
            ..Footprint::default()
        },
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(30)),
    }
}

fn named(id: &str, name: &str, amounts: &str) -> Request {
    Request {
        name: name.into(),
        ..wish(id, amounts)
    }
}

fn update(id: &str, version: u64, amounts: &str) -> Request {
    Request {
        basis: Basis::Update { version },
        ..wish(id, amounts)
    }
}

fn alive(id: &str, version: u64, amounts: &str) -> Sighting {
    let object = Observed {
        uid: uid(id),
        namespace: team(),
        resource: Name::from("pods"),
        name: id.into(),
        version,
        footprint: Footprint {
            resources: list(amounts),
            ..Footprint::default()
        },
        lapse: None,
        ends_reservation: false,
    };
    Sighting::Alive {
        object: Box::new(object),
        quota: None,
    }
}

fn deleted(id: &str) -> Sighting {
    Sighting::Deleted {
        uid: uid(id),
        namespace: team(),
        quota: None,
    }
}

#[derive(Default)]
struct Given {
    state: State,
    open: Open,
    seconds: i64,
    policy: Policy,
}

impl Given {
    fn hard(hard: &str) -> Self {
        let mut given = Self::default();
        given.quota(hard);
        given
    }

    fn quota(&mut self, hard: &str) {
        let change = quota(hard, None);
        let events = decide::set_quota(&self.state, self.now(), &change).unwrap();
        self.record(events);
    }

    fn now(&self) -> Timestamp {
        at(self.seconds)
    }

    fn record(&mut self, events: Vec<Event>) {
        let now = self.now();
        Desk::new(&mut self.state, &mut self.open, now).record(&Actor::named("test"), events);
    }

    fn reserve(&mut self, wish: &Request) -> Result<Reserved, Refusal> {
        let reserved = decide::reserve(&self.state, self.now(), wish, &self.policy)?;
        self.record(reserved.events.clone());
        Ok(reserved)
    }

    fn sees(&mut self, sighting: &Sighting) -> bool {
        match decide::observe(&self.state, sighting.clone()) {
            Verdict::Accepted(events) => {
                self.record(events);
                true
            }
            Verdict::Ignored(_) => false,
        }
    }

    fn passes(&mut self, seconds: i64, watermark: Timestamp) -> usize {
        self.seconds += seconds;
        let due = decide::due(&self.state, self.now(), watermark, self.policy.max_hold);
        let count = due.len();
        self.record(due);
        count
    }

    fn counted(&self) -> (String, String) {
        let figures = self.state.quota("team-a", "compute").unwrap().figures;
        let used = figures
            .iter()
            .map(|f| f.used.clone().unwrap_or_default().to_string())
            .collect::<Vec<_>>();
        let reserved = figures
            .iter()
            .map(|f| f.reserved.to_string())
            .collect::<Vec<_>>();
        (used.join(","), reserved.join(","))
    }

    fn end(&self, id: &str) -> Option<End> {
        self.state
            .reservation(&uid(id))
            .unwrap()
            .end
            .map(|(end, _)| end)
    }
}

fn quota(hard: &str, precondition: Option<Precondition>) -> QuotaChange {
    QuotaChange {
        namespace: team(),
        name: Name::from("compute"),
        fresh_uid: uid("q"),
        spec: Spec {
            hard: list(hard),
            ..Spec::default()
        },
        metadata: Box::default(),
        precondition,
    }
}

fn denied(result: Result<Reserved, Refusal>) -> Box<decide::Denied> {
    match result {
        Err(Refusal::Denied(denied)) => denied,
        other => panic!("not denied: {other:?}"),
    }
}

#[test]
fn a_denial_speaks_kubernetes_words_and_then_of_reservations() {
    let mut given = Given::hard("pods=2,requests.cpu=2");
    given.sees(&alive("seen", 1, "pods=1,requests.cpu=500m"));
    let alone = denied(given.reserve(&wish("big", "requests.cpu=2")));
    assert_eq!(
        alone.detail,
        "exceeded quota: compute, requested: requests.cpu=2, used: requests.cpu=500m, limited: requests.cpu=2",
    );
    assert_eq!(alone.retry_after, None);
    given.reserve(&wish("first", "requests.cpu=1")).unwrap();
    given.seconds += 10;
    let beside = denied(given.reserve(&wish("second", "pods=1,requests.cpu=1")));
    assert_eq!(
        beside.detail,
        "exceeded quota: compute, requested: requests.cpu=1, used: requests.cpu=1500m, limited: requests.cpu=2; \
         reserved: requests.cpu=1 by 1 pending reservation, next expires in 20s",
    );
    assert_eq!(beside.retry_after, Some(at(30)));
    let cpu = &beside.quotas[0].resources[1];
    assert_eq!(
        (
            cpu.used.to_string(),
            cpu.reserved.to_string(),
            cpu.requested.to_string()
        ),
        ("500m".into(), "1".into(), "1".into())
    );
}

#[test]
fn a_denial_says_whether_it_could_ever_be_granted() {
    let mut given = Given::hard("pods=3,requests.cpu=8");
    given.sees(&alive("seen", 1, "pods=1,requests.cpu=6"));
    let fits = |given: &mut Given, wish: &Request| denied(given.reserve(wish)).fits_when_empty;
    assert!(fits(&mut given, &wish("b", "pods=3")));
    assert!(!fits(&mut given, &wish("c", "pods=4")));
    let grows_to = |amounts| Request {
        basis: Basis::Update { version: 1 },
        ..wish("seen", amounts)
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
        given.reserve(&wish(id, "pods=1")).unwrap();
    }
    assert_eq!(
        denied(given.reserve(&wish("d", "pods=2"))).retry_after,
        Some(at(35))
    );
    assert_eq!(
        denied(given.reserve(&wish("d", "pods=4"))).retry_after,
        None
    );
}

#[test]
fn a_repeated_wish_is_answered_as_before_whatever_has_become_of_it() {
    let mut given = Given::hard("pods=1");
    assert!(!given.reserve(&wish("a", "pods=1")).unwrap().replayed);
    assert!(given.reserve(&wish("a", "pods=1")).unwrap().replayed);
    assert!(matches!(
        given.reserve(&wish("a", "pods=0")),
        Err(Refusal::UidReused(_))
    ));
    given.record(decide::release(&given.state, "team-a", &uid("a")).unwrap());
    assert!(given.reserve(&wish("a", "pods=1")).unwrap().replayed);
    assert_eq!(given.end("a"), Some(End::Released));
    given.reserve(&wish("b", "pods=1")).unwrap();
}

#[test]
fn a_wish_for_the_same_name_takes_the_place_of_the_pending_one() {
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
    given.reserve(&wish("a", "pods=1")).unwrap();
    assert!(given.sees(&alive("a", 7, "pods=2")));
    assert_eq!(
        (given.end("a"), given.counted()),
        (Some(End::Observed), ("2".into(), "0".into()))
    );
    assert!(given.reserve(&wish("a", "pods=1")).unwrap().replayed);
}

#[test]
fn an_update_reserves_what_grows_until_a_newer_version_is_seen() {
    let mut given = Given::hard("pods=10");
    given.sees(&alive("a", 5, "pods=2"));
    given.reserve(&update("a", 5, "pods=5")).unwrap();
    assert_eq!(given.counted(), ("2".into(), "3".into()));
    given.reserve(&update("a", 5, "pods=4")).unwrap();
    assert_eq!(
        given.counted(),
        ("2".into(), "3".into()),
        "the larger of both is held"
    );
    denied(given.reserve(&update("a", 5, "pods=11")));
    assert!(!given.sees(&alive("a", 5, "pods=2")));
    assert!(given.sees(&alive("a", 6, "pods=5")));
    assert_eq!(given.counted(), ("5".into(), "0".into()));
}

#[test]
fn an_update_of_what_is_only_reserved_raises_the_reservation() {
    let mut given = Given::hard("pods=4");
    given.reserve(&wish("a", "pods=2")).unwrap();
    given.reserve(&update("a", 0, "pods=3")).unwrap();
    assert_eq!(given.counted(), ("0".into(), "3".into()));
    denied(given.reserve(&wish("b", "pods=2")));
    given.reserve(&wish("b", "pods=1")).unwrap();
}

#[test]
fn an_update_that_does_not_grow_passes_a_limit_that_is_passed_already() {
    let mut given = Given::hard("pods=1,requests.cpu=4");
    given.sees(&alive("a", 1, "pods=3,requests.cpu=1"));
    given
        .reserve(&update("a", 1, "pods=3,requests.cpu=2"))
        .unwrap();
    denied(given.reserve(&update("a", 1, "pods=4")));
}

#[test]
fn a_reservation_outlives_its_time_while_the_sources_are_behind_but_not_for_ever() {
    let mut given = Given::hard("pods=1");
    given.policy.max_hold = Span::from_seconds(100);
    given.reserve(&wish("a", "pods=1")).unwrap();
    assert_eq!(given.passes(30, at(29)), 0);
    assert_eq!(given.passes(0, at(30)), 1);
    assert_eq!(given.end("a"), Some(End::Expired));
    given.reserve(&wish("b", "pods=1")).unwrap();
    assert_eq!(given.passes(129, at(0)), 0);
    assert_eq!(given.passes(1, at(0)), 1);
}

#[test]
fn extending_never_shortens_and_what_has_ended_stays_ended() {
    let mut given = Given::hard("pods=2");
    given.reserve(&wish("a", "pods=1")).unwrap();
    let extend = |given: &Given, id: &str, seconds| {
        decide::extend(
            &given.state,
            given.now(),
            "team-a",
            &uid(id),
            Span::from_seconds(seconds),
            &given.policy,
        )
    };
    assert!(extend(&given, "a", 10).unwrap().is_empty());
    given.record(extend(&given, "a", 60).unwrap());
    assert_eq!(given.passes(45, Timestamp::MAX), 0);
    assert!(matches!(
        extend(&given, "a", 601),
        Err(Refusal::InvalidTtl { .. })
    ));
    assert!(matches!(extend(&given, "x", 60), Err(Refusal::NotFound(_))));
    assert_eq!(given.passes(15, Timestamp::MAX), 1);
    assert!(matches!(extend(&given, "a", 60), Err(Refusal::Expired(_))));
    given.reserve(&wish("b", "pods=1")).unwrap();
    given.sees(&alive("b", 1, "pods=1"));
    assert!(matches!(
        extend(&given, "b", 60),
        Err(Refusal::AlreadyObserved(_))
    ));
}

#[test]
fn a_commit_counts_as_used_and_takes_no_more_than_was_reserved() {
    let mut given = Given::hard("pods=4");
    given.reserve(&wish("a", "pods=3")).unwrap();
    let commit = |given: &Given, amounts: Option<&str>| {
        decide::commit(
            &given.state,
            "team-a",
            &uid("a"),
            amounts.map(list).as_ref(),
        )
    };
    assert!(matches!(
        commit(&given, Some("pods=4")),
        Err(Refusal::ExceedsReservation { .. })
    ));
    assert!(matches!(
        commit(&given, Some("services=1")),
        Err(Refusal::ExceedsReservation { .. })
    ));
    given.record(commit(&given, Some("pods=2")).unwrap());
    assert_eq!(
        (given.end("a"), given.counted()),
        (Some(End::Committed), ("2".into(), "0".into()))
    );
    assert!(
        commit(&given, None).unwrap().is_empty(),
        "repeated, it changes nothing"
    );
    assert!(given.sees(&alive("a", 3, "pods=1")));
    assert!(given.sees(&deleted("a")));
    assert_eq!(given.counted(), ("0".into(), "0".into()));
}

#[test]
fn all_or_none_of_a_batch() {
    let mut given = Given::hard("pods=3");
    let reserve_all = |given: &Given, wishes: &[Request]| {
        decide::reserve_all(&given.state, given.now(), wishes, &given.policy)
    };
    let three = [
        wish("a", "pods=1"),
        wish("b", "pods=1"),
        wish("c", "pods=2"),
    ];
    assert!(matches!(
        reserve_all(&given, &three),
        Err((2, Refusal::Denied(_)))
    ));
    assert!(matches!(
        reserve_all(&given, &[wish("a", "pods=1"), wish("a", "pods=1")]),
        Err((1, Refusal::UidReused(_)))
    ));
    given.reserve(&named("old", "web", "pods=3")).unwrap();
    let replacing = [named("new", "web", "pods=2"), wish("b", "pods=1")];
    for reserved in reserve_all(&given, &replacing).unwrap() {
        given.record(reserved.events);
    }
    assert_eq!(
        (given.end("old"), given.counted()),
        (Some(End::Superseded), ("0".into(), "3".into()))
    );
}

/// Carries out a batch; gives the number of entries.
fn reserve_together(given: &mut Given, wishes: &[Request]) -> Result<usize, (usize, Refusal)> {
    let all = decide::reserve_all(&given.state, given.now(), wishes, &given.policy)?;
    let events: Vec<Event> = all.into_iter().flat_map(|one| one.events).collect();
    let count = events.len();
    given.record(events);
    Ok(count)
}

#[test]
fn wishes_of_a_batch_see_that_a_name_was_taken_over_before_them() {
    let mut given = Given::hard("pods=4");
    given.reserve(&named("old", "web", "pods=2")).unwrap();
    let twice = [
        named("new", "web", "pods=2"),
        named("newer", "web", "pods=2"),
        wish("other", "pods=3"),
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
fn wishes_of_a_batch_see_what_was_grown_before_them() {
    let mut given = Given::hard("pods=4");
    given.reserve(&wish("a", "pods=1")).unwrap();
    let both = [update("a", 1, "pods=3"), wish("b", "pods=2")];
    let refused = reserve_together(&mut given, &both);
    assert!(matches!(refused, Err((1, Refusal::Denied(_)))));
    let fitting = [update("a", 1, "pods=3"), wish("b", "pods=1")];
    reserve_together(&mut given, &fitting).unwrap();
    assert_eq!(given.counted(), ("0".into(), "4".into()));
}

#[test]
fn a_batch_stays_below_the_limits_of_pending_reservations() {
    let mut given = Given::hard("pods=9");
    given.policy.max_pending = 2;
    let three = ["a", "b", "c"].map(|id| wish(id, "pods=1"));
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
fn a_quota_of_unknown_version_is_news_only_if_something_changed() {
    let mut given = Given::hard("pods=9");
    let seen = |hard: &str| match alive("quota", 0, "resourcequotas=1") {
        Sighting::Alive { object, .. } => Sighting::Alive {
            object,
            quota: Some(Box::new(Adopted {
                created: at(0),
                spec: quota(hard, None).spec,
                metadata: Box::default(),
            })),
        },
        deleted @ Sighting::Deleted { .. } => deleted,
    };
    assert!(given.sees(&seen("pods=4")));
    assert!(!given.sees(&seen("pods=4")));
    assert!(given.sees(&seen("pods=5")));
    assert!(!given.sees(&seen("pods=5")));
}

#[test]
fn a_reservation_is_pending_in_its_own_namespace_only() {
    let mut given = Given::hard("pods=9");
    given.reserve(&wish("a", "pods=1")).unwrap();
    assert!(matches!(
        decide::release(&given.state, "team-b", &uid("a")),
        Err(Refusal::NotFound(_))
    ));
    let elsewhere = Request {
        namespace: Name::from("team-b"),
        ..update("a", 0, "pods=1")
    };
    assert!(matches!(
        given.reserve(&elsewhere),
        Err(Refusal::UidReused(_))
    ));
}

#[test]
fn limits_on_the_number_of_pending_reservations_hold() {
    let mut given = Given::hard("pods=9");
    given.policy.max_pending_per_namespace = 1;
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    assert!(matches!(
        given.reserve(&wish("b", "pods=1")),
        Err(Refusal::TooManyPending { pending: 1, .. })
    ));
    given.reserve(&named("c", "web", "pods=1")).unwrap();
}

#[test]
fn a_quota_changes_only_as_its_editor_saw_it() {
    let mut given = Given::hard("pods=9");
    let set = |given: &Given, hard: &str, precondition| {
        decide::set_quota(&given.state, given.now(), &quota(hard, Some(precondition)))
    };
    assert!(matches!(
        set(&given, "pods=8", Precondition::Absent),
        Err(Refusal::Conflict {
            current: 1,
            expected: 0,
            ..
        })
    ));
    assert!(
        set(&given, "pods=9", Precondition::Version(1))
            .unwrap()
            .is_empty()
    );
    given.record(set(&given, "pods=09", Precondition::Version(1)).unwrap());
    assert!(matches!(
        set(&given, "pods=8", Precondition::Version(1)),
        Err(Refusal::Conflict { current: 2, .. })
    ));
    let delete = decide::delete_quota(
        &given.state,
        &team(),
        &Name::from("compute"),
        Some(Precondition::Version(1)),
    );
    assert!(matches!(delete, Err(Refusal::Conflict { .. })));
}

#[test]
fn a_lowered_limit_is_shown_and_binds_at_once() {
    let mut given = Given::hard("pods=9");
    given.sees(&alive("a", 1, "pods=5"));
    given.quota("pods=3");
    denied(given.reserve(&wish("b", "pods=1")));
    assert_eq!(given.counted().0, "5");
}

#[test]
fn a_check_says_what_reserving_would_and_writes_nothing() {
    let mut given = Given::hard("pods=1");
    let head = given.state.head();
    assert_eq!(
        decide::check(
            &given.state,
            given.now(),
            &wish("a", "pods=1"),
            &given.policy
        )
        .unwrap()
        .len(),
        1
    );
    assert!(
        decide::check(
            &given.state,
            given.now(),
            &wish("a", "pods=2"),
            &given.policy
        )
        .is_err()
    );
    assert_eq!(given.state.head(), head);
    given.reserve(&wish("a", "pods=1")).unwrap();
}

#[test]
fn a_cursor_only_moves_on() {
    let mut given = Given::default();
    let source = Name::from("OBJECTS");
    let cursor = |position| quota_ledger::event::Cursor {
        incarnation: Name::from("x"),
        position,
        ..Default::default()
    };
    given.record(
        decide::advance(&given.state, &source, &cursor(5))
            .into_iter()
            .collect(),
    );
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
        let cursor = quota_ledger::event::Cursor {
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
    let known = |given: &Given| [0, 90, 91].map(|time| was_before(given, at(time)));
    assert_eq!(known(&given), [true, true, false]);
    // It goes back again before it has come as far.
    consumes(&mut given, 5, at(50));
    assert_eq!(resets(&mut given), 1);
    assert_eq!(known(&given), [true, true, false]);
    assert_eq!(resets(&mut given), 1);
    consumes(&mut given, 5, at(91));
    assert_eq!(resets(&mut given), 2);
    assert_eq!(known(&given), [true; 3]);
    assert_eq!(given.state.sources()["OBJECTS"].position, 0);
}
