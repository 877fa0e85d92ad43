//! Queries about groups.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use crate::{
    event::{GroupRecord, Sequence},
    state::{Figure, State, chain::Link, namespaces::Namespace, query::used, sums::Sums},
};
use quota_semantics::{
    Name, Timestamp,
    group::{Loads as _, tree::Forest},
    quantity::Quantity,
    resource::ResourceList,
};

/// One limited resource of a group.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GroupFigure {
    /// The limit that applies, and the amounts of observed objects and pending reservations.
    #[serde(flatten)]
    pub figure: Figure,
    /// The amount guaranteed to descendants, and not used or reserved by them.
    pub guaranteed_to_others: Quantity,
}

/// A group and its numbers.
#[derive(Clone, Debug)]
pub struct GroupView {
    /// The group as it was set.
    pub record: Arc<GroupRecord>,
    /// The entry that set it: its resourceVersion.
    pub entry: Sequence,
    /// The limits that apply: those of its spec, or of its override.
    pub hard: ResourceList,
    /// When its override ends, if one applies.
    pub override_until: Option<Timestamp>,
    /// Whether the parent that it names exists. Without it the group is a root.
    pub has_parent: bool,
    /// The groups that name it as their parent.
    pub children: Vec<Name>,
    /// One per limit, by name.
    pub figures: Vec<GroupFigure>,
    /// The number of member namespaces, including empty ones.
    pub members: usize,
}

/// A namespace of a group, and its use of the group.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// Its name.
    pub namespace: Name,
    /// One per limit of the group, by name.
    pub figures: Vec<Figure>,
}

/// Namespaces of a group as of one moment: their numbers are computed while the state goes on.
#[derive(Clone, Debug, Default)]
pub struct MembersView {
    hard: ResourceList,
    members: Vec<(Name, Option<Sums>)>,
}

impl MembersView {
    /// The namespaces with their use of the group.
    pub fn views(&self) -> impl Iterator<Item = MemberView> {
        self.members.iter().map(|(namespace, sums)| MemberView {
            namespace: namespace.clone(),
            figures: figures(&self.hard, sums.as_ref()),
        })
    }
}

impl State {
    /// The number of groups.
    #[must_use]
    pub(crate) fn group_count(&self) -> usize {
        self.groups.by_name.len()
    }

    /// A group that selects objects by a label other than these, and the label.
    #[must_use]
    pub(crate) fn group_choosing_otherwise(&self, keys: &BTreeSet<Name>) -> Option<(&Name, &Name)> {
        let mut groups = self.groups.slab.iter();
        groups.find_map(|(_, group)| {
            let record = &group.record;
            let objects = record.spec.extensions.objects.as_ref()?;
            let key = objects.keys().find(|key| !keys.contains(*key))?;
            Some((&record.name, key))
        })
    }

    /// A group as it was set, and the entry that set it.
    #[must_use]
    pub fn group_record(&self, name: &str) -> Option<(&Arc<GroupRecord>, Sequence)> {
        let group = self.groups.find(name)?;
        Some((&group.record, group.entry))
    }

    /// The limits of a quota that apply, and until when, if they are overridden.
    #[must_use]
    pub fn override_of(&self, namespace: &str, quota: &str) -> (ResourceList, Option<Timestamp>) {
        let namespace = self.namespaces.find(namespace);
        let quota = namespace.and_then(|namespace| namespace.quotas.get(quota));
        quota.map_or_else(Default::default, |quota| {
            (quota.hard().clone(), quota.limits_until())
        })
    }

    /// A group's numbers.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupView> {
        let &place = self.groups.by_name.get(name)?;
        Some(self.group_view(place))
    }

    /// The `limit` first groups after a name, by name, and whether there are more.
    #[must_use]
    pub fn groups_page(&self, after: &str, limit: usize) -> (Vec<GroupView>, bool) {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let mut places = self.groups.by_name.range::<str, _>(range);
        let views = places.by_ref().take(limit);
        let views = views.map(|(_, &place)| self.group_view(place)).collect();
        (views, places.next().is_some())
    }

    /// The groups that count objects of a namespace, nearest first.
    pub fn groups_of(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        let chain = self
            .namespaces
            .find(namespace)
            .map(|namespace| &namespace.chain);
        let links = chain.into_iter().flat_map(|chain| chain.iter());
        links.map(|link| &self.groups.get(link.group).record.name)
    }

    /// The `limit` first namespaces of a group after a name, by name, and whether there are more. None if there is no
    /// such group.
    #[must_use]
    pub fn group_members(
        &self,
        group: &str,
        after: &str,
        limit: usize,
    ) -> Option<(Vec<MemberView>, bool)> {
        let &place = self.groups.by_name.get(group)?;
        let members = self.groups.members(place).iter();
        let mut members: Vec<_> = members.map(|&member| self.namespaces.get(member)).collect();
        members.retain(|namespace| *namespace.name > *after);
        let more = members.len() > limit;
        if more {
            members.select_nth_unstable_by(limit, |a, b| a.name.cmp(&b.name));
            members.truncate(limit);
        }
        members.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        let hard = self.groups.get(place).hard();
        let views = members.into_iter().map(|namespace| MemberView {
            namespace: namespace.name.clone(),
            figures: figures(hard, namespace.share_of(place)),
        });
        Some((views.collect(), more))
    }

    /// Some namespaces of a group, in no order, each by its place; those after a place. None if there is no such group.
    /// Namespaces that come or go meanwhile may be missing.
    #[must_use]
    pub fn group_member_names(
        &self,
        group: &str,
        after: Option<u32>,
        most: usize,
    ) -> Option<Vec<(u32, Name)>> {
        let &place = self.groups.by_name.get(group)?;
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        let members = self.groups.members(place).range((from, Bound::Unbounded));
        let name = |&member: &u32| (member, self.namespaces.get(member).name.clone());
        Some(members.take(most).map(name).collect())
    }

    /// The first of these namespaces, without those in which the group counts no objects: as many as have few amounts,
    /// but at least one; and how many of the names they are.
    #[must_use]
    pub fn members_view(
        &self,
        group: &str,
        names: &[Name],
        amounts: usize,
    ) -> (MembersView, usize) {
        let Some(&place) = self.groups.by_name.get(group) else {
            return (MembersView::default(), names.len());
        };
        let (mut members, mut work) = (Vec::new(), 0);
        for (count, name) in names.iter().enumerate() {
            if work > amounts {
                let hard = self.groups.get(place).hard().clone();
                return (MembersView { hard, members }, count);
            }
            let Some(namespace) = self.namespaces.find(name) else {
                continue;
            };
            if namespace.chain.iter().any(|link| link.group == place) {
                let sums = namespace.share_of(place).cloned();
                let copied = |sums: &Sums| sums.used.len() + sums.reserved.len();
                work += 1 + sums.as_ref().map_or(0, copied);
                members.push((namespace.name.clone(), sums));
            }
        }
        let hard = self.groups.get(place).hard().clone();
        (MembersView { hard, members }, names.len())
    }

    /// Another group with the same parent that also guarantees an amount of the same name, and a namespace in which
    /// both count objects: the two guarantees may not be available at the same time.
    #[must_use]
    pub fn contender(&self, group: &str) -> Option<(&Name, &Name)> {
        let &place = self.groups.by_name.get(group)?;
        let parent = self.groups.get(place).parent?;
        let guaranteed = self.groups.guaranteed(place);
        let contends = |link: &&Link| {
            let mut names = self.groups.guaranteed(link.group).names();
            link.group != place
                && self.groups.parent(link.group) == Some(parent)
                && names.any(|name| guaranteed.get(name).is_some())
        };
        let members = self.groups.members(place).iter();
        let mut members = members.filter(|_| !guaranteed.is_empty());
        members.find_map(|&member| {
            let namespace = self.namespaces.get(member);
            let link = namespace.chain.iter().find(contends)?;
            Some((&self.groups.get(link.group).record.name, &namespace.name))
        })
    }

    /// The use by a namespace of a group that counts its objects.
    #[must_use]
    pub fn group_member(&self, group: &str, namespace: &str) -> Option<MemberView> {
        let &place = self.groups.by_name.get(group)?;
        let namespace = self.namespaces.find(namespace)?;
        let is_counted = namespace.chain.iter().any(|link| link.group == place);
        let hard = self.groups.get(place).hard();
        is_counted.then(|| MemberView {
            namespace: namespace.name.clone(),
            figures: figures(hard, namespace.share_of(place)),
        })
    }

    fn group_view(&self, place: u32) -> GroupView {
        let group = self.groups.get(place);
        let sums = Sums {
            used: group.load.used.clone(),
            reserved: group.load.reserved.clone(),
            ..Sums::default()
        };
        let figures = figures(group.hard(), Some(&sums)).into_iter();
        let aside = |resource: &Name| group.load.set_aside.get(resource).cloned();
        GroupView {
            record: group.record.clone(),
            entry: group.entry,
            hard: group.hard().clone(),
            override_until: group.override_end(),
            has_parent: group.parent.is_some(),
            children: self.groups.children(&group.record.name),
            figures: figures
                .map(|figure| GroupFigure {
                    guaranteed_to_others: aside(&figure.resource).unwrap_or_default(),
                    figure,
                })
                .collect(),
            members: self.groups.members(place).len(),
        }
    }
}

fn figures(hard: &ResourceList, sums: Option<&Sums>) -> Vec<Figure> {
    let none = Sums::default();
    let sums = sums.unwrap_or(&none);
    let figure = |(resource, hard): (&Name, &Quantity)| Figure {
        resource: resource.clone(),
        hard: hard.clone(),
        used: used(&sums.used, resource),
        reserved: sums.reserved.get(resource).cloned().unwrap_or_default(),
    };
    hard.iter().map(figure).collect()
}

impl Namespace {
    /// The amounts that it uses and has reserved of a group that counts its objects.
    pub(crate) fn share_of(&self, group: u32) -> Option<&Sums> {
        let link = self.chain.iter().find(|link| link.group == group)?;
        match link {
            Link { partial: None, .. } => Some(&self.sums),
            Link { group, .. } => self.shares.get(group),
        }
    }
}
