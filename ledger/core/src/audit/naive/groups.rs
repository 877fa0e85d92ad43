//! The naive fold of groups: for each group, all objects are searched for those that it counts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::count::{Count, Counts};
use crate::{
    event::{Entry, Event, GroupRecord, NamespaceRecord, QuotaRecord},
    state::State,
};
use quota_semantics::{
    Name, Timestamp,
    group::{Extensions, Override, extension::Carrier, selector::Label},
    object::Footprint,
    quantity::Quantity,
    quota::scopes,
    resource::ResourceList,
};

/// A quota by its namespace and name, or a group by its name without a namespace.
type Limited = (Option<Name>, Name);

/// All groups, and the overrides that have ended, of quotas and of groups.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups {
    groups: BTreeMap<Name, Arc<GroupRecord>>,
    ended: BTreeSet<Limited>,
}

/// The amounts that count in a group for a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Load {
    used: Quantity,
    reserved: Quantity,
    set_aside: Quantity,
}

/// What a comparison needs of all groups more than once.
#[derive(Default)]
struct World<'a> {
    children: BTreeMap<&'a Name, Vec<&'a Name>>,
    /// The namespaces that each group selects by its own selector.
    selected: BTreeMap<&'a Name, BTreeSet<&'a Name>>,
    /// The footprints that each group counts, by namespace.
    counts: BTreeMap<&'a Name, Counts<'a>>,
}

impl World<'_> {
    fn children(&self, group: &Name) -> impl Iterator<Item = &Name> {
        self.children.get(group).into_iter().flatten().copied()
    }

    fn selects(&self, group: &Name, namespace: &Name) -> bool {
        let selected = self.selected.get(group);
        selected.is_some_and(|selected| selected.contains(namespace))
    }

    /// Whether a namespace is a member of a group, by the group's own selector or by that of a descendant.
    fn is_for(&self, group: &Name, namespace: &Name) -> bool {
        let mut children = self.children(group);
        self.selects(group, namespace) || children.any(|child| self.is_for(child, namespace))
    }
}

impl Groups {
    pub(super) fn beginning_with(state: &State) -> Self {
        let mut groups = Self::default();
        for view in state.groups() {
            let name = view.record.name.clone();
            let limits = view.record.spec.extensions.r#override.is_some();
            if limits && view.override_until.is_none() {
                groups.ended.insert((None, name.clone()));
            }
            groups.groups.insert(name, view.record);
        }
        for namespace in state.namespaces("") {
            for record in state.quota_records(namespace) {
                let (_, until) = state.override_of(namespace, &record.name);
                if overridden(record).is_some() && until.is_none() {
                    let subject = (Some(namespace.clone()), record.name.clone());
                    groups.ended.insert(subject);
                }
            }
        }
        groups
    }

    pub(super) fn apply(&mut self, entry: &Entry, now: Timestamp) {
        match &entry.event {
            Event::GroupSet(record) => {
                let limits = record.spec.extensions.r#override.as_ref();
                self.begin((None, record.name.clone()), limits, now);
                self.groups.insert(record.name.clone(), record.clone());
            }
            Event::GroupDeleted { name } => {
                self.groups.remove(name);
            }
            Event::QuotaSet(record) => {
                let subject = (Some(record.namespace.clone()), record.name.clone());
                self.begin(subject, overridden(record).as_ref(), now);
            }
            Event::OverrideEnded { namespace, quota } => {
                self.ended.insert((namespace.clone(), quota.clone()));
            }
            _ => {}
        }
    }

    pub(super) const fn records(&self) -> &BTreeMap<Name, Arc<GroupRecord>> {
        &self.groups
    }

    fn begin(&mut self, subject: Limited, limits: Option<&Override>, now: Timestamp) {
        match limits.is_some_and(|limits| limits.until <= now) {
            true => self.ended.insert(subject),
            false => self.ended.remove(&subject),
        };
    }

    /// The limits of a quota that apply.
    pub(super) fn limits(&self, record: &QuotaRecord) -> ResourceList {
        let subject = (Some(record.namespace.clone()), record.name.clone());
        let limits = overridden(record);
        self.in_force(&subject, limits.as_ref(), &record.spec.hard)
    }

    fn in_force(
        &self,
        subject: &Limited,
        limits: Option<&Override>,
        hard: &ResourceList,
    ) -> ResourceList {
        let limits = limits.filter(|_| !self.ended.contains(subject));
        limits.map_or_else(|| hard.clone(), |limits| limits.over(hard))
    }

    /// What a comparison needs of all groups, given the recorded namespaces, all namespaces, and the footprints in each.
    fn world<'a>(
        &'a self,
        namespaces: &BTreeMap<Name, Arc<NamespaceRecord>>,
        there: &BTreeSet<&'a Name>,
        counts: &Counts<'a>,
    ) -> World<'a> {
        let mut world = World::default();
        for (name, record) in &self.groups {
            let selector = &record.spec.selector;
            let selects = |namespace: &&Name| {
                let observed = namespaces.get(*namespace);
                let observed = observed.map(|observed| (&observed.labels, &observed.annotations));
                !selector.is_empty() && selector.matches(namespace, observed) == Some(true)
            };
            let selected = there.iter().copied().filter(selects).collect();
            world.selected.insert(name, selected);
            if let Some(parent) = record.spec.extensions.parent.as_ref()
                && parent != name
            {
                world.children.entry(parent).or_default().push(name);
            }
        }
        for name in self.groups.keys() {
            let of_members = counts.iter().filter(|(member, _)| world.is_for(name, member));
            let counted = of_members.map(|(member, count)| {
                let counts = |footprint: &Footprint| self.counts(&world, name, member, footprint);
                (*member, count.of(counts))
            });
            let counted = counted.collect();
            world.counts.insert(name, counted);
        }
        world
    }

    /// Whether a group counts an object of a namespace, by its own selectors or by those of a descendant.
    fn counts(
        &self,
        world: &World<'_>,
        group: &Name,
        namespace: &Name,
        footprint: &Footprint,
    ) -> bool {
        let spec = &self.groups[group].spec;
        let objects = spec.extensions.objects.as_ref();
        let own = world.selects(group, namespace)
            && scopes::matches(&spec.quota, &footprint.traits).unwrap_or(false)
            && objects.is_none_or(|objects| {
                objects.matches(|key| Label::from(footprint.labels.get(key))) == Some(true)
            });
        let mut children = world.children(group);
        own || children.any(|child| self.counts(world, child, namespace, footprint))
    }

    fn load(&self, group: &Name, resource: &str, world: &World<'_>) -> Load {
        let mut load =
            Load { used: Quantity::ZERO, reserved: Quantity::ZERO, set_aside: Quantity::ZERO };
        for count in world.counts[group].values() {
            load.used.add_assign(&count.used(resource));
            load.reserved.add_assign(&count.reserved(resource));
        }
        for child in world.children(group) {
            let below = self.load(child, resource, world);
            let mut held = below.used.clone();
            held.add_assign(&below.reserved);
            let mut claimed = held.clone();
            claimed.add_assign(&below.set_aside);
            let guaranteed = &self.groups[child].spec.extensions.guaranteed;
            if let Some(guaranteed) = guaranteed.get(resource)
                && *guaranteed > claimed
            {
                claimed = guaranteed.clone();
            }
            claimed.sub_assign(&held);
            load.set_aside.add_assign(&claimed);
        }
        load
    }

    /// Lists the groups in which a state differs from the naive fold.
    pub(super) fn differences(
        &self,
        state: &State,
        namespaces: &BTreeMap<Name, Arc<NamespaceRecord>>,
        counts: &Counts<'_>,
    ) -> Vec<String> {
        let mut found = Vec::new();
        let kept = state.group_count();
        if kept != self.groups.len() {
            found.push(format!("{kept} groups, not {}", self.groups.len()));
        }
        let there: BTreeSet<&Name> = namespaces.keys().chain(counts.keys().copied()).collect();
        let world = self.world(namespaces, &there, counts);
        for (name, record) in &self.groups {
            let Some(view) = state.group(name).filter(|view| view.record == *record) else {
                found.push(format!("group {name}"));
                continue;
            };
            let limits = record.spec.extensions.r#override.as_ref();
            let hard = self.in_force(&(None, name.clone()), limits, &record.spec.quota.hard);
            if view.hard != hard {
                found.push(format!("the limits of group {name}"));
            }
            let members = there.iter().filter(|member| world.is_for(name, member));
            let members = members.count();
            // A namespace that has only quotas is a member, too.
            if view.members < members {
                found.push(format!("group {name} has {} members, not {members}", view.members));
            }
            for figure in view.figures {
                let resource = &figure.figure.resource;
                let kept = Load {
                    used: figure.figure.used.unwrap_or_default(),
                    reserved: figure.figure.reserved,
                    set_aside: figure.guaranteed_to_others,
                };
                let load = self.load(name, resource, &world);
                if kept != load {
                    found.push(format!(
                        "{resource} of group {name} is {kept:?}, but counts {load:?}"
                    ));
                }
            }
            found.extend(members_differ(state, record, &world));
        }
        found
    }
}

/// Lists the members of a group whose use differs from the naive fold.
fn members_differ(state: &State, record: &GroupRecord, world: &World<'_>) -> Vec<String> {
    let members = state.group_members(&record.name, "", usize::MAX);
    let members = members.iter().flat_map(|(members, _)| members.views());
    let nothing = Count::default();
    let mut found = Vec::new();
    for member in members {
        let namespace = &member.namespace;
        let count = world.counts[&record.name].get(namespace).unwrap_or(&nothing);
        for figure in member.figures {
            let used = count.used(&figure.resource);
            let reserved = count.reserved(&figure.resource);
            if figure.used.unwrap_or_default() != used || figure.reserved != reserved {
                found.push(format!("the use of group {} by {namespace}", record.name));
            }
        }
    }
    found
}

fn overridden(record: &QuotaRecord) -> Option<Override> {
    Extensions::from_metadata(&record.metadata, Carrier::Quota).r#override
}
