//! The work for views of groups while the state is held, and the size of pages.

use super::*;
use crate::state::{CopiedGroup, Figure};

/// The most limits of a group, by the default limits.
const LIMITS: usize = 256;

/// A wide group with many members, each of which uses every resource that it limits.
fn wide(members: usize) -> World {
    let mut world = World::default();
    let rare = (1..LIMITS).map(|number| Name::from(format!("example.com/r{number:03}")));
    let names = rare.chain(["pods".into()]);
    let amounts = |amount: &str| -> ResourceList {
        let amount = |name| (name, amount.parse().unwrap());
        names.clone().map(amount).collect()
    };
    let labels = LabelSelector {
        match_labels: [("team".into(), "g".into())].into(),
        ..LabelSelector::default()
    };
    let spec = Spec {
        selector: Selector { labels: Some(labels), ..Selector::default() },
        quota: quota::Spec { hard: amounts("1000000"), ..quota::Spec::default() },
        extensions: Extensions::default(),
    };
    world.set("g", spec);
    for number in 0..members {
        let namespace = format!("team-{number:06}");
        world.label(&namespace, 1, "g");
        world.apply(Event::ObjectObserved(Box::new(Observed {
            uid: uid(&namespace),
            namespace: namespace.into(),
            resource: "pods".into(),
            name: "wide".into(),
            version: 1,
            footprint: Footprint { resources: amounts("1"), ..Footprint::default() },
            lapse: None,
            ends_reservation: false,
        })));
    }
    world
}

#[test]
fn neither_limits_nor_other_members_are_looked_at_while_the_state_is_held() {
    const SHOWN: usize = 1000;
    let mut world = wide(2 * SHOWN);
    let state = &world.state;
    let (mut page, mut members) = (None, None);
    let held = work::of(|| page = Some(state.groups_page("", 500)));
    assert!(held <= 8, "{held} places for a page of groups");
    let held = work::of(|| members = state.group_members("g", "", SHOWN));
    assert!(held <= SHOWN as u64 + 8, "{held} places for {SHOWN} members");

    // The numbers are computed afterwards, as of that moment.
    world.observe("team-000000", "late");
    let ((page, more), (members, more_members)) = (page.unwrap(), members.unwrap());
    assert!(!more && more_members);
    let (mut groups, mut spaces) = (Vec::new(), Vec::new());
    let after = work::of(|| {
        groups.extend(page.into_iter().map(CopiedGroup::view));
        spaces.extend(members.views());
    });
    assert_eq!(after as usize, LIMITS * (1 + SHOWN));
    let used = |figure: &Figure| figure.used.clone().unwrap();
    let pods = |figure: &Figure| &*figure.resource == "pods";
    let mut of_group = groups[0].figures.iter().map(|limit| &limit.figure);
    let of_group = used(of_group.find(|figure| pods(figure)).unwrap());
    assert_eq!(of_group, (2 * SHOWN).to_string().parse().unwrap());
    let of_first = spaces[0].figures.iter().find(|figure| pods(figure));
    assert_eq!(used(of_first.unwrap()), "1".parse().unwrap());
}

#[test]
fn pages_of_groups_are_bounded_by_their_limits_and_by_their_bytes() {
    let mut world = World::default();
    let values = (0..1000).map(|number| Name::from(format!("{number:063}")));
    let wide = Requirement { key: "team".into(), operator: "In".into(), values: values.collect() };
    let labels =
        |match_expressions| LabelSelector { match_expressions, ..LabelSelector::default() };
    let amount = |number| (format!("example.com/r{number}").into(), "1".parse().unwrap());
    for number in 0..50 {
        let selector = labels(vec![wide.clone()]);
        let spec = Spec {
            selector: Selector { labels: Some(selector), ..Selector::default() },
            ..Spec::default()
        };
        world.set(&format!("a-{number}"), spec);
        let mut spec = Spec::default();
        spec.quota.hard = (0..LIMITS).map(amount).collect();
        world.set(&format!("b-{number}"), spec);
    }
    let page = |after: &str, limit| {
        let (page, more) = world.state.groups_page(after, limit);
        (page.len(), more)
    };
    // Of 63 KB each: about 1 MiB.
    let (long, more) = page("", 50);
    assert!(more && (10..20).contains(&long), "{long}");
    // Of 256 limits each: about 10,000.
    let (wide, more) = page("b", 50);
    assert!(more && (30..50).contains(&wide), "{wide}");
    assert_eq!(page("", 1), (1, true));
    assert_eq!(page("b-8", 500), (1, false));
}
