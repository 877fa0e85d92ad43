//! The limits of a namespace, and the room that they leave.
//!
//! The limits are those of a decision (`counted.rs`), with the same sums: what is shown as available can be reserved.

use std::{collections::BTreeMap, sync::Arc};

use super::{
    QuotasView, State,
    groups::{GroupFigure, figure, hard},
    sums::Sums,
};
use crate::event::GroupRecord;
use quota_semantics::{
    Name,
    admission::LimitKind,
    group::{
        Enforcement, Load, Loads,
        load::{aside, free},
    },
    object::Footprint,
    quantity::Quantity,
    resource::ResourceList,
};

/// The limits of a namespace as of one moment: its quotas, and the groups that count objects of it. Taking the view
/// copies pointers; the numbers are computed while the state goes on.
#[derive(Clone, Debug, Default)]
pub struct LimitsView {
    /// Its quotas.
    pub quotas: QuotasView,
    path: Vec<CopiedLink>,
    /// Places in the path, nearest first, without default quotas that a quota of the namespace replaces.
    groups: Vec<usize>,
}

/// A group that counts objects of the namespace.
#[derive(Clone, Debug)]
struct CopiedLink {
    record: Arc<GroupRecord>,
    overridden: Option<Arc<ResourceList>>,
    load: Arc<Load>,
    /// The sums of the namespace in the group.
    share: Option<Arc<Sums>>,
    /// The place of its parent in the path.
    parent: Option<usize>,
    is_general: bool,
}

/// A quota of a namespace or a group that counts objects of it, with its numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitView {
    /// The name of the quota or group.
    pub name: Name,
    /// Whether it is a quota or a group.
    pub kind: LimitKind,
    /// Whether its numbers contain those of other namespaces.
    pub is_shared: bool,
    /// Whether it denies what does not fit.
    pub is_enforced: bool,
    /// Whether it counts a reservation of amounts alone. A limit with scopes, or with a selector of objects, counts some
    /// objects only.
    pub is_general: bool,
    /// One per limited resource, by name.
    pub figures: Vec<GroupFigure>,
}

/// The room for a resource in a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room<'a> {
    /// The limit that binds: of several that leave as little, the one that a denial names.
    pub bound_by: &'a LimitView,
    /// Its numbers for the resource.
    pub figure: &'a GroupFigure,
}

/// The room for each resource that a limit of the namespace bounds, by name: the least that any limit leaves. Limits
/// that deny nothing, and limits of some objects only, are left out.
#[must_use]
pub fn room(limits: &[LimitView]) -> BTreeMap<&Name, Room<'_>> {
    let mut room: BTreeMap<&Name, Room<'_>> = BTreeMap::new();
    let binding = limits.iter().filter(|limit| limit.is_enforced && limit.is_general);
    for bound_by in binding {
        for figure in &bound_by.figures {
            let next = Room { bound_by, figure };
            let least = room.entry(&figure.figure.resource).or_insert(next);
            if figure.available() < least.figure.available() {
                *least = next;
            }
        }
    }
    room
}

impl State {
    /// The limits of a namespace: its quotas by name, then the groups that count objects of it, nearest first, in the
    /// order of a decision.
    #[must_use]
    pub fn limits_view(&self, namespace: &Name) -> LimitsView {
        let quotas = self.quotas_view(namespace);
        if self.groups.is_empty() {
            return LimitsView { quotas, ..LimitsView::default() };
        }
        let found = self.namespaces.find(namespace);
        let path = self.path_of(namespace);
        let plain = Footprint::default();
        let links = path.iter().map(|link| {
            let group = self.groups.get(link.group);
            let share = found.and_then(|namespace| namespace.share_of(link.group));
            let is_parent = |other: &super::group_path::Link| group.parent == Some(other.group);
            CopiedLink {
                record: group.record.clone(),
                overridden: group.overridden.clone(),
                load: group.load.clone(),
                share: share.cloned(),
                parent: path.iter().position(is_parent),
                is_general: self.groups.counts(link, &plain),
            }
        });
        let links: Vec<CopiedLink> = links.collect();
        let is_replaced = |link: &CopiedLink| {
            let quotas = found.map(|namespace| &namespace.quotas);
            link.record.spec.extensions.each
                && quotas.is_some_and(|quotas| quotas.contains_key(&link.record.name))
        };
        let places = 0..links.len();
        let mut groups: Vec<usize> = places.filter(|&place| !is_replaced(&links[place])).collect();
        groups.sort_by_key(|&place| (path[place].distance, &links[place].record.name));
        LimitsView { quotas, path: links, groups }
    }
}

impl LimitsView {
    /// The most amounts that the limits show.
    #[must_use]
    pub fn amounts(&self) -> usize {
        let links = self.path.iter().map(|link| 1 + link.hard().len());
        self.quotas.amounts() + links.sum::<usize>()
    }

    /// The number of groups whose limits apply.
    #[must_use]
    pub const fn groups(&self) -> usize {
        self.groups.len()
    }

    /// The limits with their numbers, in the order of a decision. There may be many.
    pub fn views(&self) -> impl Iterator<Item = LimitView> {
        let quotas = self.quotas.iter().map(|quota| {
            let of = |figure| GroupFigure { figure, guaranteed_to_others: Quantity::ZERO };
            LimitView {
                name: quota.record().name.clone(),
                kind: LimitKind::ResourceQuota,
                is_shared: false,
                is_enforced: quota.enforcement() == Enforcement::Enforce,
                is_general: !quota.is_scoped(),
                figures: quota.figures().into_iter().map(of).collect(),
            }
        });
        let groups = self.groups.iter().scan(None, |free, &place| {
            let free: &Vec<ResourceList> = free.get_or_insert_with(|| self.free());
            Some(self.group(&self.path[place], &free[place]))
        });
        quotas.chain(groups)
    }

    fn group(&self, link: &CopiedLink, free: &ResourceList) -> LimitView {
        const NONE: &Sums = &Sums::NONE;
        let extensions = &link.record.spec.extensions;
        let (used, reserved, others) = match extensions.each {
            true => {
                let share = link.share.as_deref().unwrap_or(NONE);
                (&share.used, &share.reserved, ResourceList::new())
            }
            false => {
                let others = aside(&link.load, free);
                (&link.load.used, &link.load.reserved, others)
            }
        };
        let of = |(resource, hard): (&Name, &Quantity)| GroupFigure {
            figure: figure(resource, hard, used, reserved),
            guaranteed_to_others: others.get(resource).cloned().unwrap_or_default(),
        };
        LimitView {
            name: link.record.name.clone(),
            kind: LimitKind::ClusterResourceQuota,
            is_shared: !extensions.each,
            is_enforced: extensions.enforcement == Enforcement::Enforce,
            is_general: link.is_general,
            figures: link.hard().iter().map(of).collect(),
        }
    }

    /// The unused guarantees that are available to an object of the namespace, of each group in the path. General groups
    /// have those for a reservation of amounts alone, which other groups do not count.
    fn free(&self) -> Vec<ResourceList> {
        let all: Vec<usize> = (0..self.path.len()).collect();
        let mut of_all = free(self, &all);
        let is_general = |place: &usize| self.path[*place].is_general;
        let general: Vec<usize> = all.into_iter().filter(is_general).collect();
        if general.len() < self.path.len() {
            for (place, list) in general.iter().zip(free(self, &general)) {
                of_all[*place] = list;
            }
        }
        of_all
    }
}

impl CopiedLink {
    fn hard(&self) -> &ResourceList {
        hard(&self.record, self.overridden.as_ref())
    }
}

impl Loads for LimitsView {
    type Id = usize;

    fn parent(&self, place: usize) -> Option<usize> {
        self.path[place].parent
    }

    fn guaranteed(&self, place: usize) -> &ResourceList {
        &self.path[place].record.spec.extensions.guaranteed
    }

    fn load(&self, place: usize) -> &Load {
        &self.path[place].load
    }
}
