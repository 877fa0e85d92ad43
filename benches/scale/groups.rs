//! Grants in namespaces that groups count, beside the same ledger without groups; and namespaces that move between groups.

use std::path::Path;

use quota_core::event::{Event, GroupRecord, NamespaceRecord};
use quota_semantics::{
    Name, Timestamp,
    group::{Extensions, Spec},
    quota,
};
use serde_json::json;

use super::{
    generate::Shape,
    serving::load,
    subject::{Bench, Bound, Target},
    support::{
        document::whole,
        process::Quotad,
        world::{compute, footprint, list, namespace, pod, uid},
    },
};

/// Groups from the root of a tree to a leaf. Each has two children, but for the leaves.
const DEPTH: u32 = 5;
const PER_TREE: u64 = (1 << DEPTH) - 1;

/// The namespace that moves, and what is in it.
const MOVING: &str = "moving";
const OBJECTS: u64 = 10_000;
const MOVES: u64 = 200;

/// So many groups, in whole trees.
struct Groups {
    trees: u64,
}

impl Groups {
    fn count(&self) -> u64 {
        self.trees * PER_TREE
    }

    fn leaves(&self) -> u64 {
        self.trees << (DEPTH - 1)
    }

    /// Parents before their children: in a tree, those of place n are at 2n + 1 and 2n + 2. Leaves choose by the label
    /// `team`.
    fn set(&self) -> impl Iterator<Item = Event> {
        (0..self.count()).map(|number| {
            let (tree, place) = (number / PER_TREE, number % PER_TREE);
            let inner = PER_TREE / 2;
            let selector = match place.checked_sub(inner) {
                None => json!({}),
                Some(leaf) => {
                    let team = format!("t{}", tree * (inner + 1) + leaf);
                    json!({"labels": {"matchLabels": {"team": team}}})
                }
            };
            let parent = place.checked_sub(1).map(|below| name(tree, below / 2));
            let level = u64::from(63 - (place + 1).leading_zeros());
            let guaranteed = (100 << (u64::from(DEPTH) - level)).to_string();
            Event::GroupSet(
                GroupRecord {
                    name: name(tree, place),
                    uid: uid(1 << 50 | number),
                    created: Timestamp::EPOCH,
                    spec: Spec {
                        selector: serde_json::from_value(selector).unwrap_or_default(),
                        quota: quota::Spec { hard: compute(), ..quota::Spec::default() },
                        extensions: Extensions {
                            guaranteed: parent
                                .as_ref()
                                .map_or_else(Default::default, |_| list(&[("pods", &guaranteed)])),
                            parent,
                            ..Extensions::default()
                        },
                    },
                    metadata: Box::default(),
                }
                .into(),
            )
        })
    }

    fn namespaces(&self, shape: Shape) -> impl Iterator<Item = Event> {
        let leaves = self.leaves();
        let all = (0..shape.namespaces).map(move |number| {
            let name = namespace(number, shape.namespaces);
            namespace_observed(name, number, 1, number % leaves)
        });
        all.chain([namespace_observed(MOVING.into(), shape.namespaces, 1, 0)])
    }
}

fn name(tree: u64, place: u64) -> Name {
    Name::from(format!("group-{tree}-{place}"))
}

fn namespace_observed(name: Name, number: u64, version: u64, team: u64) -> Event {
    let record = NamespaceRecord {
        name,
        uid: uid(1 << 51 | number),
        version,
        labels: [("team".into(), format!("t{team}").into())].into(),
        annotations: Default::default(),
    };
    Event::NamespaceObserved(record.into())
}

fn moving() -> impl Iterator<Item = Event> {
    (0..OBJECTS).map(|number| {
        let name = format!("web-{number}");
        pod(uid(1 << 52 | number), MOVING.into(), name, 1, footprint(number))
    })
}

/// Moves a namespace from group to group by its labels. Gives how often the state was held, and how often beyond 5 ms.
fn relabel(daemon: &Quotad, shape: Shape, leaves: u64) -> [f64; 2] {
    let holds = || daemon.samples("quota_ledger_state_lock_seconds", "0.005");
    let before = holds();
    let id = uid(1 << 51 | shape.namespaces).to_string();
    for number in 0..MOVES {
        let event = json!({"type": "MODIFIED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": MOVING, "uid": id, "resourceVersion": (number + 2).to_string(),
            "labels": {"team": format!("t{}", (number + 1) % leaves)}}}});
        let sent = ureq::post(format!("{}/v1/events", daemon.api))
            .header("content-type", "application/json")
            .send(event.to_string());
        let answer = sent.and_then(|mut response| response.body_mut().read_to_string());
        let answer = answer.expect("the daemon answers");
        assert!(answer.contains("\"accepted\":1"), "{answer}");
    }
    let after = holds();
    [after[0] - before[0], after[1] - before[1]]
}

fn write(directory: &Path, shape: Shape, groups: Option<&Groups>) {
    let groups = groups.into_iter().flat_map(|groups| {
        let namespaces = groups.namespaces(shape);
        groups.set().chain(namespaces)
    });
    shape.write_with(directory, groups.chain(moving()));
}

/// The rate with groups and without, in turn, and what a relabelled namespace costs.
pub fn all(bench: &Bench) -> Vec<Target> {
    let shape = Shape {
        namespaces: bench.sized(50_000),
        quotas_per_namespace: 1,
        live: bench.sized(500_000),
        changes: bench.sized(500_000),
    };
    let groups = Groups { trees: bench.sized(10_000).div_ceil(PER_TREE) };
    let directories = [bench.new_directory(), bench.new_directory()];
    write(directories[0].path(), shape, Some(&groups));
    write(directories[1].path(), shape, None);
    let daemons = directories.each_ref().map(|directory| Quotad::start(directory.path(), &[]));
    let namespaces = shape.namespaces.min(1000) as usize;
    let [with, without] = bench.rounds(|| {
        let [with, without] = &daemons;
        [with, without].map(|daemon| load(bench, daemon, 64, namespaces, bench.seconds).rate)
    });
    let [all, long] = relabel(&daemons[0], shape, groups.leaves());
    vec![
        Target {
            what: "rate of grants with groups / without",
            value: with / without,
            bound: Bound::AtLeast(0.8),
            unit: "",
            detail: format!(
                "{} and {} operations/s; {} groups in trees of {DEPTH} levels, {} namespaces, {} objects; 64 connections over {} namespaces, each counted by {DEPTH} groups",
                whole(with),
                whole(without),
                whole(groups.count() as f64),
                whole(shape.namespaces as f64),
                whole(shape.live as f64),
                whole(namespaces as f64)
            ),
        },
        Target {
            what: "holds of the state beyond 5 ms while a namespace moves between groups",
            value: long,
            bound: Bound::AtMost(0.0),
            unit: "",
            detail: format!(
                "of {}; a namespace with {} objects, moved {} times",
                whole(all),
                whole(OBJECTS as f64),
                whole(MOVES as f64)
            ),
        },
    ]
}
