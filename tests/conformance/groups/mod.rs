//! Quotas over many namespaces, and trees of them.

pub(crate) mod cohorts;
pub(crate) mod hierarchy;
pub(crate) mod select;
pub(crate) mod status;

use std::collections::BTreeMap;

use quota_semantics::{
    Name,
    admission::{self, Attempt, Denial, Limit, Operation},
    group::{Load, Loads, LoadsMut, Selector, Sum, load},
    object::{EveryClass, Footprint, GroupResource},
    quantity::Quantity,
    quota,
    resource::ResourceList,
};
use serde::{Deserialize as _, de::DeserializeOwned};
use serde_json::Value;

/// A group with what counts in it.
#[derive(Default)]
pub(crate) struct Group {
    pub(crate) name: Name,
    pub(crate) selector: Selector,
    pub(crate) parent: Option<usize>,
    pub(crate) guaranteed: ResourceList,
    pub(crate) spec: quota::Spec,
    pub(crate) load: Load,
}

/// All groups. Parents have smaller places than their children.
#[derive(Default)]
pub(crate) struct Groups(pub(crate) Vec<Group>);

impl Loads for Groups {
    type Id = usize;
    fn parent(&self, group: usize) -> Option<usize> {
        self.0[group].parent
    }
    fn guaranteed(&self, group: usize) -> &ResourceList {
        &self.0[group].guaranteed
    }
    fn load(&self, group: usize) -> &Load {
        &self.0[group].load
    }
}

impl LoadsMut for Groups {
    fn load_mut(&mut self, group: usize) -> &mut Load {
        &mut self.0[group].load
    }
}

/// A group as a decision on one object looks at it.
pub(crate) struct Counted<'a> {
    group: &'a Group,
    free: ResourceList,
}

impl Limit for Counted<'_> {
    fn name(&self) -> &Name {
        &self.group.name
    }
    fn spec(&self) -> &quota::Spec {
        &self.group.spec
    }
    fn hard(&self) -> &ResourceList {
        &self.group.spec.hard
    }
    fn counted(&self, name: &Name) -> Option<Quantity> {
        Some(self.group.load.against(&self.free, name))
    }
}

impl Groups {
    /// Adds up what the groups set aside, after they were put in place.
    pub(crate) fn set_aside(&mut self) {
        for place in (0..self.0.len()).rev() {
            let needs = load::needs(self, place);
            if let Some(parent) = self.0[place].parent {
                self.0[parent].load.set_aside.add(&needs);
            }
        }
    }

    /// The groups that count an object which these select, children first.
    pub(crate) fn chain(&self, selects: impl Fn(&Group) -> bool) -> Vec<usize> {
        let mut counts: Vec<bool> = self.0.iter().map(selects).collect();
        for place in (0..self.0.len()).rev() {
            if let (true, Some(parent)) = (counts[place], self.0[place].parent) {
                counts[parent] = true;
            }
        }
        let mut chain: Vec<usize> = (0..self.0.len()).filter(|&it| counts[it]).collect();
        chain.reverse();
        chain
    }

    pub(crate) fn limits(&self, chain: &[usize]) -> Vec<Counted<'_>> {
        let free = load::free(self, chain);
        let of = |(&group, free)| Counted { group: &self.0[group], free };
        chain.iter().zip(free).map(of).collect()
    }

    /// Whether an object with these amounts may be created.
    pub(crate) fn admit(limits: &[Counted<'_>], amounts: &ResourceList) -> Result<(), Denial> {
        let new = Footprint { resources: amounts.clone(), ..Footprint::default() };
        let attempt = Attempt {
            kind: &pods(),
            measured: true,
            operation: Operation::Create,
            subresource: "",
            new: &new,
            old: None,
            old_has_version: true,
            requirements: &|_| None,
            context: &EveryClass,
        };
        admission::evaluate(limits, &attempt, &[]).map(|_| ())
    }

    pub(crate) fn count(&mut self, chain: &[usize], amounts: &ResourceList, adds: bool) {
        for &group in chain {
            load::count(self, group, Sum::Used, amounts, adds);
        }
    }
}

pub(crate) fn pods() -> GroupResource {
    GroupResource::new("", "pods")
}

/// Part of a case as the type that the core reads it with; absent reads as `null`.
pub(crate) fn read<T: DeserializeOwned>(value: &Value, key: &str) -> Result<T, String> {
    T::deserialize(&value[key]).map_err(|error| format!("{key}: {error}"))
}

pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value[key].as_str().unwrap_or_default()
}

pub(crate) fn items<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v Value> {
    value[key].as_array().into_iter().flatten()
}

/// Fails unless both lists have the same numbers; absent is zero.
pub(crate) fn same_numbers(
    what: &str,
    ours: &ResourceList,
    theirs: &ResourceList,
) -> Result<(), String> {
    if ours.without_zeros() == theirs.without_zeros() {
        return Ok(());
    }
    Err(format!("{what} is {ours}, expected {theirs}"))
}

/// Fails unless a figure is what the case tells of it, if it does.
pub(crate) fn same_figures(
    what: &str,
    theirs: &Value,
    ours: impl Fn(&str) -> Result<ResourceList, String>,
) -> Result<(), String> {
    let theirs: BTreeMap<String, ResourceList> =
        Option::deserialize(theirs).map_err(|error| error.to_string())?.unwrap_or_default();
    for (name, list) in &theirs {
        same_numbers(&format!("{what} of {name}"), &ours(name)?, list)?;
    }
    Ok(())
}
