//! The groups that count objects of a namespace.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use super::Groups;
use crate::{
    event::{NamespaceRecord, Reservation},
    state::{
        State,
        group_path::{GroupPath, Link},
        namespaces::Namespace,
        other_limits::Others,
    },
};
use quota_semantics::{
    Name,
    group::{Selector, selector::Labels},
};

/// Labels and annotations in the form for selectors.
fn labels_and_annotations(record: Option<&NamespaceRecord>) -> Option<(&Labels, &Labels)> {
    record.map(|record| (&record.labels, &record.annotations))
}

impl Groups {
    /// Whether a selector matches a namespace; none: undecided, since the labels are unknown.
    pub(super) fn decides(
        selector: &Selector,
        name: &str,
        record: Option<&NamespaceRecord>,
    ) -> Option<bool> {
        match selector.is_empty() {
            true => Some(false),
            false => selector.matches(name, labels_and_annotations(record)),
        }
    }

    /// The groups that count objects of a namespace. Undecided groups do not count it yet.
    pub(super) fn path(&self, name: &Name, record: Option<&NamespaceRecord>) -> GroupPath {
        let candidates = self.by_label.candidates(name, record.map(|record| &record.labels));
        // The selecting groups below each group; none: the group counts all objects.
        let mut found: BTreeMap<u32, Option<BTreeSet<u32>>> = BTreeMap::new();
        let mut distances: BTreeMap<u32, usize> = BTreeMap::new();
        let mut note = |group: u32, chooser: Option<u32>| match chooser {
            None => {
                found.insert(group, None);
            }
            Some(chooser) => {
                let choosers = found.entry(group).or_insert_with(|| Some(BTreeSet::new()));
                if let Some(choosers) = choosers {
                    choosers.insert(chooser);
                }
            }
        };
        for group in candidates {
            let spec = &self.get(group).record.spec;
            if Self::decides(&spec.selector, name, record) != Some(true) {
                continue;
            }
            let chooser = spec.is_partial().then_some(group);
            for (steps, at) in std::iter::once(group).chain(self.above(group)).enumerate() {
                note(at, chooser);
                let distance = distances.entry(at).or_insert(steps);
                *distance = steps.min(*distance);
            }
        }
        let mut links: Vec<_> = found
            .into_iter()
            .map(|(group, choosers)| Link {
                distance: distances.get(&group).copied().unwrap_or(0),
                group,
                partial: choosers.map(|choosers| choosers.into_iter().collect()),
            })
            .collect();
        links.sort_by_key(|link| (Reverse(self.above(link.group).count()), link.group));
        links.into()
    }
}

impl State {
    /// The place of a namespace, which is created if necessary.
    pub(in crate::state) fn ensure_namespace(&mut self, name: &Name) -> u32 {
        if let Some(place) = self.namespaces.place(name) {
            return place;
        }
        let place = self.namespaces.ensure(name);
        self.rejoin(place, &|_| false);
        place
    }

    pub(in crate::state) fn drop_namespace_if_empty(&mut self, place: u32) {
        let namespace = self.namespaces.slab.get(place);
        if !matches!(self.others, Others::None) || !namespace.is_some_and(Namespace::is_empty) {
            return;
        }
        let Namespace { name, path, .. } = self.namespaces.get(place);
        for link in path.iter() {
            self.groups.leave(link.group, name);
        }
        self.namespaces.drop_if_empty(place);
    }

    /// Computes again which groups count objects of a namespace, and moves the counted amounts. `is_other` selects the
    /// groups that count other objects than before.
    pub(super) fn rejoin(&mut self, place: u32, is_other: &dyn Fn(&Link) -> bool) {
        let namespace = self.namespaces.get(place);
        let before = namespace.path.clone();
        let record = namespace.record();
        let after = match self.groups.is_empty() {
            true => GroupPath::default(),
            false => self.groups.path(&namespace.name, record),
        };
        let stays = |link: &Link, others: &GroupPath| {
            others.iter().any(|other| other.counts_as(link)) && !is_other(link)
        };
        for link in before.iter().filter(|link| !stays(link, &after)) {
            self.uncount_namespace(place, link);
        }
        self.namespaces.get_mut(place).path = after.clone();
        for link in after.iter().filter(|link| !stays(link, &before)) {
            self.count_namespace(place, link);
        }
    }

    /// Computes the membership again after the record of a namespace has changed.
    pub(in crate::state) fn rejoin_namespace(&mut self, place: u32) {
        self.rejoin(place, &|_| false);
    }

    /// The groups that count objects of a namespace, even if the namespace is empty.
    pub(crate) fn path_of(&self, namespace: &Name) -> GroupPath {
        if self.groups.is_empty() {
            return GroupPath::default();
        }
        match self.namespaces.find(namespace) {
            Some(namespace) => namespace.path.clone(),
            None => self.groups.path(namespace, None),
        }
    }

    /// The pending reservations whose ends may make room for an object of a namespace, and their places, soonest first;
    /// none if there are more than `most`, or if too many namespaces would have to be searched.
    pub(crate) fn soonest_for(
        &self,
        namespace: &Name,
        most: usize,
    ) -> Option<Vec<(u32, &Reservation)>> {
        let mut places: BTreeSet<u32> = self.namespaces.place(namespace).into_iter().collect();
        for link in self.path_of(namespace).iter() {
            if self.groups.get(link.group).record.spec.extensions.each {
                continue;
            }
            let members = self.groups.members(link.group);
            if members.len() > most {
                return None;
            }
            places.extend(members.values());
        }
        let namespaces = || places.iter().map(|&place| self.namespaces.get(place));
        if namespaces().map(|namespace| namespace.pending.len()).sum::<usize>() > most {
            return None;
        }
        let pending = namespaces().flat_map(|namespace| &namespace.pending);
        let mut pending: Vec<_> =
            pending.map(|&place| (place, &*self.reservations.get(place).reservation)).collect();
        pending.sort_by_key(|(_, reservation)| {
            (reservation.expiration, &reservation.namespace, &reservation.uid)
        });
        Some(pending)
    }
}
