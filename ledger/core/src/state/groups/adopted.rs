//! Groups that a source has reported, and the relists that list them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    event::{GroupRecord, RelistScope, Sequence},
    state::State,
};
use quota_semantics::{Name, group::manifest::RESOURCE, uid::Uid};

/// The places of adopted groups by uid, for lists of uids. A uid has one group, unless a source sends wrong uids.
pub(super) type Uids = BTreeSet<(Uid, u32)>;

/// The mark of a group in relists. Marks of objects are their places and count up from zero; marks of groups count
/// down, so the two never collide.
pub(in crate::state) const fn mark(place: u32) -> u32 {
    u32::MAX - place
}

impl State {
    /// Marks an adopted group that was set as listed in all open relists of groups.
    pub(super) fn mark_group(&mut self, place: u32) {
        match self.groups.get(place).record.adopted_version() {
            Some(_) => self.mark_listed_at(place, None),
            None => self.unmark_group(place),
        }
    }

    pub(super) fn unmark_group(&mut self, place: u32) {
        let (resource, everywhere) = (Name::from(RESOURCE), Name::default());
        self.relists.clear(&resource, &everywhere, mark(place));
    }

    /// Marks a group that a source listed unchanged.
    pub(in crate::state) fn mark_listed_group(&mut self, uid: &Uid, source: &Name) {
        let bearers = (uid.clone(), 0)..=(uid.clone(), u32::MAX);
        let places: Vec<u32> = self.groups.uids.range(bearers).map(|it| it.1).collect();
        for place in places {
            self.mark_listed_at(place, Some(source));
        }
    }

    fn mark_listed_at(&mut self, place: u32, source: Option<&Name>) {
        let (resource, everywhere) = (Name::from(RESOURCE), Name::default());
        self.relists.mark(&resource, &everywhere, mark(place), source);
    }

    /// The groups that a relist has listed.
    #[must_use]
    pub(crate) fn listed_groups(&self, scope: &RelistScope) -> BTreeSet<Name> {
        let relist = self.relists.open.get(scope);
        let relist = relist.filter(|_| scope.covers(RESOURCE, None));
        let all = relist.into_iter().flat_map(|relist| {
            let groups = self.groups.slab.iter();
            groups.filter(|(place, _)| relist.marks.contains(mark(*place)))
        });
        all.map(|(_, group)| group.record.name.clone()).collect()
    }

    /// A group as a source has reported it, and the entry that set it.
    #[must_use]
    pub fn adopted_group(&self, name: &str) -> Option<(&Arc<GroupRecord>, Sequence)> {
        let found = self.group_record(name)?;
        found.0.adopted_version().map(|_| found)
    }
}
