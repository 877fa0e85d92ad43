//! Groups: the member namespaces of each, and its sums.
//!
//! The queries of [`State`](super::State), all in `groups/view.rs`:
//! - `group(name)`: a [`GroupView`] with its record, the limits that apply, its figures and the number of members;
//!   `copied_group(name)`: the same as a [`CopiedGroup`], whose figures are computed later; `groups_page(after, limit)`:
//!   many of them, by name; `group_count()`.
//! - `group_members(name, after, limit)`: the member namespaces by name, each with its use of the group, which is
//!   computed later as well.
//! - `group_record(name)`: the record and the entry that set it; `groups_of(namespace)`: the groups that count a
//!   namespace, nearest first.
//! - `override_of(namespace, quota)`: the limits of a ResourceQuota that apply, and until when if they are
//!   overridden.
//!
//! Membership is never stored: it follows from the selectors and from the recorded namespaces. Every namespace has its
//! path, the groups that count objects in it, children before their parents. Every group has its sums. So the cost of
//! a grant grows with the length of the path alone.

mod adopted;
mod counting;
mod label_index;
mod membership;
mod open;
mod structure;
mod view;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{group_path::Link, slab::Slab};
use crate::{
    codec::record,
    event::{Event, GroupRecord, Sequence},
    size,
};
use label_index::LabelIndex;
use open::Open;
use quota_semantics::{
    Name, Timestamp,
    group::{Load, Loads, LoadsMut, selector::Label},
    object::Footprint,
    quota::scopes,
    resource::ResourceList,
};

pub(super) use adopted::mark;
pub(in crate::state) use counting::count_changed;
pub(super) use view::figure;
pub use view::{CopiedGroup, GroupFigure, GroupView, MemberView, MembersView};

/// Small, as the chunks of namespaces.
pub(crate) const CHUNK: usize = 16;

/// A group and its sums.
#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) record: Arc<GroupRecord>,
    /// The entry that set it.
    pub(crate) entry: Sequence,
    /// The place of its parent, if the parent exists.
    pub(crate) parent: Option<u32>,
    /// Shared with views.
    pub(crate) load: Arc<Load>,
    /// Whether its override has ended.
    pub(crate) override_ended: bool,
    /// The limits that apply, if they differ from those of the spec.
    pub(crate) overridden: Option<Arc<ResourceList>>,
    /// About as many bytes as its metadata and spec take.
    bytes: usize,
}

record!(Group {
    record,
    entry,
    parent,
    load,
    override_ended
} without { overridden, bytes });

impl Group {
    /// The limits that apply.
    pub(crate) fn hard(&self) -> &ResourceList {
        hard(&self.record, self.overridden.as_ref())
    }

    /// Computes what follows from its record.
    fn settle(&mut self) {
        self.bytes = size::of_event(&Event::GroupSet(self.record.clone()));
        self.settle_override();
    }

    /// Computes again which limits apply.
    pub(super) fn settle_override(&mut self) {
        let spec = &self.record.spec;
        let limits = spec.extensions.r#override.as_ref();
        let limits = limits.filter(|_| !self.override_ended);
        self.overridden = limits.map(|limits| Arc::new(limits.over(&spec.quota.hard)));
    }

    /// When its override ends, if one applies.
    pub(crate) fn override_end(&self) -> Option<Timestamp> {
        let limits = self.record.spec.extensions.r#override.as_ref();
        limits.filter(|_| !self.override_ended).map(|limits| limits.until)
    }

    fn selects(&self, footprint: &Footprint) -> bool {
        selects(&self.record, footprint)
    }
}

/// The limits of a group that apply.
pub(super) fn hard<'g>(
    record: &'g GroupRecord,
    overridden: Option<&'g Arc<ResourceList>>,
) -> &'g ResourceList {
    overridden.map_or(&record.spec.quota.hard, |limits| limits)
}

/// Whether a group by itself counts an object with this footprint, by its scopes and its object selector. An invalid
/// selector counts nothing.
fn selects(record: &GroupRecord, footprint: &Footprint) -> bool {
    let spec = &record.spec;
    let objects = spec.extensions.objects.as_ref();
    scopes::matches(&spec.quota, &footprint.traits).unwrap_or(false)
        && objects.is_none_or(|objects| {
            objects.matches(|key| Label::from(footprint.labels.get(key))) == Some(true)
        })
}

/// The objects of a namespace that a group counts, independent of later changes of groups: all, or those that any of
/// these groups select.
#[derive(Clone, Debug)]
pub(crate) struct Choosers(Option<Vec<Arc<GroupRecord>>>);

impl Choosers {
    pub(crate) fn choose(&self, footprint: &Footprint) -> bool {
        let choosers = self.0.as_ref();
        choosers.is_none_or(|choosers| choosers.iter().any(|record| selects(record, footprint)))
    }
}

/// All groups, by place, name and parent.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    pub(crate) slab: Slab<Group, CHUNK>,
    pub(crate) by_name: BTreeMap<Name, u32>,
    /// By the name of the parent, whether the parent exists or not.
    children: BTreeMap<Name, BTreeSet<u32>>,
    by_label: LabelIndex,
    open: Open,
    uids: adopted::Uids,
    /// The namespaces in which each group counts objects, by name, so that the first of very many are found at once.
    members: BTreeMap<u32, BTreeMap<Name, u32>>,
}

impl Loads for Groups {
    type Id = u32;

    fn parent(&self, group: u32) -> Option<u32> {
        self.get(group).parent
    }

    fn guaranteed(&self, group: u32) -> &ResourceList {
        &self.get(group).record.spec.extensions.guaranteed
    }

    fn load(&self, group: u32) -> &Load {
        &self.get(group).load
    }
}

impl LoadsMut for Groups {
    fn load_mut(&mut self, group: u32) -> &mut Load {
        Arc::make_mut(&mut self.get_mut(group).load)
    }
}

/// Removes a group from a set, and the set if it is empty then.
fn remove<K: Ord>(sets: &mut BTreeMap<K, BTreeSet<u32>>, key: &K, group: u32) {
    if let Some(set) = sets.get_mut(key) {
        set.remove(&group);
        if set.is_empty() {
            sets.remove(key);
        }
    }
}

impl Groups {
    pub(crate) fn from_slab(slab: Slab<Group, CHUNK>) -> Self {
        let mut groups = Self { slab, ..Self::default() };
        let places: Vec<u32> = groups.slab.iter().map(|(place, _)| place).collect();
        for &place in &places {
            groups.get_mut(place).settle();
        }
        for place in places {
            groups.index(place);
        }
        groups
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn get(&self, place: u32) -> &Group {
        self.slab.get(place).expect("a group that is listed exists")
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Group {
        self.slab.get_mut(place).expect("a group that is listed exists")
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name).map(|&place| self.get(place))
    }

    /// Whether a group in the path of a namespace counts an object with this footprint.
    pub(crate) fn counts(&self, link: &Link, footprint: &Footprint) -> bool {
        let selects = |&group: &u32| self.get(group).selects(footprint);
        link.partial.as_ref().is_none_or(|choosers| choosers.iter().any(selects))
    }

    /// The choice of objects of a link, for later use without the state.
    pub(crate) fn choosers(&self, link: &Link) -> Choosers {
        let record = |&group: &u32| self.get(group).record.clone();
        let partial = link.partial.as_ref();
        Choosers(partial.map(|choosers| choosers.iter().map(record).collect()))
    }

    /// The namespaces in which a group counts objects, by name.
    pub(crate) fn members(&self, group: u32) -> &BTreeMap<Name, u32> {
        const NONE: &BTreeMap<Name, u32> = &BTreeMap::new();
        self.members.get(&group).unwrap_or(NONE)
    }

    /// The ancestors of a group, nearest first.
    pub(crate) fn above(&self, group: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(self.get(group).parent, |&above| self.get(above).parent)
    }

    fn index(&mut self, place: u32) {
        let record = self.get(place).record.clone();
        self.by_name.insert(record.name.clone(), place);
        if let Some(parent) = &record.spec.extensions.parent {
            let children = self.children.entry(parent.clone()).or_default();
            children.insert(place);
        }
        self.by_label.insert(place, &record.spec.selector);
        self.index_open(place);
        if record.adopted_version().is_some() {
            self.uids.insert((record.uid.clone(), place));
        }
    }

    fn unindex(&mut self, place: u32) {
        let record = self.get(place).record.clone();
        self.by_name.remove(&record.name);
        if let Some(parent) = &record.spec.extensions.parent {
            remove(&mut self.children, parent, place);
        }
        self.by_label.remove(place, &record.spec.selector);
        self.unindex_open(place);
        self.uids.remove(&(record.uid.clone(), place));
    }
}

#[cfg(test)]
mod tests;
