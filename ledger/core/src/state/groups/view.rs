//! Queries about groups.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::{Group, hard};
use crate::{
    event::{GroupRecord, Sequence},
    state::{Figure, State, group_path::Link, namespaces::Namespace, query::used, sums::Sums},
};
use quota_semantics::{
    Name, Timestamp,
    group::{Load, Loads as _, tree::Forest},
    quantity::Quantity,
    resource::ResourceList,
};

/// The most limits and children on one page of groups.
const PAGE_WORK: usize = 10_000;

/// The most bytes of metadata and specs on one page of groups.
const PAGE_BYTES: usize = 1 << 20;

/// The most namespaces of a group that are looked at for others with the same guarantee.
const CONTENDED_MAX: usize = 1000;

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

impl GroupFigure {
    /// The remaining amount: negative if usage is over the limit.
    #[must_use]
    pub fn available(&self) -> Quantity {
        let mut available = self.figure.hard.clone();
        available.sub_assign(&self.taken());
        available
    }

    /// The amount that counts against the limit.
    #[must_use]
    pub fn taken(&self) -> Quantity {
        let mut taken = self.guaranteed_to_others.clone();
        taken.add_assign(&self.figure.reserved);
        if let Some(used) = &self.figure.used {
            taken.add_assign(used);
        }
        taken
    }
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
    /// About as many bytes as its metadata and spec take.
    pub bytes: usize,
}

/// A namespace of a group, and its use of the group.
#[derive(Clone, Debug)]
pub struct MemberView {
    /// Its name.
    pub namespace: Name,
    /// One per limit of the group, by name.
    pub figures: Vec<Figure>,
}

/// A group as of one moment. Taking it copies pointers; its numbers are computed while the state goes on.
#[derive(Clone, Debug)]
pub struct CopiedGroup {
    /// The group as it was set.
    pub record: Arc<GroupRecord>,
    entry: Sequence,
    overridden: Option<Arc<ResourceList>>,
    override_until: Option<Timestamp>,
    has_parent: bool,
    /// The groups that name it as their parent.
    pub children: Vec<Name>,
    load: Arc<Load>,
    /// The number of member namespaces, including empty ones.
    pub members: usize,
    /// About as many bytes as its metadata and spec take.
    pub bytes: usize,
}

impl CopiedGroup {
    fn hard(&self) -> &ResourceList {
        hard(&self.record, self.overridden.as_ref())
    }

    /// The number of its limits.
    #[must_use]
    pub fn limits(&self) -> usize {
        self.hard().len()
    }

    /// The group with its numbers.
    #[must_use]
    pub fn view(self) -> GroupView {
        let Load { used, reserved, set_aside } = &*self.load;
        let of = |(resource, hard): (&Name, &Quantity)| GroupFigure {
            figure: figure(resource, hard, used, reserved),
            guaranteed_to_others: set_aside.get(resource).cloned().unwrap_or_default(),
        };
        let hard = self.hard().clone();
        GroupView {
            figures: hard.iter().map(of).collect(),
            hard,
            record: self.record,
            entry: self.entry,
            override_until: self.override_until,
            has_parent: self.has_parent,
            children: self.children,
            members: self.members,
            bytes: self.bytes,
        }
    }
}

/// Namespaces of a group as of one moment. Taking the view copies pointers; the numbers are computed while the state
/// goes on.
#[derive(Clone, Debug)]
pub struct MembersView {
    record: Arc<GroupRecord>,
    overridden: Option<Arc<ResourceList>>,
    members: Vec<(Name, Option<Arc<Sums>>)>,
}

impl MembersView {
    /// The number of namespaces.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The namespaces with their use of the group.
    pub fn views(&self) -> impl Iterator<Item = MemberView> {
        let hard = hard(&self.record, self.overridden.as_ref());
        self.members.iter().map(|(namespace, sums)| MemberView {
            namespace: namespace.clone(),
            figures: figures(hard, sums.as_deref()),
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
        quota.map_or_else(Default::default, |quota| (quota.hard().clone(), quota.limits_until()))
    }

    /// A group's numbers.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<GroupView> {
        self.copied_group(name).map(CopiedGroup::view)
    }

    /// A group, to compute its numbers later.
    #[must_use]
    pub fn copied_group(&self, name: &str) -> Option<CopiedGroup> {
        let &place = self.groups.by_name.get(name)?;
        Some(self.copied_group_at(place))
    }

    /// All groups with their numbers, by name: for audits and tests, since this may take long.
    pub fn groups(&self) -> impl Iterator<Item = GroupView> {
        let places = self.groups.by_name.values();
        places.map(|&place| self.copied_group_at(place).view())
    }

    /// The first groups after a name, by name: at most `limit`, and no more than take little work and memory, but at
    /// least one. Also whether there are more.
    #[must_use]
    pub fn groups_page(&self, after: &str, limit: usize) -> (Vec<CopiedGroup>, bool) {
        let range = (Bound::Excluded(after), Bound::Unbounded);
        let (mut page, mut work, mut bytes) = (Vec::new(), 0, 0);
        for (_, &place) in self.groups.by_name.range::<str, _>(range) {
            let group = self.copied_group_at(place);
            work += group.limits() + group.children.len();
            bytes += group.bytes;
            let is_much = work > PAGE_WORK || bytes > PAGE_BYTES;
            if page.len() == limit || (is_much && !page.is_empty()) {
                return (page, true);
            }
            page.push(group);
        }
        (page, false)
    }

    /// The groups that count objects of a namespace, or would if it had any, nearest first.
    #[must_use]
    pub fn groups_of(&self, namespace: &Name) -> Vec<Name> {
        let path = self.path_of(namespace);
        let names = path.iter().map(|link| self.groups.get(link.group).record.name.clone());
        names.collect()
    }

    /// The `limit` first namespaces of a group after a name, by name, and whether there are more. None if there is no
    /// such group.
    #[must_use]
    pub fn group_members(
        &self,
        group: &str,
        after: &str,
        limit: usize,
    ) -> Option<(MembersView, bool)> {
        let &place = self.groups.by_name.get(group)?;
        let mut members = self.members_after(place, after);
        let some = members.by_ref().take(limit);
        let some = some.map(|(_, &member)| self.namespaces.get(member));
        let view = self.view_of_members(place, some);
        Some((view, members.next().is_some()))
    }

    /// The names of the `most` first namespaces of a group after a name. None if there is no such group.
    #[must_use]
    pub fn group_member_names(&self, group: &str, after: &str, most: usize) -> Option<Vec<Name>> {
        let &place = self.groups.by_name.get(group)?;
        let names = self.members_after(place, after).take(most);
        Some(names.map(|(name, _)| name.clone()).collect())
    }

    /// The names of the `most` first namespaces of a group that are wanted, by name. None if there is no such group.
    #[must_use]
    pub fn wanted_members(
        &self,
        group: &str,
        wanted: impl Fn(&Name) -> bool,
        most: usize,
    ) -> Option<Vec<Name>> {
        let &place = self.groups.by_name.get(group)?;
        let names = self.groups.members(place).keys();
        Some(names.filter(|name| wanted(name)).take(most).cloned().collect())
    }

    /// Those of these namespaces in which a group counts objects. None if there is no such group.
    #[must_use]
    pub fn members_view(&self, group: &str, names: &[Name]) -> Option<MembersView> {
        let &place = self.groups.by_name.get(group)?;
        let members = self.groups.members(place);
        let places = names.iter().filter_map(|name| members.get(name));
        let namespaces = places.map(|&member| self.namespaces.get(member));
        Some(self.view_of_members(place, namespaces))
    }

    fn members_after(&self, group: u32, name: &str) -> impl Iterator<Item = (&Name, &u32)> {
        let range = (Bound::Excluded(name), Bound::Unbounded);
        self.groups.members(group).range::<str, _>(range)
    }

    fn view_of_members<'s>(
        &self,
        group: u32,
        namespaces: impl Iterator<Item = &'s Namespace>,
    ) -> MembersView {
        let Group { record, overridden, .. } = self.groups.get(group);
        let copied = namespaces.map(|namespace| {
            let sums = namespace.share_of(group).cloned();
            (namespace.name.clone(), sums)
        });
        MembersView {
            record: record.clone(),
            overridden: overridden.clone(),
            members: copied.collect(),
        }
    }

    /// Another group with the same parent that also guarantees an amount of the same name, and a namespace in which
    /// both count objects: the two guarantees may not be available at the same time. Only the first namespaces of the
    /// group are looked at, by name.
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
        let members = self.groups.members(place).values().take(CONTENDED_MAX);
        let mut members = members.filter(|_| !guaranteed.is_empty());
        members.find_map(|&member| {
            let namespace = self.namespaces.get(member);
            let link = namespace.path.iter().find(contends)?;
            Some((&self.groups.get(link.group).record.name, &namespace.name))
        })
    }

    /// The use by a namespace of a group that counts its objects.
    #[must_use]
    pub fn group_member(&self, group: &str, namespace: &str) -> Option<MemberView> {
        let &place = self.groups.by_name.get(group)?;
        let namespace = self.namespaces.find(namespace)?;
        let is_counted = namespace.path.iter().any(|link| link.group == place);
        let hard = self.groups.get(place).hard();
        is_counted.then(|| MemberView {
            namespace: namespace.name.clone(),
            figures: figures(hard, namespace.share_of(place).map(|sums| &**sums)),
        })
    }

    fn copied_group_at(&self, place: u32) -> CopiedGroup {
        let group = self.groups.get(place);
        CopiedGroup {
            record: group.record.clone(),
            entry: group.entry,
            overridden: group.overridden.clone(),
            override_until: group.override_end(),
            has_parent: group.parent.is_some(),
            children: self.groups.children(&group.record.name),
            load: group.load.clone(),
            members: self.groups.members(place).len(),
            bytes: group.bytes,
        }
    }
}

fn figures(hard: &ResourceList, sums: Option<&Sums>) -> Vec<Figure> {
    let sums = sums.unwrap_or(const { &Sums::NONE });
    let of = |(resource, hard)| figure(resource, hard, &sums.used, &sums.reserved);
    hard.iter().map(of).collect()
}

pub(in crate::state) fn figure(
    resource: &Name,
    hard: &Quantity,
    sum_of_used: &ResourceList,
    reserved: &ResourceList,
) -> Figure {
    #[cfg(test)]
    crate::state::slab::work::look_up();
    Figure {
        resource: resource.clone(),
        hard: hard.clone(),
        used: used(sum_of_used, resource),
        reserved: reserved.get(resource).cloned().unwrap_or_default(),
    }
}

impl Namespace {
    /// The amounts that it uses and has reserved of a group that counts its objects.
    pub(crate) fn share_of(&self, group: u32) -> Option<&Arc<Sums>> {
        let link = self.path.iter().find(|link| link.group == group)?;
        match link {
            Link { partial: None, .. } => Some(&self.sums),
            Link { group, .. } => self.shares.get(group),
        }
    }
}
