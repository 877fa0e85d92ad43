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
fn a_part_keeps_its_zeros_since_the_whole_has_other_amounts() {
    let whole = Sums { reserved: amounts("cpu=5,pods=1"), ..Sums::default() };
    let held = amounts("cpu=5");
    let mut part = whole.part();
    part.take_over(&whole, &held);
    let parts = Parts::of(&Traits::Plain, Cow::Borrowed(&held));
    part.count_in_part(Sum::Reserved, &parts, Change::Remove);
    assert_eq!(part.reserved.pretty(), "cpu=0");
}
