use super::*;
use crate::{
    event::{Actor, Entry, Event, Observed},
    state::State,
};
use quota_semantics::{Timestamp, uid::Uid};

/// As in `cpu=1,pods=2`.
fn amounts(text: &str) -> ResourceList {
    let amounts = text.split(',').map(|item| item.split_once('=').unwrap());
    amounts.map(|(name, amount)| (Name::from(name), amount.parse().unwrap())).collect()
}

fn entry(sequence: u64, event: Event) -> Entry {
    Entry { sequence, time: Timestamp::EPOCH, actor: Actor::named("test"), event }
}

fn observed(name: &str, resources: &str) -> Event {
    Event::ObjectObserved(Box::new(Observed {
        uid: Uid::new(name).unwrap(),
        namespace: "team-a".into(),
        resource: "pods".into(),
        name: name.into(),
        version: 1,
        footprint: Footprint { resources: amounts(resources), ..Footprint::default() },
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
        Event::ObjectDeleted { uid: Uid::new("a").unwrap(), namespace: "team-a".into() },
    ));
    assert_eq!(state.totals("team-a").used.pretty(), "cpu=2");
}

#[test]
fn changes_keep_zeros_and_what_they_take_away() {
    let whole = Sums { reserved: amounts("cpu=5,pods=1"), ..Sums::default() };
    let mut changes = whole.unchanged();
    let held = amounts("cpu=5");
    let parts = Parts::of(&Traits::Plain, Cow::Borrowed(&held));
    changes.count_with_zeros(Sum::Reserved, &parts, Change::Remove);
    assert_eq!(changes.reserved.pretty(), "cpu=-5");
    changes.count_with_zeros(Sum::Reserved, &parts, Change::Add);
    assert_eq!(changes.reserved.pretty(), "cpu=0");
}
