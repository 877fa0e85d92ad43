//! What groups cost, counted in places that are looked at.

use std::sync::Arc;

use super::GroupRecord;
use crate::{
    event::{Actor, Entry, Event, NamespaceRecord, Observed},
    state::{State, slab::work},
};
use quota_semantics::{
    Name, Timestamp,
    group::{Extensions, LabelSelector, Selector, Spec},
    object::Footprint,
    quota,
    uid::Uid,
};

#[derive(Default)]
struct World {
    state: State,
    sequence: u64,
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

impl World {
    /// Applies an event, and gives what that costs.
    fn apply(&mut self, event: Event) -> u64 {
        self.sequence += 1;
        let entry = Entry {
            sequence: self.sequence,
            time: Timestamp::EPOCH,
            actor: Actor::named("test"),
            event,
        };
        work::of(|| self.state.apply(&entry))
    }

    fn group(&mut self, name: &str, parent: Option<&str>, scopes: &[&str]) -> u64 {
        let labels = LabelSelector {
            match_labels: [("team".into(), name.into())].into(),
            ..LabelSelector::default()
        };
        self.apply(Event::GroupSet(Arc::new(GroupRecord {
            name: name.into(),
            uid: uid(name),
            created: Timestamp::EPOCH,
            spec: Spec {
                selector: Selector {
                    labels: Some(labels),
                    ..Selector::default()
                },
                quota: quota::Spec {
                    scopes: scopes.iter().map(|&scope| Name::from(scope)).collect(),
                    ..quota::Spec::default()
                },
                extensions: Extensions {
                    parent: parent.map(Name::from),
                    ..Extensions::default()
                },
            },
            metadata: Box::default(),
        })))
    }

    fn label(&mut self, namespace: &str, version: u64, team: &str) -> u64 {
        self.apply(Event::NamespaceObserved(Arc::new(NamespaceRecord {
            name: namespace.into(),
            uid: uid(namespace),
            version,
            labels: [("team".into(), team.into())].into(),
            annotations: Default::default(),
        })))
    }

    fn observe(&mut self, namespace: &str, name: &str) -> u64 {
        let amounts = [(Name::from("pods"), "1".parse().unwrap())];
        self.apply(Event::ObjectObserved(Box::new(Observed {
            uid: uid(name),
            namespace: namespace.into(),
            resource: "pods".into(),
            name: name.into(),
            version: 1,
            footprint: Footprint {
                resources: amounts.into_iter().collect(),
                ..Footprint::default()
            },
            lapse: None,
            ends_reservation: false,
        })))
    }

    /// So many objects in a namespace, and so many groups of other namespaces beside a tree of four.
    fn with(objects: usize, others: usize) -> Self {
        let mut world = Self::default();
        for (name, parent) in [("top", None), ("mid", Some("top"))] {
            world.group(name, parent, &[]);
        }
        for leaf in ["red", "blue"] {
            world.group(leaf, Some("mid"), &[]);
        }
        for number in 0..others {
            world.group(&format!("other-{number}"), None, &[]);
            world.label(&format!("space-{number}"), 1, &format!("other-{number}"));
        }
        world.label("moving", 1, "red");
        for number in 0..objects {
            world.observe("moving", &format!("object-{number}"));
        }
        world
    }

    fn used(&self, group: &str) -> String {
        self.state.groups.find(group).unwrap().load.used.pretty()
    }
}

#[test]
fn a_change_of_labels_costs_as_much_as_there_are_groups_of_the_namespace() {
    let cost = |objects, others| {
        let mut world = World::with(objects, others);
        let cost = world.label("moving", 2, "blue");
        assert_eq!(world.used("blue"), format!("pods={objects}"));
        assert_eq!(world.used("top"), world.used("blue"));
        cost
    };
    let few = cost(10, 0);
    assert_eq!(few, cost(10_001, 0), "whatever the objects");
    assert_eq!(few, cost(10, 1_000), "whatever the other groups");
    assert!(few < 100, "{few}");
}

#[test]
fn only_a_group_that_counts_some_objects_looks_at_them() {
    let mut world = World::with(1_000, 0);
    world.group("some", Some("mid"), &["BestEffort"]);
    assert!(world.label("moving", 2, "some") >= 1_000);
    assert!(world.label("moving", 3, "blue") < 200);
}

#[test]
fn an_object_costs_as_much_as_groups_count_it() {
    let cost = |objects, others| World::with(objects, others).observe("moving", "one-more");
    let (few, many) = (cost(10, 0), cost(1_000, 1_000));
    // Tables of hashes look at some more by chance.
    assert!(many < few + 50, "{few} {many}");
}
