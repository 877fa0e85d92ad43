//! What is looked at while the state is held, counted in places.

use std::sync::Arc;

use crate::{
    event::{Actor, Entry, Event, Observed, Reservation},
    state::{State, slab::work},
};
use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};

/// As many of each as there may be in a namespace by the defaults of the limits.
const MANY: u64 = 100_000;

/// Places that may be looked at to find the namespace.
const FEW: u64 = 8;

fn uid(kind: &str, number: u64) -> Uid {
    Uid::new(&format!("{kind}-{number}")).unwrap()
}

fn footprint() -> Footprint {
    let amounts = [(Name::from("pods"), "1".parse().unwrap())];
    Footprint {
        resources: amounts.into_iter().collect(),
        ..Footprint::default()
    }
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
    Event::ReservationGranted(Arc::new(Reservation {
        uid: uid("reservation", number),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: format!("r-{number}").into(),
        api_version: "v1".into(),
        kind: "Pod".into(),
        footprint: footprint(),
        created: Timestamp::EPOCH,
        expiration: Timestamp::MAX,
        after_version: 0,
        request: [0; 16],
    }))
}

#[test]
fn neither_objects_nor_reservations_are_looked_at_while_the_state_is_held() {
    let mut state = State::default();
    let events = (0..MANY).flat_map(|number| [observed(number), granted(number)]);
    for (sequence, event) in (1..).zip(events) {
        state.apply(&Entry {
            sequence,
            time: Timestamp::EPOCH,
            actor: Actor::named("test"),
            event,
        });
    }
    let mut objects = None;
    let held = work::of(|| objects = Some(state.objects_view("team-a")));
    assert!(held <= FEW, "{held} places for a page of objects");
    let mut parts = None;
    let held = work::of(|| parts = state.parts_view("team-a", None, "pods"));
    assert!(held <= FEW, "{held} places for what makes a number");

    // All of it is looked at afterwards, with pauses.
    let (objects, parts) = (objects.unwrap(), parts.unwrap());
    let (mut pauses, most) = (0, 10);
    assert_eq!(
        objects.page(None, most, |_, _| true, || pauses += 1).len(),
        most
    );
    assert!(pauses >= MANY / 1024, "{pauses}");
    let after = work::of(|| {
        let all = parts.first(None, usize::MAX, || pauses += 1);
        assert_eq!(all.len() as u64, 2 * MANY);
    });
    assert!(after >= 2 * MANY, "{after}");
    assert!(pauses >= 3 * (MANY / 1024), "{pauses}");
}
