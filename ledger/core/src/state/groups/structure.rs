//! Setting and deleting groups, and the trees that they form.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Group, Groups, label_index::LabelIndex};
use crate::{
    event::{Entry, GroupRecord},
    state::{
        State,
        group_path::Link,
        namespaces::{Extra, QuotaState},
    },
};
use quota_semantics::{
    Name,
    group::{
        Spec,
        extension::PREFIX,
        load::{needs, raise},
        tree::Forest,
    },
    resource::ResourceList,
};

impl Forest for Groups {
    fn spec(&self, name: &str) -> Option<&Spec> {
        self.find(name).map(|group| &group.record.spec)
    }

    fn children(&self, name: &str) -> Vec<Name> {
        let children = self.children.get(name).into_iter().flatten();
        children.map(|&child| self.get(child).record.name.clone()).collect()
    }
}

impl State {
    pub(in crate::state) fn end_override(&mut self, namespace: Option<&Name>, name: &Name) {
        self.deadlines.set((namespace.cloned(), name.clone()), None);
        let Some(namespace) = namespace else {
            if let Some(&place) = self.groups.by_name.get(name) {
                self.groups.forget_limits(place);
                let group = self.groups.get_mut(place);
                group.override_ended = true;
                group.settle_override();
                self.groups.note_limits(place);
            }
            return;
        };
        let Some(place) = self.namespaces.place(namespace) else {
            return;
        };
        if let Some(quota) = self.namespaces.get_mut(place).quotas.get_mut(name) {
            quota.override_ended = true;
        }
    }
}

/// Whether two specs count the same objects of the same namespaces, at the same place in the tree.
fn counts_the_same(before: &Spec, after: &Spec) -> bool {
    before.selector == after.selector
        && before.extensions.parent == after.extensions.parent
        && chooses_the_same(before, after)
}

/// Whether two specs count the same objects of a namespace.
fn chooses_the_same(before: &Spec, after: &Spec) -> bool {
    before.quota.scopes == after.quota.scopes
        && before.quota.selector == after.quota.selector
        && before.extensions.objects == after.extensions.objects
}

impl Groups {
    /// Adds the guarantee of a child to the amounts set aside in its parent, or removes it.
    fn set_aside(&mut self, parent: Option<u32>, child: u32, adds: bool) {
        let needs = needs(self, child);
        let change = match adds {
            true => needs,
            false => {
                let mut negative = ResourceList::new();
                negative.subtract(&needs);
                negative
            }
        };
        raise(self, parent, change);
    }

    /// The place of a group's parent, if the parent exists and is not a descendant of the group.
    fn find_parent(&self, group: u32) -> Option<u32> {
        let name = self.get(group).record.spec.extensions.parent.as_ref()?;
        let parent = *self.by_name.get(name)?;
        let is_below = parent == group || self.above(parent).any(|above| above == group);
        (!is_below).then_some(parent)
    }

    /// Links the groups that name a new group as their parent.
    fn adopt_children(&mut self, group: u32) {
        let name = self.get(group).record.name.clone();
        let children = self.children.get(&name).cloned().unwrap_or_default();
        for child in children.into_iter().filter(|&child| child != group) {
            self.get_mut(child).parent = Some(group);
            self.link_open(child);
            self.set_aside(Some(group), child, true);
        }
    }
}

impl State {
    pub(in crate::state) fn set_group(&mut self, entry: &Entry, record: &Arc<GroupRecord>) {
        let until = record.spec.extensions.r#override.as_ref();
        let mut group = Group {
            record: record.clone(),
            entry: entry.sequence,
            parent: None,
            load: Arc::default(),
            override_ended: until.is_some_and(|limits| limits.until <= self.head.time),
            overridden: None,
            bytes: 0,
        };
        group.settle();
        let place = match self.groups.by_name.get(&record.name) {
            Some(&place) => {
                self.change_group_at(place, group);
                place
            }
            None => self.add_group(group),
        };
        self.mark_group(place);
    }

    fn add_group(&mut self, group: Group) -> u32 {
        let deadline = group.override_end();
        let name = group.record.name.clone();
        let place = self.groups.slab.insert(group);
        self.deadlines.set((None, name), deadline);
        self.groups.index(place);
        self.groups.adopt_children(place);
        self.attach(place);
        let below = self.groups.children.get(&self.groups.get(place).record.name);
        let below = below.into_iter().flatten();
        let mut affected: BTreeSet<u32> =
            below.flat_map(|&child| self.groups.members(child).values()).copied().collect();
        affected.extend(self.selected(place));
        self.rejoin_all(affected, None);
        place
    }

    fn change_group_at(&mut self, place: u32, mut group: Group) {
        let before = self.groups.get(place);
        let (old, new) = (before.record.clone(), group.record.clone());
        let (parent, load) = (before.parent, before.load.clone());
        (group.parent, group.load) = (parent, load);
        let deadline = group.override_end();
        self.deadlines.set((None, new.name.clone()), deadline);
        self.groups.set_aside(parent, place, false);
        if counts_the_same(&old.spec, &new.spec) {
            self.groups.unindex(place);
            *self.groups.get_mut(place) = group;
            self.groups.index(place);
            self.groups.set_aside(parent, place, true);
            return;
        }
        self.groups.unindex(place);
        self.groups.unlink_open(place);
        group.parent = None;
        *self.groups.get_mut(place) = group;
        self.groups.index(place);
        self.attach(place);
        let members = self.groups.members(place).values();
        let mut affected: BTreeSet<u32> = members.copied().collect();
        affected.extend(self.selected(place));
        let other = (!chooses_the_same(&old.spec, &new.spec)).then_some(place);
        self.rejoin_all(affected, other);
    }

    fn attach(&mut self, place: u32) {
        let parent = self.groups.find_parent(place);
        self.groups.get_mut(place).parent = parent;
        self.groups.link_open(place);
        self.groups.set_aside(parent, place, true);
    }

    pub(in crate::state) fn delete_group(&mut self, name: &Name) {
        let Some(&place) = self.groups.by_name.get(name) else {
            return;
        };
        self.deadlines.set((None, name.clone()), None);
        let parent = self.groups.get(place).parent;
        self.groups.set_aside(parent, place, false);
        let children = self.groups.children.get(name).cloned().unwrap_or_default();
        for child in children {
            if self.groups.get(child).parent == Some(place) {
                self.groups.unlink_open(child);
                self.groups.get_mut(child).parent = None;
            }
        }
        let members = self.groups.members.remove(&place).unwrap_or_default();
        self.unmark_group(place);
        self.groups.unindex(place);
        self.groups.slab.remove(place);
        self.rejoin_all(members.into_values().collect(), None);
    }

    /// The namespaces that a group's own selector matches.
    fn selected(&self, group: u32) -> Vec<u32> {
        let selector = &self.groups.get(group).record.spec.selector;
        let is_for = |place: &u32| {
            let namespace = self.namespaces.get(*place);
            let record = namespace.record();
            Groups::decides(selector, &namespace.name, record) == Some(true)
        };
        match LabelIndex::names(selector) {
            Some(names) => {
                let places = names.iter().filter_map(|name| self.namespaces.place(name));
                places.filter(is_for).collect()
            }
            None => {
                let places = self.namespaces.slab.iter().map(|(place, _)| place);
                places.filter(is_for).collect()
            }
        }
    }

    fn rejoin_all(&mut self, namespaces: BTreeSet<u32>, other: Option<u32>) {
        let chooses_other = |link: &Link| {
            let choosers = link.partial.as_ref();
            other.is_some_and(|other| choosers.is_some_and(|choosers| choosers.contains(&other)))
        };
        for namespace in namespaces {
            self.rejoin(namespace, &chooses_other);
        }
    }

    /// How many namespaces would have more than `most` groups with this spec, and the name of one.
    pub(crate) fn crowded(&self, name: &Name, spec: &Spec, most: usize) -> Option<(Name, usize)> {
        let own = self.groups.by_name.get(name).copied();
        let mut above = BTreeSet::new();
        let parent = spec.extensions.parent.as_ref();
        if let Some(&parent) = parent.and_then(|parent| self.groups.by_name.get(parent)) {
            above.insert(parent);
            above.extend(self.groups.above(parent));
        }
        // A new group counts the members of groups that name it as their parent already; an existing one has them.
        let below = self.groups.children.get(name).filter(|_| own.is_none());
        let below = below.into_iter().flatten();
        let below: BTreeSet<&Name> =
            below.flat_map(|&child| self.groups.members(child).keys()).collect();
        self.namespaces.slab.iter().find_map(|(_, namespace)| {
            let record = namespace.record();
            let is_member =
                own.is_some_and(|own| self.groups.members(own).contains_key(&namespace.name));
            let joins = || {
                Groups::decides(&spec.selector, &namespace.name, record) == Some(true)
                    || below.contains(&namespace.name)
            };
            if !is_member && !joins() {
                return None;
            }
            let counting: BTreeSet<u32> = namespace.path.iter().map(|link| link.group).collect();
            let more = above.difference(&counting).count() + usize::from(!is_member);
            let all = counting.len() + more;
            (more > 0 && all > most).then(|| (namespace.name.clone(), all))
        })
    }
}

impl State {
    /// Restores everything that images do not hold since it can be derived: extensions of quotas, paths, members,
    /// deadlines.
    pub(in crate::state) fn restore_groups(&mut self) {
        let places: Vec<u32> = self.namespaces.slab.iter().map(|place| place.0).collect();
        for place in places {
            self.restore_quotas(place);
            if self.groups.is_empty() {
                continue;
            }
            let namespace = self.namespaces.get(place);
            let record = namespace.record();
            let path = self.groups.path(&namespace.name, record);
            for link in path.iter() {
                self.groups.join(link.group, &namespace.name, place);
            }
            self.namespaces.get_mut(place).path = path;
        }
        for (_, group) in self.groups.slab.iter() {
            let subject = (None, group.record.name.clone());
            self.deadlines.set(subject, group.override_end());
        }
    }

    fn restore_quotas(&mut self, place: u32) {
        let says_more = |quota: &QuotaState| quota.record.metadata.contains(PREFIX);
        let quotas = &self.namespaces.get(place).quotas;
        if !quotas.values().any(says_more) {
            return;
        }
        for quota in self.namespaces.get_mut(place).quotas.values_mut() {
            quota.extra = Extra::of(&quota.record);
            let record = &quota.record;
            let subject = (Some(record.namespace.clone()), record.name.clone());
            self.deadlines.set(subject, quota.limits_until());
        }
    }

    /// The groups as trees.
    #[must_use]
    pub const fn forest(&self) -> &(impl Forest + use<>) {
        &self.groups
    }
}
