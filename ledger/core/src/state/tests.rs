//! The work that is done while the state is held, in places that are read.

use std::sync::Arc;

use crate::{
    event::{Actor, Entry, Event, Observed, QuotaRecord, Reservation},
    state::{ReservationState, State, slab::work},
};
use quota_semantics::{
    Name, Timestamp, object::Footprint, quota::spec::Spec, resource::ResourceList, uid::Uid,
};

/// The most of each that a namespace may have by the default limits.
const MANY: u64 = 100_000;

/// The places that may be read to find the namespace.
const FEW: u64 = 8;

fn uid(kind: &str, number: u64) -> Uid {
    Uid::new(&format!("{kind}-{number}")).unwrap()
}

fn footprint() -> Footprint {
    let amounts = [(Name::from("pods"), "1".parse().unwrap())];
    Footprint { resources: amounts.into_iter().collect(), ..Footprint::default() }
}

fn observed(number: u64) -> Event {
    Event::ObjectObserved(Box::new(Observed {
        uid: uid("object", number),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: format!("o-{number}").into(),
        version: 1,
        footprint: footprint(),
        lapse: None,
        ends_reservation: false,
    }))
}

fn granted(number: u64) -> Event {
    granted_for(number, footprint())
}

fn granted_for(number: u64, footprint: Footprint) -> Event {
    Event::ReservationGranted(Arc::new(Reservation {
        uid: uid("reservation", number),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: format!("r-{number}").into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        footprint: footprint.into(),
        created: Timestamp::EPOCH,
        expiration: Timestamp::MAX,
        after_version: 0,
        requested: None,
    }))
}

/// The most quotas of a namespace, and the most limits of each, by the default limits.
const QUOTAS: u64 = 100;
const LIMITS: u64 = 256;

fn set(number: u64) -> Event {
    let limit = |number| (Name::from(format!("example.com/r{number:03}")), "1".parse().unwrap());
    let mut hard: ResourceList = (0..LIMITS - 1).map(limit).collect();
    hard.insert("pods".into(), "1000000".parse().unwrap());
    Event::QuotaSet(Arc::new(QuotaRecord {
        namespace: "team-a".into(),
        name: format!("q{number:03}").into(),
        uid: uid("quota", number),
        created: Timestamp::EPOCH,
        metadata: Box::default(),
        spec: Spec { hard, ..Spec::default() },
    }))
}

fn folded(events: impl Iterator<Item = Event>) -> State {
    let mut state = State::default();
    for (sequence, event) in (1..).zip(events) {
        state.apply(&Entry {
            sequence,
            time: Timestamp::EPOCH,
            actor: Actor::named("test"),
            event,
        });
    }
    state
}

#[test]
fn each_amount_of_a_reservation_that_a_quota_shows_counts() {
    let amount = |number| {
        let name = Name::from(format!("example.com/r{number:03}"));
        (name, "1".parse().unwrap())
    };
    let wide = Footprint { resources: (0..64).map(amount).collect(), ..Footprint::default() };
    let wide = (0..100).map(|number| granted_for(number, wide.clone()));
    let state = folded((0..3).map(set).chain(wide));
    let copied = state.copied_quota("team-a", "q000").unwrap();
    let shown = copied.view();
    let held: usize = shown.holds.iter().map(|(_, amounts)| amounts.len()).sum();
    assert_eq!((held, shown.figures.len()), (6400, 256));
    assert_eq!(copied.amounts(), 1 + 256 + 6400);
    assert_eq!(state.count_limits(&"team-a".into()), (3, 3 * 256));
    assert_eq!(state.count_limits(&"team-b".into()), (0, 0));
    // A page ends where its amounts are many.
    let (page, more) = state.quotas_page(Some("team-a"), None, 500);
    assert_eq!((page.len(), page.amounts(), more), (1, 6657, true));
}

#[test]
fn neither_limits_nor_reservations_are_looked_at_while_the_state_is_held() {
    let state = folded((0..QUOTAS).map(set).chain((0..MANY).map(granted)));
    let mut all = None;
    let held = work::of(|| all = Some(state.quotas_view("team-a")));
    assert!(held <= FEW, "{held} places for the usage of a namespace");
    let mut page = None;
    let held = work::of(|| page = Some(state.quotas_page(Some("team-a"), None, 500)));
    // The reservations that each of the quotas shows, each read once, with its object.
    assert!(held <= 5 * 200 + FEW, "{held} places for a page of quotas");
    let mut pending = None;
    let of_pending = || state.reservations_view("team-a", ReservationState::Pending, (0, 0));
    let held = work::of(|| pending = Some(of_pending()));
    assert!(held <= FEW, "{held} places for a page of reservations");

    // Everything is read afterwards.
    let (all, (page, more), pending) = (all.unwrap(), page.unwrap(), pending.unwrap());
    let after = work::of(|| assert_eq!(all.figures().count() as u64, QUOTAS));
    assert_eq!(after, QUOTAS * LIMITS);
    let shown: Vec<_> = page.views().collect();
    assert!(more && shown.len() > 10, "{}", shown.len());
    assert!(shown.iter().all(|quota| quota.holds.len() == 200));
    assert!(shown.iter().all(|quota| quota.holds_omitted as u64 == MANY - 200));
    let pods = shown[0].figures.iter().find(|figure| &*figure.resource == "pods");
    assert_eq!(pods.unwrap().reserved, MANY.to_string().parse().unwrap());
    let (mut pauses, mut found, mut after) = (0, 0, (0, 0));
    let looked = work::of(|| {
        let (first, next) = pending.page(after, 10, || pauses += 1);
        (found, after) = (first.len(), next.unwrap());
    });
    assert_eq!((found, after.0), (10, QUOTAS + 10));
    assert!(looked >= MANY && pauses >= MANY / 1024, "{looked} {pauses}");
}

#[test]
fn neither_objects_nor_reservations_are_looked_at_while_the_state_is_held() {
    let state = folded((0..MANY).flat_map(|number| [observed(number), granted(number)]));
    let mut objects = None;
    let held = work::of(|| objects = Some(state.objects_view("team-a")));
    assert!(held <= FEW, "{held} places for a page of objects");
    let mut parts = None;
    let held = work::of(|| parts = state.parts_view("team-a", None, "pods"));
    assert!(held <= FEW, "{held} places for the parts of a number");

    // Everything is read afterwards, with pauses.
    let (objects, parts) = (objects.unwrap(), parts.unwrap());
    let (mut pauses, most) = (0, 10);
    assert_eq!(objects.page(None, most, |_, _| true, || pauses += 1).len(), most);
    assert!(pauses >= MANY / 1024, "{pauses}");
    let after = work::of(|| {
        let all = parts.first(None, usize::MAX, || pauses += 1);
        assert_eq!(all.len() as u64, 2 * MANY);
    });
    assert!(after >= 2 * MANY, "{after}");
    assert!(pauses >= 3 * (MANY / 1024), "{pauses}");
}

/// Two objects have the same name while the end of the first is not known.
#[test]
fn the_object_that_bears_a_name_is_the_same_after_a_snapshot() {
    let named = |number: u64, name: &str, version| {
        let Event::ObjectObserved(mut object) = observed(number) else {
            unreachable!();
        };
        (object.name, object.version) = (name.into(), version);
        Event::ObjectObserved(object)
    };
    let deleted =
        |number| Event::ObjectDeleted { uid: uid("object", number), namespace: "team-a".into() };
    let events = [
        (named(0, "other", 1), None),
        (named(1, "web", 1), Some(1)),
        (deleted(0), Some(1)),
        // Takes the first place.
        (named(2, "web", 1), Some(2)),
        (named(1, "web", 2), Some(1)),
        (named(2, "web", 2), Some(2)),
        (deleted(2), Some(1)),
        (deleted(1), None),
    ];
    let mut state = State::default();
    for (sequence, (event, bearer)) in (1..).zip(events) {
        state.apply(&Entry {
            sequence,
            time: Timestamp::EPOCH,
            actor: Actor::named("test"),
            event,
        });
        let mut bytes = Vec::new();
        state.image().write(&mut bytes).unwrap();
        let read = State::read(&mut &*bytes).unwrap();
        for state in [&state, &read] {
            let found = state.object_named("team-a", "pods", "web");
            let found = found.map(|object| object.uid);
            assert_eq!(found, bearer.map(|number| uid("object", number)), "{sequence}");
        }
    }
}
