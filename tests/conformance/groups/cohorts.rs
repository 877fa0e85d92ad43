//! Kueue's cohorts and queues, as a tree of groups (see the README of the vectors).

use std::collections::BTreeMap;

use quota_semantics::{admission::Limit as _, quantity::Quantity, resource::ResourceList};
use serde::Deserialize;
use serde_json::Value;

use super::{Counted, Group, Groups, items, read, text};
use crate::conformance::vectors::same;

#[derive(Clone, Copy, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Quota {
    nominal: i64,
    borrowing_limit: Option<i64>,
    lending_limit: Option<i64>,
}

#[derive(Clone, Default)]
struct Node {
    parent: String,
    quotas: BTreeMap<String, Quota>,
    usage: BTreeMap<String, i64>,
}

/// What the mapping says of a node and resource.
#[derive(Clone, Copy, Default)]
struct Mapped {
    /// S: nominal of the node and of all below it.
    subtree: i64,
    /// G: guaranteed to its children.
    below: i64,
}

struct World {
    resources: Vec<String>,
    nodes: BTreeMap<String, Node>,
    groups: Groups,
    /// The same without usage.
    empty: Groups,
    places: BTreeMap<String, usize>,
    mapped: BTreeMap<(String, String), Mapped>,
}

pub(crate) fn run(case: &Value) -> Result<(), String> {
    let mut nodes = BTreeMap::new();
    for node in items(case, "nodes") {
        let name = text(node, "name").to_owned();
        let usage = read::<Option<_>>(&case["usage"], &name)?.unwrap_or_default();
        let parent = text(node, "parent").to_owned();
        nodes.insert(name, Node { parent, quotas: quotas(node)?, usage });
    }
    let mut world = World {
        resources: read(case, "resources")?,
        nodes,
        groups: Groups::default(),
        empty: Groups::default(),
        places: BTreeMap::new(),
        mapped: BTreeMap::new(),
    };
    world.build();
    world.compare(&case["start"])?;
    for (place, step) in items(case, "steps").enumerate() {
        let done = world.step(step).and_then(|()| world.compare(&step["after"]));
        done.map_err(|error| format!("step {place}: {error}"))?;
    }
    Ok(())
}

fn quotas(value: &Value) -> Result<BTreeMap<String, Quota>, String> {
    Ok(read::<Option<_>>(value, "quotas")?.unwrap_or_default())
}

fn list(amounts: &BTreeMap<String, i64>) -> ResourceList {
    let amount =
        |(name, units): (&String, &i64)| (name.as_str().into(), Quantity::from_units(*units));
    amounts.iter().map(amount).collect()
}

impl World {
    fn children(&self, name: &str) -> Vec<String> {
        let is_child = |(_, node): &(&String, &Node)| node.parent == name;
        let children = self.nodes.iter().filter(is_child);
        children.map(|(name, _)| name.clone()).collect()
    }

    /// Maps a subtree and tells what its root is guaranteed of a resource.
    fn map(&mut self, name: &str, resource: &str) -> i64 {
        let mut mapped = Mapped::default();
        for child in self.children(name) {
            mapped.below += self.map(&child, resource);
            mapped.subtree += self.mapped[&(child, resource.to_owned())].subtree;
        }
        let quota = self.nodes[name].quotas.get(resource).copied().unwrap_or_default();
        mapped.subtree += quota.nominal;
        self.mapped.insert((name.to_owned(), resource.to_owned()), mapped);
        let lends = quota.lending_limit.unwrap_or(i64::MAX);
        mapped.below + (mapped.subtree - mapped.below).saturating_sub(lends).max(0)
    }

    fn build(&mut self) {
        self.mapped.clear();
        (self.groups, self.empty) = Default::default();
        self.places.clear();
        for root in self.children("") {
            self.place(&root, None);
        }
        for groups in [&mut self.groups, &mut self.empty] {
            groups.set_aside();
        }
        for (name, node) in &self.nodes {
            let chain = self.chain(name);
            self.groups.count(&chain, &list(&node.usage), true);
        }
    }

    fn place(&mut self, name: &str, parent: Option<usize>) {
        let (mut guaranteed, mut hard) = (BTreeMap::new(), BTreeMap::new());
        for resource in self.resources.clone() {
            let own = self.map(name, &resource);
            let subtree = self.mapped[&(name.to_owned(), resource.clone())].subtree;
            let borrows = self.nodes[name].quotas.get(&resource).and_then(|it| it.borrowing_limit);
            match (parent, borrows) {
                (None, _) => hard.insert(resource.clone(), subtree),
                (_, Some(borrows)) => hard.insert(resource.clone(), subtree + borrows),
                _ => None,
            };
            guaranteed.insert(resource, own);
        }
        for groups in [&mut self.groups, &mut self.empty] {
            let mut group = Group {
                name: name.into(),
                parent,
                guaranteed: list(&guaranteed),
                ..Group::default()
            };
            group.spec.hard = list(&hard);
            groups.0.push(group);
        }
        let place = self.places.len();
        self.places.insert(name.to_owned(), place);
        for child in self.children(name) {
            self.place(&child, Some(place));
        }
    }

    fn chain(&self, name: &str) -> Vec<usize> {
        self.groups.chain(|group| group.name == *name)
    }

    fn available(groups: &Groups, chain: &[usize], resource: &str) -> Option<i64> {
        let room = |limit: &Counted<'_>| {
            let mut room = limit.hard().get(resource)?.clone();
            room.sub_assign(&limit.counted(&resource.into())?);
            Some(room.value())
        };
        groups.limits(chain).iter().filter_map(room).min()
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let name = text(step, "node").to_owned();
        let amounts: BTreeMap<String, i64> =
            read::<Option<_>>(step, "amounts")?.unwrap_or_default();
        let chain = self.chain(&name);
        match text(step, "op") {
            "look" => {}
            "admit" => {
                let available: BTreeMap<String, i64> = read(step, "available")?;
                for (resource, expected) in available {
                    let ours = Self::available(&self.groups, &chain, &resource);
                    same(&format!("available {resource}"), &ours, &Some(expected))?;
                }
                let limits = self.groups.limits(&chain);
                let fits = Groups::admit(&limits, &list(&amounts)).is_ok();
                same("fits", &fits, &(step["fits"] == true))?;
                if fits {
                    self.count(&name, &amounts, 1);
                }
            }
            "release" => self.count(&name, &amounts, -1),
            "setQuotas" | "move" => {
                let node = self.nodes.get_mut(&name).ok_or("no such node")?;
                node.quotas = quotas(step)?;
                if text(step, "op") == "move" {
                    text(step, "parent").clone_into(&mut node.parent);
                }
                self.build();
            }
            other => return Err(format!("unknown op {other:?}")),
        }
        Ok(())
    }

    fn count(&mut self, name: &str, amounts: &BTreeMap<String, i64>, sign: i64) {
        let chain = self.chain(name);
        self.groups.count(&chain, &list(amounts), sign > 0);
        if let Some(node) = self.nodes.get_mut(name) {
            for (resource, amount) in amounts {
                *node.usage.entry(resource.clone()).or_default() += sign * amount;
            }
        }
    }

    fn compare(&self, expected: &Value) -> Result<(), String> {
        let expected: BTreeMap<String, BTreeMap<String, BTreeMap<String, i64>>> =
            Option::deserialize(expected).map_err(|error| error.to_string())?.unwrap_or_default();
        for (name, resources) in &expected {
            let place = *self.places.get(name).ok_or("no such node")?;
            let chain = self.chain(name);
            for (resource, figures) in resources {
                let mapped = self.mapped[&(name.clone(), resource.clone())];
                let load = self.groups.0[place].load.total(resource).value();
                let ours = [
                    ("subtreeQuota", Some(mapped.subtree - mapped.below)),
                    ("usage", Some(load - mapped.below)),
                    ("available", Self::available(&self.groups, &chain, resource)),
                    ("potentialAvailable", Self::available(&self.empty, &chain, resource)),
                ];
                for (figure, ours) in ours {
                    let what = format!("{figure} of {resource} of {name}");
                    same(&what, &ours, &figures.get(figure).copied())?;
                }
            }
        }
        Ok(())
    }
}
