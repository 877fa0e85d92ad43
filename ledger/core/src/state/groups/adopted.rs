//! Groups that a source has reported, and the relists that list them.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::{
    event::{GroupRecord, RelistScope, Sequence},
    state::{State, relists::Relist},
};
use quota_semantics::{Name, group::manifest::RESOURCE, uid::Uid};

/// The places of adopted groups by uid, for lists of uids. A uid has one group, unless a source sends wrong uids.
pub(super) type Uids = BTreeSet<(Uid, u32)>;

/// The mark of a group in relists. Marks of objects are their places and count up from zero; marks of groups count
/// down, so the two never collide.
const fn mark(place: u32) -> u32 {
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
        self.relists
            .mark(&resource, &everywhere, mark(place), source);
    }

    /// The open relists of groups of this source that have not reported this group yet.
    fn relists_without_group<'s>(
        &'s self,
        source: &'s Name,
        name: &str,
    ) -> impl Iterator<Item = &'s RelistScope> {
        let place = self.groups.by_name.get(name).copied();
        let open = self.relists.open.iter();
        let is_waiting = move |(scope, relist): &(&RelistScope, &Relist)| {
            let is_shown = place.is_some_and(|place| relist.marks.contains(mark(place)));
            scope.source == *source
                && speaks_of_groups(scope)
                && relist.closed.is_none()
                && !is_shown
        };
        open.filter(is_waiting).map(|(scope, _)| scope)
    }

    /// Whether an open relist of this source has not reported this group yet.
    #[must_use]
    pub(crate) fn awaits_group(&self, source: &Name, name: &str) -> bool {
        let mut waiting = self.relists_without_group(source, name);
        self.groups.by_name.contains_key(name) && waiting.next().is_some()
    }

    /// Whether an open relist of this source replaces the record of this group, and has not reported it yet.
    #[must_use]
    pub(crate) fn is_group_to_be_replaced(&self, source: &Name, name: &str) -> bool {
        let mut waiting = self.relists_without_group(source, name);
        waiting.any(|scope| self.relists.resets.contains(scope))
    }

    /// The groups that a relist has listed.
    #[must_use]
    pub(crate) fn listed_groups(&self, scope: &RelistScope) -> BTreeSet<Name> {
        let relist = self.relists.open.get(scope);
        let relist = relist.filter(|_| speaks_of_groups(scope));
        let all = relist.into_iter().flat_map(|relist| {
            let groups = self.groups.slab.iter();
            groups.filter(|(place, _)| relist.marks.contains(mark(*place)))
        });
        all.map(|(_, group)| group.record.name.clone()).collect()
    }

    /// The number of group places that have to be examined for groups to end.
    pub(in crate::state) fn group_places(&self, scope: &RelistScope) -> u32 {
        match speaks_of_groups(scope) {
            true => self.groups.slab.places(),
            false => 0,
        }
    }

    /// The group at a place, if a closed relist has not listed it and it is therefore gone.
    pub(in crate::state) fn unlisted_group(
        &self,
        scope: &RelistScope,
        place: u32,
    ) -> Option<&Arc<GroupRecord>> {
        let record = &self.groups.slab.get(place)?.record;
        let shown = record.adopted_version()?;
        let relist = self.relists.open.get(scope)?;
        let version = relist.closed?;
        let is_reset = self.relists.resets.contains(scope);
        let is_newer = version > 0 && shown > version && !is_reset;
        let is_listed = relist.marks.contains(mark(place));
        (speaks_of_groups(scope) && !is_listed && !is_newer).then_some(record)
    }

    /// A group that a closed relist has not listed, and that is therefore gone.
    pub(crate) fn find_unlisted_group(
        &self,
        scope: &RelistScope,
        (name, uid): &(Name, Uid),
    ) -> Option<&Arc<GroupRecord>> {
        let place = *self.groups.by_name.get(name)?;
        let record = self.unlisted_group(scope, place)?;
        (record.uid == *uid).then_some(record)
    }

    /// A group as a source has reported it, and the entry that set it.
    #[must_use]
    pub fn adopted_group(&self, name: &str) -> Option<(&Arc<GroupRecord>, Sequence)> {
        let found = self.group_record(name)?;
        found.0.adopted_version().map(|_| found)
    }
}

/// Whether a relist may list groups. Groups have no namespace, so a relist of one namespace does not list them.
fn speaks_of_groups(scope: &RelistScope) -> bool {
    scope.resource == *RESOURCE && scope.namespace.is_none()
}
