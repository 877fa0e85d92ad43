//! Groups that the name of a namespace alone cannot decide, indexed by the limits that depend on them: while the labels
//! of a namespace are unknown, a grant has to find one such group without examining all.

use std::collections::{BTreeMap, BTreeSet};

use super::{Groups, label_index::LabelIndex, remove};
use crate::state::State;
use quota_semantics::{
    Name,
    group::{Enforcement, Selector},
    resource::ResourceList,
};

/// Open groups: their selectors need labels or annotations. Groups that list their namespaces are found by the names
/// instead.
#[derive(Clone, Debug, Default)]
pub(super) struct Open {
    own: BTreeSet<u32>,
    /// By group: its children that are open, or have open descendants.
    below: BTreeMap<u32, BTreeSet<u32>>,
    /// By resource: the groups that limit it and are open, or have open descendants.
    limiting: BTreeMap<Name, BTreeSet<u32>>,
}

impl Open {
    /// Whether a group is open, or has open descendants.
    fn has(&self, group: u32) -> bool {
        self.own.contains(&group) || self.below.contains_key(&group)
    }

    fn note(&mut self, group: u32, hard: &ResourceList) {
        for name in hard.names() {
            self.limiting.entry(name.clone()).or_default().insert(group);
        }
    }

    fn forget(&mut self, group: u32, hard: &ResourceList) {
        for name in hard.names() {
            remove(&mut self.limiting, name, group);
        }
    }
}

fn is_open(selector: &Selector) -> bool {
    !LabelIndex::is_decided_by_name(selector) && LabelIndex::names(selector).is_none()
}

impl Groups {
    /// Indexes a group that is new or has changed.
    pub(super) fn index_open(&mut self, group: u32) {
        let is_new = !self.open.has(group);
        if is_open(&self.get(group).record.spec.selector) {
            self.open.own.insert(group);
        }
        self.note_limits(group);
        if is_new {
            self.link_open(group);
        }
    }

    /// Removes a group from the index, before it changes.
    pub(super) fn unindex_open(&mut self, group: u32) {
        self.forget_limits(group);
        if self.open.own.remove(&group) && !self.open.has(group) {
            self.end_open(group);
        }
    }

    /// Indexes the limits of a group.
    pub(super) fn note_limits(&mut self, group: u32) {
        if self.open.has(group) {
            let hard = self.get(group).hard().clone();
            self.open.note(group, &hard);
        }
    }

    /// Removes the limits of a group from the index.
    pub(super) fn forget_limits(&mut self, group: u32) {
        if self.open.has(group) {
            let hard = self.get(group).hard().clone();
            self.open.forget(group, &hard);
        }
    }

    /// Indexes a group as a child of its parent.
    pub(super) fn link_open(&mut self, group: u32) {
        let Some(parent) = self.get(group).parent.filter(|_| self.open.has(group)) else {
            return;
        };
        let is_first = !self.open.has(parent);
        self.open.below.entry(parent).or_default().insert(group);
        if is_first {
            self.begin_open(parent);
        }
    }

    /// Removes a group from the children of its parent, while it still names the parent.
    pub(super) fn unlink_open(&mut self, group: u32) {
        let Some(parent) = self.get(group).parent.filter(|_| self.open.has(group)) else {
            return;
        };
        self.leave_open(parent, group);
    }

    fn begin_open(&mut self, group: u32) {
        self.note_limits(group);
        self.link_open(group);
    }

    fn end_open(&mut self, group: u32) {
        let hard = self.get(group).hard().clone();
        self.open.forget(group, &hard);
        if let Some(parent) = self.get(group).parent {
            self.leave_open(parent, group);
        }
    }

    fn leave_open(&mut self, parent: u32, child: u32) {
        remove(&mut self.open.below, &parent, child);
        if !self.open.has(parent) {
            self.end_open(parent);
        }
    }

    /// Whether the selector of a group needs the labels of a namespace, of which only the name is known.
    fn is_undecided(&self, group: u32, namespace: &str) -> bool {
        let selector = &self.get(group).record.spec.selector;
        Self::decides(selector, namespace, None).is_none()
    }

    /// An undecided group among a group and its descendants. Groups that exclude the namespace by its name are skipped.
    fn undecided_below(&self, group: u32, namespace: &str) -> Option<u32> {
        if self.open.own.contains(&group) && self.is_undecided(group, namespace) {
            return Some(group);
        }
        let below = self.open.below.get(&group).into_iter().flatten();
        below.copied().find_map(|child| self.undecided_below(child, namespace))
    }

    /// A group that is undecided for a namespace with unknown labels, among those that limit any of these names, or
    /// that are descendants of one that does. Only limits that can deny matter: those that are enforced, and that no
    /// quota of the namespace replaces.
    pub(super) fn undecided(
        &self,
        namespace: &Name,
        wanted: &ResourceList,
        has_quota: impl Fn(&Name) -> bool,
    ) -> Option<u32> {
        let denies = |group: &u32| {
            let record = &self.get(*group).record;
            let extensions = &record.spec.extensions;
            extensions.enforcement == Enforcement::Enforce
                && !(extensions.each && has_quota(&record.name))
        };
        let limits = |group: u32| {
            let hard = self.get(group).hard();
            denies(&group) && wanted.names().any(|name| hard.get(name).is_some())
        };
        let mut listed = self.by_label.listing(namespace);
        let listed = listed.find(|&group| {
            self.is_undecided(group, namespace) && (limits(group) || self.above(group).any(limits))
        });
        let limiting = || {
            let names = wanted.names().filter_map(|name| self.open.limiting.get(name));
            let mut groups = names.flatten().copied().filter(denies);
            groups.find_map(|group| self.undecided_below(group, namespace))
        };
        listed.or_else(limiting)
    }

    /// Whether any group is undecided for a namespace, whatever it limits.
    pub(super) fn has_undecided(&self, namespace: &Name) -> bool {
        let mut all = self.by_label.listing(namespace).chain(self.open.own.iter().copied());
        all.any(|group| self.is_undecided(group, namespace))
    }
}

impl State {
    /// A group that is undecided for a namespace since the labels of the namespace are unknown, among those that matter
    /// for these amounts; zeros do not matter.
    #[must_use]
    pub(crate) fn undecided_group(&self, namespace: &Name, wanted: &ResourceList) -> Option<&Name> {
        if self.groups.is_empty() || self.observed_namespace(namespace).is_some() {
            return None;
        }
        let recorded = self.namespaces.find(namespace);
        let has_quota =
            |name: &Name| recorded.is_some_and(|recorded| recorded.quotas.contains_key(name));
        let wanted = wanted.without_zeros();
        let group = self.groups.undecided(namespace, &wanted, has_quota)?;
        Some(&self.groups.get(group).record.name)
    }

    /// Whether a group may select a namespace, as far as it can be decided.
    pub(crate) fn may_have_groups(&self, namespace: &Name) -> bool {
        !self.path_of(namespace).is_empty()
            || self.observed_namespace(namespace).is_none() && self.groups.has_undecided(namespace)
    }
}
