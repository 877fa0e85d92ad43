//! The cost of groups, in places that are read.

use std::sync::Arc;

use proptest::prelude::*;

use super::{GroupRecord, Groups};
use crate::{
    event::{Actor, Entry, Event, NamespaceRecord, Observed},
    state::{State, slab::work},
};
use quota_semantics::{
    Name, Timestamp,
    group::{
        Enforcement, Extensions, LabelSelector, Override, Requirement, Selector, Spec,
        selector::NAME_LABEL, tree,
    },
    object::Footprint,
    quota,
    resource::ResourceList,
    uid::Uid,
};

mod views;

#[derive(Default)]
struct World {
    state: State,
    sequence: u64,
}

fn uid(text: &str) -> Uid {
    Uid::new(text).unwrap()
}

impl World {
    /// Applies an event, and returns the cost.
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
        let spec = Spec {
            selector: Selector { labels: Some(labels), ..Selector::default() },
            quota: quota::Spec {
                scopes: scopes.iter().map(|&scope| Name::from(scope)).collect(),
                ..quota::Spec::default()
            },
            extensions: Extensions { parent: parent.map(Name::from), ..Extensions::default() },
        };
        self.set(name, spec)
    }

    fn set(&mut self, name: &str, spec: Spec) -> u64 {
        self.apply(Event::GroupSet(Arc::new(GroupRecord {
            name: name.into(),
            uid: uid(name),
            created: Timestamp::EPOCH,
            spec,
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

    /// A namespace with this many objects, and this many groups of other namespaces beside a tree of four.
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
    // Hash tables read a few more by chance.
    let is_like_few = |many: u64| many.abs_diff(few) < 10;
    assert!(is_like_few(cost(10_001, 0)), "whatever the objects");
    assert!(is_like_few(cost(10, 1_000)), "whatever the other groups");
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
    // Hash tables read a few more by chance.
    assert!(many < few + 50, "{few} {many}");
}

/// A limit on this resource.
fn limit(resource: &str) -> ResourceList {
    [(Name::from(resource), "9".parse().unwrap())].into_iter().collect()
}

#[test]
fn a_namespace_without_labels_costs_no_look_at_the_groups_that_may_be_for_it() {
    let cost = |others: u64, resource: &str| {
        let mut world = World::default();
        for number in 0..others {
            let name = format!("other-{number}");
            let spec = Spec {
                selector: selector(usize::try_from(1 + number % 2).unwrap()),
                quota: quota::Spec { hard: limit("pods"), ..quota::Spec::default() },
                ..Spec::default()
            };
            world.set(&name, spec);
        }
        let wanted = limit(resource);
        work::of(|| {
            let found = world.state.undecided_group(&"unseen".into(), &wanted);
            assert_eq!(found.is_some(), resource == "pods");
            assert!(world.state.may_have_groups(&"unseen".into()));
            assert!(world.state.path_of(&"unseen".into()).is_empty());
        })
    };
    for resource in ["pods", "services"] {
        let (few, many) = (cost(10, resource), cost(10_000, resource));
        assert_eq!(few, many, "{resource}");
        assert!(few < 20, "{resource}: {few}");
    }
}

const KINDS_OF_SELECTORS: usize = 7;

/// Selectors of all kinds: none, by labels, by annotations, by the name, by both, all but this name, all.
fn selector(kind: usize) -> Selector {
    let requirement = |operator: &str, values: &[&str]| Requirement {
        key: NAME_LABEL.into(),
        operator: operator.into(),
        values: values.iter().copied().map(Name::from).collect(),
    };
    let labels = |team: bool, requirement: Option<Requirement>| LabelSelector {
        match_labels: team.then(|| ("team".into(), "a".into())).into_iter().collect(),
        match_expressions: requirement.into_iter().collect(),
    };
    let labels = match kind {
        1 => Some(labels(true, None)),
        3 => Some(labels(false, Some(requirement("In", &["unseen", "b"])))),
        4 => Some(labels(true, Some(requirement("In", &["unseen"])))),
        5 => Some(labels(true, Some(requirement("NotIn", &["unseen"])))),
        6 => Some(labels(false, Some(requirement("Exists", &[])))),
        _ => None,
    };
    let annotations = (kind == 2).then(|| ("a".into(), "b".into()));
    Selector { labels, annotations: annotations.into_iter().collect() }
}

const RESOURCES: [&str; 3] = ["pods", "services", "secrets"];

/// A change of one of five groups.
#[derive(Clone, Debug)]
enum Step {
    Set {
        group: usize,
        selector: usize,
        parent: Option<usize>,
        resource: Option<usize>,
        overridden: Option<usize>,
        is_enforced: bool,
    },
    Delete(usize),
    EndOverride(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let resource = || proptest::option::of(0..RESOURCES.len());
    let set = (
        0..5_usize,
        0..KINDS_OF_SELECTORS,
        proptest::option::of(0..5_usize),
        resource(),
        resource(),
        proptest::bool::weighted(0.7),
    );
    let set = set.prop_map(|(group, selector, parent, resource, overridden, is_enforced)| {
        Step::Set { group, selector, parent, resource, overridden, is_enforced }
    });
    prop_oneof![
        6 => set,
        2 => (0..5_usize).prop_map(Step::Delete),
        1 => (0..5_usize).prop_map(Step::EndOverride),
    ]
}

impl World {
    fn take(&mut self, step: Step) {
        let name = |group: usize| Name::from(format!("g{group}"));
        match step {
            Step::Set { group, selector, parent, resource, overridden, is_enforced } => {
                let list = |resource: Option<usize>| {
                    resource.map_or_else(ResourceList::new, |it| limit(RESOURCES[it]))
                };
                let overridden = overridden.map(|it| Override {
                    hard: limit(RESOURCES[it]),
                    until: Timestamp::from_nanoseconds(1),
                });
                let spec = Spec {
                    selector: self::selector(selector),
                    quota: quota::Spec { hard: list(resource), ..quota::Spec::default() },
                    extensions: Extensions {
                        parent: parent.map(name),
                        r#override: overridden,
                        enforcement: match is_enforced {
                            true => Enforcement::Enforce,
                            false => Enforcement::Audit,
                        },
                        ..Extensions::default()
                    },
                };
                // As in commands that set groups: no cycles.
                if tree::validate(self.state.forest(), &name(group), &spec, 9)
                    .iter()
                    .all(|error| !error.to_string().contains("part of itself"))
                {
                    self.set(&name(group), spec);
                }
            }
            Step::Delete(group) => {
                self.apply(Event::GroupDeleted { name: name(group) });
            }
            Step::EndOverride(group) => {
                self.apply(Event::OverrideEnded { namespace: None, quota: name(group) });
            }
        }
    }
}

/// Reads all groups, one after the other.
fn has_undecided(groups: &Groups, wanted: &str) -> bool {
    let limits = |group: u32| {
        let group = groups.get(group);
        group.record.spec.extensions.enforcement == Enforcement::Enforce
            && group.hard().get(wanted).is_some()
    };
    groups.by_name.values().any(|&group| {
        let selector = &groups.get(group).record.spec.selector;
        Groups::decides(selector, "unseen", None).is_none()
            && (limits(group) || groups.above(group).any(limits))
    })
}

proptest! {
    #[test]
    fn undecided_groups_are_found_whatever_becomes_of_trees(steps in prop::collection::vec(step(), 1..40)) {
        let mut world = World::default();
        for step in steps {
            world.take(step);
            let restored = Groups::from_slab(world.state.groups.slab.clone());
            for resource in RESOURCES {
                let expected = has_undecided(&world.state.groups, resource);
                for groups in [&world.state.groups, &restored] {
                    let found = groups.undecided(&"unseen".into(), &limit(resource), |_| false);
                    prop_assert_eq!(found.is_some(), expected, "{}", resource);
                }
            }
        }
    }
}

#[test]
fn members_are_read_in_portions() {
    let mut world = World::default();
    world.group("g", None, &[]);
    for namespace in ["a", "b", "c"] {
        world.label(namespace, 1, "g");
        world.observe(namespace, &format!("pod-of-{namespace}"));
    }
    world.label("other", 1, "h");
    world.observe("other", "pod-of-other");
    let state = &world.state;
    assert!(state.group_member_names("none", "", 9).is_none());
    let (mut names, mut after) = (Vec::new(), Name::default());
    while let Some(name) = state.group_member_names("g", &after, 1).unwrap().pop() {
        names.push(name.clone());
        after = name;
    }
    assert_eq!(names, ["a", "b", "c"].map(Name::from));
    // What is no member is passed over.
    names.insert(1, "other".into());
    let view = state.members_view("g", &names).unwrap();
    let found: Vec<_> = view.views().map(|view| view.namespace).collect();
    assert_eq!(found, ["a", "b", "c"].map(Name::from));
    assert!(state.members_view("none", &names).is_none());
}
