//! The memory of ended reservations, and the order in which they are forgotten.

use super::*;

/// A reservation of another namespace.
fn elsewhere(id: &str) -> Request {
    Request { namespace: Name::from("team-b"), ..reserve_request(id, "pods=1") }
}

impl Given {
    /// Reserves for a principal.
    fn reserve_as(&mut self, principal: &str, request: &Request) -> Result<(), Refusal> {
        let requester = Requester::holder(principal);
        let now = self.now();
        let granted = decide::reserve(&self.state, now, &requester, request, &self.policy)?;
        WriteTransaction::new(&mut self.state, &mut self.open, now)
            .record(&Actor::named(principal), granted.events);
        Ok(())
    }

    /// Reserves, releases, and records the events that are due between two requests.
    fn churn_as(&mut self, principal: &str, request: &Request) {
        self.reserve_as(principal, request).unwrap();
        let requester = Requester::holder(principal);
        let Request { namespace, uid, .. } = request;
        let released = decide::release(&self.state, &requester, namespace, uid);
        self.record(released.unwrap());
        let bounded = decide::bound_ended(&self.state, &self.policy.bounds);
        self.record(bounded.into_iter().collect());
    }

    fn churn(&mut self, request: &Request) {
        self.churn_as("test", request);
    }

    /// Whether this reservation of a principal is remembered as ended.
    fn is_remembered_of(&mut self, principal: &str, request: &Request) -> bool {
        matches!(self.reserve_as(principal, request), Err(Refusal::Ended(_)))
    }

    fn is_remembered(&mut self, request: &Request) -> bool {
        self.is_remembered_of("test", request)
    }

    /// The same, read from a snapshot.
    fn read_back(&self) -> Self {
        let mut bytes = Vec::new();
        self.state.image().write(&mut bytes).unwrap();
        Self {
            state: State::read(&mut &*bytes).unwrap(),
            open: OpenBatch::default(),
            seconds: self.seconds,
            policy: self.policy.clone(),
        }
    }
}

#[test]
fn the_churn_of_one_namespace_makes_nothing_of_another_one_be_forgotten() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.ended_bytes = 40_000;
    given.churn(&elsewhere("quiet"));
    for number in 0..300 {
        given.churn(&reserve_request(&format!("u{number}"), "pods=1"));
    }
    let bounded = |entry: &quota_core::event::Entry| {
        matches!(entry.event, Event::EndedBounded { bytes: 40_000 })
    };
    let entries = given.open.entries();
    assert_eq!(entries.iter().filter(|entry| bounded(entry)).count(), 1);
    assert!(given.is_remembered(&elsewhere("quiet")));
    assert!(given.is_remembered(&reserve_request("u299", "pods=1")));
    assert!(!given.is_remembered(&reserve_request("u0", "pods=1")));
}

/// A tenant may reserve in as many namespaces as its pattern matches.
#[test]
fn the_churn_of_one_principal_in_many_namespaces_makes_nothing_of_another_one_be_forgotten() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.ended_bytes = 40_000;
    let of_victim: Vec<_> = (0..30).map(|n| elsewhere(&format!("v{n}"))).collect();
    for request in &of_victim {
        given.churn_as("victim", request);
    }
    let mut of_attacker = Vec::new();
    for number in 0..300 {
        let request = Request {
            namespace: format!("att-{number}").into(),
            ..reserve_request(&format!("u{number}"), "pods=1")
        };
        given.churn_as("attacker", &request);
        of_attacker.push(request);
    }
    let mut read = given.read_back();
    assert_eq!(read.state.digest(), given.state.digest());
    for given in [&mut given, &mut read] {
        for request in &of_victim {
            assert!(given.is_remembered_of("victim", request), "{request:?}");
        }
        assert!(!given.is_remembered_of("attacker", &of_attacker[0]));
        assert!(given.is_remembered_of("attacker", &of_attacker[299]));
    }
}

#[test]
fn what_is_forgotten_is_the_same_after_a_snapshot_and_a_replay() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.ended_bytes = 20_000;
    for number in 0..100 {
        given.churn(&reserve_request(&format!("a{number}"), "pods=1"));
        given.churn(&elsewhere(&format!("b{}", number % 40)));
    }
    let mut read = given.read_back();
    assert_eq!(read.state.digest(), given.state.digest());
    let mut folded = State::default();
    for entry in given.open.entries() {
        folded.apply(entry);
    }
    assert_eq!(folded.digest(), given.state.digest());
    for number in 100..200 {
        for given in [&mut given, &mut read] {
            given.churn(&elsewhere(&format!("b{number}")));
        }
        assert_eq!(read.state.digest(), given.state.digest(), "{number}");
    }
}

#[test]
fn another_bound_is_news_and_the_same_one_is_not() {
    let mut given = Given::hard("pods=9");
    given.policy.bounds.ended_bytes = 20_000;
    let bound = |given: &Given| decide::bound_ended(&given.state, &given.policy.bounds);
    assert!(bound(&given).is_none(), "there is nothing to forget");
    for number in 0..100 {
        given.churn(&reserve_request(&format!("a{number}"), "pods=1"));
    }
    assert!(bound(&given).is_none(), "it is recorded");
    given.policy.bounds.ended_bytes = 10_000;
    assert!(bound(&given).is_some());
}

/// An API server that gave up on a request may have stored its object all the same.
#[test]
fn what_took_the_place_of_another_one_is_kept_however_ended_ones_are_bounded() {
    for is_bounded in [false, true] {
        let mut given = Given::hard("pods=9");
        let bounded = Event::EndedBounded { bytes: 20_000 };
        given.record(is_bounded.then_some(bounded).into_iter().collect());
        for (id, name) in [("first", "web"), ("second", "web"), ("alone", "db")] {
            given.reserve(&named(id, name, "pods=1")).unwrap();
        }
        let entry = |id: &str| decide::revocable(&given.state, &[], &team(), &uid(id));
        assert_eq!(entry("second"), None);
        let alone = entry("alone").unwrap();
        let released = decide::fail(&given.state, &team(), &uid("alone"), alone);
        assert!(released.is_some());
        let head = given.state.head().sequence;
        for earlier in 1..=head {
            assert_eq!(decide::fail(&given.state, &team(), &uid("second"), earlier), None);
        }
    }
}

/// The new reservation of a uid is remembered instead of the superseded one.
#[test]
fn what_took_the_place_of_another_one_of_the_same_uid_is_kept() {
    let mut given = Given::hard("pods=9");
    given.reserve(&named("a", "web", "pods=1")).unwrap();
    let review = decide::Review {
        request: named("a", "web", "pods=2"),
        measure: decide::Measure::Given,
        holds: true,
    };
    let (by, now) = (Requester::holder("webhook"), given.now());
    let admitted = decide::admit(&given.state, now, &by, &review, &given.policy).unwrap();
    let events = admitted.events;
    assert!(matches!(&events[0], Event::ReservationSuperseded { .. }), "{events:?}");
    given.record(events.clone());
    let entry = decide::revocable(&given.state, &events, &team(), &uid("a"));
    assert_eq!(entry, None);
}
