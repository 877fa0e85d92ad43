//! The state in a snapshot, and entries behind it.

use quota_core::{
    codec,
    event::{Actor, Entry, Event},
    state::State,
};

/// Reads the input as a state. A valid state is written again with the same meaning, and entries can be folded behind
/// it: those in the rest of the input, whose first byte is their number, and those that end the reservations and objects
/// of the state.
pub fn run(data: &[u8]) {
    let mut rest = data;
    let Ok(state) = State::read(&mut rest) else {
        return;
    };
    let mut written = Vec::new();
    state.image().write(&mut written).unwrap();
    let again = State::read(&mut written.as_slice()).unwrap();
    assert_eq!(again.digest(), state.digest());
    let written = behind(&state, rest);
    for (mut state, entries) in [(state, written), (again, Vec::new())] {
        for entry in &entries {
            state.apply(entry);
        }
        for event in endings(&state) {
            state.apply(&Entry {
                sequence: state.head().sequence.saturating_add(1),
                time: state.head().time,
                actor: Actor::named("fuzz"),
                event,
            });
        }
        assert_eq!((state.object_count(), state.pending_count()), (0, 0));
    }
}

fn behind(state: &State, rest: &[u8]) -> Vec<Entry> {
    let Some((count, payload)) = rest.split_first() else {
        return Vec::new();
    };
    let first = state.head().sequence.saturating_add(1);
    codec::decode_entries(first, u32::from(*count), payload).unwrap_or_default()
}

fn endings(state: &State) -> Vec<Event> {
    let mut endings = Vec::new();
    let nameless = quota_semantics::Name::default();
    for namespace in std::iter::once(&nameless).chain(state.namespaces("")) {
        for pending in state.pending(namespace) {
            endings.push(Event::ReservationExpired {
                uid: pending.reservation.uid.clone(),
                namespace: namespace.clone(),
            });
        }
        for object in state.objects(namespace, None, usize::MAX, |_, _| true) {
            endings.push(Event::ObjectDeleted { uid: object.uid, namespace: namespace.clone() });
        }
    }
    endings
}
