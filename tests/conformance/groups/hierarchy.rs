//! HNC's hierarchical quotas: for each namespace a group that its children's are part of, and for each quota a group
//! that selects the namespaces of its subtree.

use std::collections::{BTreeMap, BTreeSet};

use quota_semantics::{Name, admission::Denial, quantity::Quantity, resource::ResourceList};
use serde_json::Value;

use super::{Group, Groups, items, read, same_figures, same_numbers, text};
use crate::conformance::vectors::same;

#[derive(Default)]
struct World {
    parents: BTreeMap<Name, Option<Name>>,
    /// By namespace and name.
    quotas: BTreeMap<(Name, Name), ResourceList>,
    usage: BTreeMap<Name, ResourceList>,
}

pub(crate) fn run(case: &Value) -> Result<(), String> {
    let mut world = World { usage: read(case, "usage")?, ..World::default() };
    for namespace in items(case, "namespaces") {
        let parent = namespace["parent"].as_str().map(Name::from);
        world.parents.insert(text(namespace, "name").into(), parent);
    }
    for quota in items(case, "quotas") {
        world.set_quota(quota)?;
    }
    let (mut groups, mut places) = world.groups()?;
    world.compare(&case["start"], &groups, &places)?;
    for (place, step) in items(case, "steps").enumerate() {
        let namespace = Name::from(text(step, "namespace"));
        match text(step, "op") {
            "request" => {
                let amounts: ResourceList = read(step, "add")?;
                let decision = world.ask(step, &groups, &namespace, &amounts);
                decision.map_err(|error| format!("step {place}: {error}"))?;
                if step["allowed"] == true {
                    let chain = world.chain(&groups, &namespace);
                    groups.count(&chain, &amounts, true);
                    world.usage.entry(namespace).or_default().add(&amounts);
                }
            }
            "observe" => {
                let chain = world.chain(&groups, &namespace);
                let usage: ResourceList = read(step, "usage")?;
                let before = world.usage.insert(namespace, usage.clone());
                groups.count(&chain, &before.unwrap_or_default(), false);
                groups.count(&chain, &usage, true);
            }
            "move" => {
                let parent = Some(text(step, "parent")).filter(|it| !it.is_empty());
                world.parents.insert(namespace, parent.map(Name::from));
                (groups, places) = world.groups()?;
            }
            "setQuota" => {
                world.set_quota(step)?;
                (groups, places) = world.groups()?;
            }
            other => return Err(format!("unknown op {other:?}")),
        }
        let same = world.compare(&step["after"], &groups, &places);
        same.map_err(|error| format!("step {place}: {error}"))?;
    }
    Ok(())
}

impl World {
    fn set_quota(&mut self, quota: &Value) -> Result<(), String> {
        let key = (text(quota, "namespace").into(), text(quota, "name").into());
        self.quotas.insert(key, read(quota, "hard")?);
        Ok(())
    }

    /// A namespace and those above it.
    fn ancestry<'a>(&'a self, namespace: &'a Name) -> Vec<&'a Name> {
        let above = |at: &&'a Name| self.parents.get(*at)?.as_ref();
        std::iter::successors(Some(namespace), above).collect()
    }

    /// The groups, with the places of those of the namespaces.
    fn groups(&self) -> Result<(Groups, BTreeMap<Name, usize>), String> {
        let mut groups = Groups::default();
        let mut places = BTreeMap::new();
        for ((namespace, name), hard) in &self.quotas {
            let below = self.parents.keys().filter(|it| self.ancestry(it).contains(&namespace));
            let mut group = group(format!("{namespace}/{name}"), below)?;
            group.spec.hard = hard.clone();
            groups.0.push(group);
        }
        let mut namespaces: Vec<&Name> = self.parents.keys().collect();
        namespaces.sort_by_key(|namespace| self.ancestry(namespace).len());
        for namespace in namespaces {
            let parent = self.ancestry(namespace).get(1).and_then(|it| places.get(*it)).copied();
            let group = group(namespace.to_string(), [namespace].into_iter())?;
            places.insert(namespace.clone(), groups.0.len());
            groups.0.push(Group { parent, ..group });
        }
        for (namespace, usage) in &self.usage {
            let chain = self.chain(&groups, namespace);
            groups.count(&chain, usage, true);
        }
        Ok((groups, places))
    }

    fn chain(&self, groups: &Groups, namespace: &Name) -> Vec<usize> {
        groups.chain(|group| group.selector.matches(namespace, None) == Some(true))
    }

    fn ask(
        &self,
        step: &Value,
        groups: &Groups,
        namespace: &Name,
        amounts: &ResourceList,
    ) -> Result<(), String> {
        let limits = groups.limits(&self.chain(groups, namespace));
        let allowed = Groups::admit(&limits, amounts).is_ok();
        same("allowed", &allowed, &(step["allowed"] == true))?;
        // Namespace, quota and names of all that fail.
        let mut failing = BTreeMap::new();
        for limit in &limits {
            let decided = Groups::admit(std::slice::from_ref(limit), amounts);
            if let Err(Denial::ExceedsHard { quota, requested, .. }) = decided {
                let (namespace, name) = quota.split_once('/').ok_or("not a quota")?;
                let names: BTreeSet<Name> = requested.names().cloned().collect();
                let failing: &mut BTreeMap<String, BTreeSet<Name>> =
                    failing.entry(namespace.to_owned()).or_default();
                failing.insert(name.to_owned(), names);
            }
        }
        let topmost =
            self.ancestry(namespace).into_iter().rev().find(|it| failing.contains_key(&***it));
        let ours = topmost.map(|namespace| {
            let quotas = &failing[&**namespace];
            let names: BTreeSet<String> =
                quotas.values().flatten().map(ToString::to_string).collect();
            (namespace.to_string(), quotas.keys().cloned().collect::<Vec<_>>(), names)
        });
        let denied = &step["denied"];
        let texts =
            |key: &'static str| items(denied, key).filter_map(Value::as_str).map(str::to_owned);
        let theirs = denied.is_object().then(|| {
            (
                text(denied, "namespace").to_owned(),
                texts("quotas").collect(),
                texts("exceeded").collect(),
            )
        });
        same("denied", &ours, &theirs)
    }

    fn compare(
        &self,
        expected: &Value,
        groups: &Groups,
        places: &BTreeMap<Name, usize>,
    ) -> Result<(), String> {
        same_figures("limits", &expected["limits"], |namespace| {
            let mut limits = ResourceList::new();
            for &place in &self.chain(groups, &namespace.into()) {
                for (name, hard) in groups.0[place].spec.hard.iter() {
                    if limits.get(name).is_none_or(|least: &Quantity| hard < least) {
                        limits.insert(name.clone(), hard.clone());
                    }
                }
            }
            Ok(limits)
        })?;
        let subtrees: BTreeMap<Name, ResourceList> =
            read::<Option<_>>(expected, "subtree")?.unwrap_or_default();
        for (namespace, subtree) in &subtrees {
            let place = *places.get(namespace).ok_or("no such namespace")?;
            let used = groups.0[place].load.used.mask(|name| subtree.get(name).is_some());
            same_numbers(&format!("subtree of {namespace}"), &used, subtree)?;
        }
        Ok(())
    }
}

fn group<'n>(name: String, namespaces: impl Iterator<Item = &'n Name>) -> Result<Group, String> {
    let names: Vec<&Name> = namespaces.collect();
    let selector = serde_json::json!({ "labels": { "matchExpressions": [
        { "key": "kubernetes.io/metadata.name", "operator": "In", "values": names }
    ]}});
    Ok(Group {
        name: name.into(),
        selector: serde_json::from_value(selector).map_err(|error| error.to_string())?,
        ..Group::default()
    })
}
