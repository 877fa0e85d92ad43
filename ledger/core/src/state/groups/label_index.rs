//! An index of groups by the labels that their selectors require, so that only few of ten thousand groups are examined
//! for a namespace.

use std::collections::{BTreeMap, BTreeSet};

use super::remove;
use quota_semantics::{
    Name,
    group::{
        LabelSelector, Selector,
        selector::{Labels, NAME_LABEL},
    },
};

/// Groups by a label that their members must have.
#[derive(Clone, Debug, Default)]
pub(super) struct LabelIndex {
    by_label: BTreeMap<(Name, Name), BTreeSet<u32>>,
    /// Groups that require no value of a label, but select by the name of a namespace.
    by_name: BTreeSet<u32>,
    /// Groups that require no value of a label, and do not select by name.
    elsewhere: BTreeSet<u32>,
}

/// The labels of which a member must have at least one; none: the selector requires no such labels. Names are
/// preferred: the name of every namespace is available.
fn anchors(selector: &LabelSelector) -> Option<Vec<(Name, Name)>> {
    let equal = selector.match_labels.iter().map(|(key, value)| vec![(key.clone(), value.clone())]);
    let listed = selector.match_expressions.iter();
    let listed = listed.filter(|requirement| *requirement.operator == *"In").map(|requirement| {
        let of_value = |value: &Name| (requirement.key.clone(), value.clone());
        requirement.values.iter().map(of_value).collect()
    });
    let all: Vec<Vec<_>> = equal.chain(listed).collect();
    let of_names =
        |anchors: &&Vec<(Name, Name)>| anchors.first().is_some_and(|(key, _)| *key == *NAME_LABEL);
    all.iter().find(of_names).or(all.first()).cloned()
}

impl LabelIndex {
    pub(super) fn insert(&mut self, group: u32, selector: &Selector) {
        if selector.is_empty() {
            return;
        }
        match selector.labels.as_ref().and_then(anchors) {
            None => {
                match Self::is_decided_by_name(selector) {
                    true => self.by_name.insert(group),
                    false => self.elsewhere.insert(group),
                };
            }
            Some(anchors) => {
                for anchor in anchors {
                    self.by_label.entry(anchor).or_default().insert(group);
                }
            }
        }
    }

    pub(super) fn remove(&mut self, group: u32, selector: &Selector) {
        let anchors = selector.labels.as_ref().and_then(anchors);
        for anchor in anchors.into_iter().flatten() {
            remove(&mut self.by_label, &anchor, group);
        }
        self.elsewhere.remove(&group);
        self.by_name.remove(&group);
    }

    /// The groups whose selectors may match a namespace. Without labels, only selectors by name can match.
    pub(super) fn candidates(&self, name: &Name, labels: Option<&Labels>) -> BTreeSet<u32> {
        let own = (Name::from(NAME_LABEL), name.clone());
        let elsewhere = labels.is_some().then_some(&self.elsewhere);
        let labels = labels.into_iter().flatten();
        let labels = labels
            .filter(|(key, _)| **key != *NAME_LABEL)
            .map(|(key, value)| (key.clone(), value.clone()));
        let anchored =
            std::iter::once(own).chain(labels).filter_map(|label| self.by_label.get(&label));
        let elsewhere = elsewhere.into_iter().flatten();
        let all = anchored.flatten().chain(&self.by_name).chain(elsewhere);
        all.copied().collect()
    }

    /// The groups that list this namespace by its name. They may require more than the name.
    pub(super) fn listing(&self, name: &Name) -> impl Iterator<Item = u32> {
        let own = (Name::from(NAME_LABEL), name.clone());
        let groups = self.by_label.get(&own).into_iter().flatten();
        groups.copied()
    }

    /// Whether the name of a namespace alone decides the selector.
    pub(super) fn is_decided_by_name(selector: &Selector) -> bool {
        let mut keys = selector.labels.iter().flat_map(LabelSelector::keys);
        selector.annotations.is_empty() && keys.all(|key| *key == *NAME_LABEL)
    }

    /// The names that a selector lists, if it selects listed namespaces only.
    pub(super) fn names(selector: &Selector) -> Option<Vec<Name>> {
        let anchors = selector.labels.as_ref().and_then(anchors)?;
        let is_name = |(key, value): (Name, Name)| (*key == *NAME_LABEL).then_some(value);
        anchors.into_iter().map(is_name).collect()
    }
}
