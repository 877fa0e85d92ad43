//! OpenShift's ClusterResourceQuotas: who is a member, what is used, and what is admitted.

use std::collections::BTreeMap;

use quota_semantics::{
    Name,
    group::{Selector, selector::Labels},
    resource::ResourceList,
};
use serde_json::Value;

use super::{Group, Groups, items, pods, read, same_numbers, text};
use crate::conformance::vectors::{same, same_text};

#[derive(Default)]
struct Namespace {
    labels: Labels,
    annotations: Labels,
    objects: BTreeMap<String, ResourceList>,
}

#[derive(Default)]
struct World {
    groups: Groups,
    namespaces: BTreeMap<Name, Namespace>,
}

pub(crate) fn run(case: &Value) -> Result<(), String> {
    let mut world = World::default();
    for namespace in items(case, "namespaces") {
        world.namespaces.insert(text(namespace, "name").into(), labelled(namespace)?);
    }
    for group in items(case, "groups") {
        let mut set = Group {
            name: text(group, "name").into(),
            selector: read(group, "selector")?,
            ..Group::default()
        };
        set.spec.hard = read(group, "hard")?;
        world.groups.0.push(set);
    }
    // Chains are made backwards: those without a tree between them come by name.
    world.groups.0.sort_by(|a, b| b.name.cmp(&a.name));
    for (namespace, objects) in case["objects"].as_object().into_iter().flatten() {
        for object in objects.as_array().into_iter().flatten() {
            world.create(namespace, text(object, "name"), read(object, "usage")?);
        }
    }
    world.compare(&case["start"])?;
    for (place, step) in items(case, "steps").enumerate() {
        let done = world.step(step).and_then(|()| world.compare(&step["after"]));
        done.map_err(|error| format!("step {place}: {error}"))?;
    }
    Ok(())
}

fn labelled(value: &Value) -> Result<Namespace, String> {
    Ok(Namespace {
        labels: read::<Option<_>>(value, "labels")?.unwrap_or_default(),
        annotations: read::<Option<_>>(value, "annotations")?.unwrap_or_default(),
        objects: BTreeMap::new(),
    })
}

fn selects(selector: &Selector, name: &str, namespace: &Namespace) -> bool {
    selector.matches(name, Some((&namespace.labels, &namespace.annotations))) == Some(true)
}

fn sum<'l>(lists: impl Iterator<Item = &'l ResourceList>) -> ResourceList {
    let mut sum = ResourceList::new();
    lists.for_each(|list| _ = sum.add(list));
    sum
}

impl World {
    fn chain(&self, name: &str) -> Vec<usize> {
        let namespace = &self.namespaces[name];
        self.groups.chain(|group| selects(&group.selector, name, namespace))
    }

    fn create(&mut self, namespace: &str, object: &str, usage: ResourceList) {
        let chain = self.chain(namespace);
        self.groups.count(&chain, &usage, true);
        let objects = self.namespaces.get_mut(namespace).map(|it| &mut it.objects);
        objects.into_iter().for_each(|it| {
            it.insert(object.to_owned(), usage.clone());
        });
    }

    fn count(&mut self, name: &str, adds: bool) {
        let Some(namespace) = self.namespaces.get(name) else {
            return;
        };
        let usage = sum(namespace.objects.values());
        let chain = self.chain(name);
        self.groups.count(&chain, &usage, adds);
    }

    /// Counts a namespace anew, after something changed about it.
    fn change(&mut self, name: &str, change: impl FnOnce(&mut Self)) {
        self.count(name, false);
        change(self);
        self.count(name, true);
    }

    fn step(&mut self, step: &Value) -> Result<(), String> {
        let (namespace, object) = (text(step, "namespace"), text(step, "object"));
        match text(step, "op") {
            "create" => self.ask(step, namespace, object),
            "delete" => {
                self.change(namespace, |world| {
                    let namespace = world.namespaces.get_mut(namespace);
                    namespace.map(|it| it.objects.remove(object));
                });
                Ok(())
            }
            "setNamespace" => {
                let labelled = labelled(step)?;
                self.change(namespace, |world| {
                    if let Some(namespace) = world.namespaces.get_mut(namespace) {
                        let objects = std::mem::take(&mut namespace.objects);
                        *namespace = Namespace { objects, ..labelled };
                    }
                });
                Ok(())
            }
            "deleteNamespace" => {
                self.change(namespace, |world| {
                    world.namespaces.remove(namespace);
                });
                Ok(())
            }
            "setHard" => {
                let hard: ResourceList = read(step, "hard")?;
                let set = |group: &&mut Group| group.name == *text(step, "group");
                let group = self.groups.0.iter_mut().find(set).ok_or("no such group")?;
                group.spec.hard = hard;
                Ok(())
            }
            other => Err(format!("unknown op {other:?}")),
        }
    }

    fn ask(&mut self, step: &Value, namespace: &str, object: &str) -> Result<(), String> {
        let usage: ResourceList = read(step, "usage")?;
        let chain = self.chain(namespace);
        let applying: Vec<&str> = chain.iter().map(|&it| &*self.groups.0[it].name).collect();
        let expected: Vec<&str> = items(step, "groups").filter_map(Value::as_str).collect();
        same("groups", &applying, &expected)?;
        let decided = Groups::admit(&self.groups.limits(&chain), &usage);
        same("allowed", &decided.is_ok(), &(step["allowed"] == true))?;
        match decided {
            Ok(()) => self.create(namespace, object, usage),
            Err(denial) => {
                same_text("message", &denial.message(&pods(), object), &step["message"])?;
            }
        }
        Ok(())
    }

    fn compare(&self, expected: &Value) -> Result<(), String> {
        for (name, status) in expected.as_object().into_iter().flatten() {
            let group = self.groups.0.iter().find(|it| it.name == **name);
            let group = group.ok_or("no such group")?;
            let hard = &group.spec.hard;
            let limited = |list: &ResourceList| list.mask(|name| hard.get(name).is_some());
            same_numbers(&format!("hard of {name}"), hard, &read(status, "hard")?)?;
            let used = limited(&group.load.used);
            same_numbers(&format!("used of {name}"), &used, &read(status, "used")?)?;
            let members: BTreeMap<Name, ResourceList> = read(status, "namespaces")?;
            let mut ours = BTreeMap::new();
            for (name, namespace) in &self.namespaces {
                if selects(&group.selector, name, namespace) {
                    let used = limited(&sum(namespace.objects.values()));
                    ours.insert(name.clone(), used);
                }
            }
            let names =
                |map: &BTreeMap<Name, ResourceList>| map.keys().cloned().collect::<Vec<_>>();
            same("namespaces", &names(&ours), &names(&members))?;
            for (namespace, used) in &members {
                same_numbers(&format!("used of {name} in {namespace}"), &ours[namespace], used)?;
            }
        }
        Ok(())
    }
}
