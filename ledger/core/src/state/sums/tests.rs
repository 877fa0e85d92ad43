use std::sync::Arc;

use super::*;
use crate::codec::{Reader, Wire as _, Writer};
use crate::{
    event::{Actor, Entry, Event, Observed},
    state::State,
};
use quota_semantics::{Timestamp, group::Load, uid::Uid};

/// As in `cpu=1,pods=2`.
fn amounts(text: &str) -> ResourceList {
    let amounts = text.split(',').map(|item| item.split_once('=').unwrap());
    amounts
        .map(|(name, amount)| (Name::from(name), amount.parse().unwrap()))
        .collect()
}

fn entry(sequence: u64, event: Event) -> Entry {
    Entry {
        sequence,
        time: Timestamp::EPOCH,
        actor: Actor::named("test"),
        event,
    }
}

fn observed(name: &str, resources: &str) -> Event {
    Event::ObjectObserved(Box::new(Observed {
        uid: Uid::new(name).unwrap(),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: name.into(),
        version: 1,
        footprint: Footprint {
            resources: amounts(resources),
            ..Footprint::default()
        },
        lapse: None,
        ends_reservation: false,
    }))
}

#[test]
fn a_name_goes_with_its_last_amount() {
    let mut state = State::default();
    state.apply(&entry(1, observed("a", "cpu=1,none=0,x=2Gi")));
    state.apply(&entry(2, observed("b", "cpu=2")));
    assert_eq!(state.totals("team-a").used.pretty(), "cpu=3,x=2Gi");
    state.apply(&entry(
        3,
        Event::ObjectDeleted {
            uid: Uid::new("a").unwrap(),
            namespace: "team-a".into(),
        },
    ));
    assert_eq!(state.totals("team-a").used.pretty(), "cpu=2");
}

#[test]
fn a_part_keeps_its_zeros_since_the_whole_has_other_amounts() {
    let whole = Sums {
        reserved: amounts("cpu=5,pods=1"),
        ..Sums::default()
    };
    let held = amounts("cpu=5");
    let mut part = whole.part();
    part.take_over(&whole, &held);
    let parts = Parts::of(&Traits::Plain, Cow::Borrowed(&held));
    part.count_in_part(Sum::Reserved, &parts, Change::Remove);
    assert_eq!(part.reserved.pretty(), "cpu=0");
}

/// Earlier versions kept zeros. A state of theirs is equal to one that is folded anew.
#[test]
fn zeros_in_an_image_are_dropped() {
    let mut state = State::default();
    state.apply(&entry(1, observed("a", "cpu=1")));
    let reread = |state: &State| {
        let mut bytes = Vec::new();
        state.image().write(&mut bytes).unwrap();
        State::read(&mut &*bytes).unwrap()
    };
    let mut earlier = reread(&state);
    let place = earlier.namespaces.place("team-a").unwrap();
    let sums = Arc::make_mut(&mut earlier.namespaces.get_mut(place).sums);
    sums.used.insert("past".into(), Quantity::ZERO);
    sums.reserved.insert("cpu".into(), Quantity::ZERO);
    assert_ne!(earlier.digest(), state.digest());
    assert!(reread(&earlier).is_image_of(&state));

    let mut load = Load {
        used: amounts("cpu=1,past=0"),
        reserved: amounts("cpu=0"),
        set_aside: amounts("past=0"),
    };
    let mut writer = Writer::default();
    load.put(&mut writer);
    let bytes = writer.finish();
    let read = Load::take(&mut Reader::new(&bytes).unwrap()).unwrap();
    load.used.remove("past");
    load.reserved = ResourceList::new();
    load.set_aside = ResourceList::new();
    assert_eq!(read, load);
}
