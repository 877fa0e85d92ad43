//! The resources that pods name: their number is bounded, and they go with the last object.

use super::*;
use crate::decide::Bounds;

/// A pod that names this many resources of its own, from this number on.
fn wide(id: &str, from: usize, count: usize) -> Review {
    of_another(pod(id, "1"), |request| {
        let names =
            (from..from + count).map(|number| format!("requests.example.com/r{number:0>6}"));
        let amounts = names.map(|name| (Name::from(name), Quantity::from_units(1)));
        Arc::make_mut(&mut request.footprint).resources.extend(amounts);
    })
}

fn bounded(most: usize) -> World {
    let mut world = World::with_quota(&[("requests.cpu", "1000")]);
    world.policy.bounds = Bounds { resources_per_namespace: most, ..Bounds::default() };
    world
}

fn delete(world: &mut World, id: &str) {
    let namespace = "team".into();
    let uid = uid(id);
    world.record(vec![Event::ObjectDeleted { uid, namespace }]);
}

fn kept(world: &World) -> usize {
    let totals = world.state.totals("team");
    totals.used.len() + totals.reserved.len()
}

#[test]
fn pods_name_at_most_four_times_as_many_resources_as_the_bound() {
    let mut world = bounded(25);
    world.admit(&wide("a", 0, 60)).unwrap();
    let full = world.admit(&wide("b", 60, 60)).unwrap_err();
    let message = "limits.resources_per_namespace is 25, and this would make ";
    assert!(full.starts_with(message), "{full}");
    world.observe(&wide("a", 0, 60), 1);
    assert_eq!(world.admit(&wide("b", 60, 60)).unwrap_err(), full);
    world.admit(&wide("c", 0, 60)).unwrap();

    // Facts may exceed it. Then nothing new is named.
    world.observe(&wide("d", 1000, 500), 1);
    assert!(world.admit(&wide("e", 2000, 1)).is_err());
    world.admit(&wide("f", 1000, 500)).unwrap();
    let before = wide("d", 1000, 500).request.footprint.clone();
    let grown = of_another(update(wide("d", 1000, 500), Some(before), 1), |request| {
        Arc::make_mut(&mut request.footprint)
            .resources
            .insert("requests.cpu".into(), Quantity::from_units(2));
    });
    world.admit(&grown).unwrap();

    for id in ["a", "c", "d", "f"] {
        world.observe(&wide(id, 0, 1), 9);
        delete(&mut world, id);
    }
    world.admit(&wide("b", 60, 60)).unwrap();
}

#[test]
fn resources_that_nothing_names_any_more_are_forgotten() {
    let mut world = bounded(100_000);
    world.observe(&pod("stays", "1"), 1);
    let before = kept(&world);
    for round in 0..5 {
        let review = wide("a", round * 1000, 1000);
        let id = format!("a{round}");
        let review = of_another(review, |request| request.uid = uid(&id));
        world.admit(&review).unwrap();
        world.observe(&review, 1);
        delete(&mut world, &id);
        assert_eq!(kept(&world), before);
    }
}

#[test]
fn one_name_stands_for_each_of_very_many_things_that_nothing_limits() {
    let mut world = bounded(100_000);
    let count = 5000;
    let review = of_another(wide("a", 0, count), |request| {
        let bare = (0..count).map(|number| format!("example.com/r{number:0>6}"));
        let amounts = bare.map(|name| (Name::from(name), Quantity::from_units(1)));
        Arc::make_mut(&mut request.footprint).resources.extend(amounts);
    });
    let warned_of = world.admit(&review).unwrap().unlimited;
    assert_eq!(warned_of.len(), count);
    assert!(warned_of.iter().all(|name| name.starts_with("requests.")));
}

#[test]
fn a_long_reservation_counts_as_several_pending_ones() {
    let mut world = World::with_quota(&[("requests.cpu", "1000")]);
    world.policy.max_pending_per_namespace = 12;
    let full = "reservations.max_pending_per_namespace is reached: 12 reservations are pending";
    // About 38 KiB: as much as ten of the longest that count as one.
    world.admit(&wide("a", 0, 500)).unwrap();
    world.admit(&pod("b", "1")).unwrap();
    world.admit(&pod("c", "1")).unwrap();
    assert_eq!(world.admit(&pod("d", "1")).unwrap_err(), full);
    // Nor may one grow that much. One that takes another one's place may, if it counts for no more.
    let grown = |id| {
        of_another(wide(id, 0, 500), |request| {
            let cpu = ("requests.cpu".into(), Quantity::from_units(2));
            Arc::make_mut(&mut request.footprint).resources.extend([cpu]);
        })
    };
    assert_eq!(world.admit(&grown("b")).unwrap_err(), full);
    let in_place = of_another(pod("e", "1"), |request| request.name = "b".into());
    world.admit(&in_place).unwrap();

    world.observe(&wide("a", 0, 500), 1);
    world.admit(&grown("c")).unwrap();
    assert_eq!(world.state.counted_pending_in("team"), 11);
    world.observe(&grown("c"), 1);
    world.observe(&in_place, 1);
    assert_eq!(world.state.counted_pending_in("team"), 0);
    assert_eq!(world.state.counted_pending(), 0);
}
