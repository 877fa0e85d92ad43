//! Maintains the sums of groups.

use std::{collections::BTreeMap, sync::Arc};

use super::Groups;
use crate::state::{
    State,
    group_path::Link,
    namespaces::{Claim, Namespace, hold},
    other_limits::{Counting, Others, What},
    sums::{Change, Excess, Parts, Sums},
};
use quota_semantics::{
    Name,
    group::{LoadsMut, Sum, load},
    object::Footprint,
};

/// Applies a change in the sums of a namespace to a group.
pub(in crate::state) fn count_changed<L: LoadsMut>(
    loads: &mut L,
    group: L::Id,
    sum: Sum,
    parts: &Parts<'_>,
    excess: &Excess,
    direction: Change,
) {
    load::count(loads, group, sum, &parts.direct, direction == Change::Add);
    for (sum, more) in [(Sum::Used, &excess.used), (Sum::Reserved, &excess.reserved)] {
        if !more.is_empty() {
            load::count(loads, group, sum, more, true);
        }
    }
}

impl Groups {
    pub(super) fn join(&mut self, group: u32, name: &Name, namespace: u32) {
        let members = self.members.entry(group).or_default();
        members.insert(name.clone(), namespace);
    }

    pub(super) fn leave(&mut self, group: u32, name: &Name) {
        if let Some(members) = self.members.get_mut(&group) {
            members.remove(name);
            if members.is_empty() {
                self.members.remove(&group);
            }
        }
    }

    /// Adds a claim for an object to the sums of all groups, or removes it. `excess`: the change of the sum of its
    /// namespace beyond the direct amounts.
    pub(in crate::state) fn count_claim(
        &mut self,
        namespace: &mut Namespace,
        claim: Claim,
        (target, observed): (&Footprint, Option<&Footprint>),
        excess: &Excess,
        direction: Change,
    ) {
        if namespace.path.is_empty() {
            return;
        }
        for link in namespace.path.clone().iter() {
            let counts = |footprint: &Footprint| self.counts(link, footprint);
            if let Some(amounts) = hold(counts, target, observed) {
                let parts = Parts::of(&target.traits, amounts);
                let shares = &mut namespace.shares;
                self.change(shares, link, claim.into(), &parts, excess, direction);
            }
        }
    }

    /// The same of an object.
    pub(in crate::state) fn count_object(
        &mut self,
        namespace: &mut Namespace,
        footprint: &Footprint,
        excess: &Excess,
        direction: Change,
    ) {
        if namespace.path.is_empty() {
            return;
        }
        for link in namespace.path.clone().iter() {
            if self.counts(link, footprint) {
                let (sum, parts) = (Sum::Used, Parts::all(footprint));
                let shares = &mut namespace.shares;
                self.change(shares, link, sum, &parts, excess, direction);
            }
        }
    }

    /// Applies a change to the sums of one group. `shares` are the sums of a namespace in groups that count only a part
    /// of it; `excess` is the change of the balance of all amounts in the namespace.
    fn change(
        &mut self,
        shares: &mut BTreeMap<u32, Arc<Sums>>,
        link: &Link,
        sum: Sum,
        parts: &Parts<'_>,
        excess: &Excess,
        direction: Change,
    ) {
        let shared;
        let excess = match link.partial {
            None => excess,
            Some(_) => {
                let share = shares.entry(link.group).or_default();
                shared = Arc::make_mut(share).count(sum, parts, direction);
                &shared
            }
        };
        count_changed(self, link.group, sum, parts, excess, direction);
    }
}

impl State {
    /// Adds an object to the sums of its namespace and of all groups, or removes it, by the places of its namespace and
    /// its footprint. Returns the namespace.
    pub(in crate::state) fn count_object(
        &mut self,
        place: u32,
        footprint: u32,
        direction: Change,
    ) -> &mut Namespace {
        let footprint = self.footprints.get(footprint);
        let namespace = self.namespaces.get_mut(place);
        let excess = namespace.count(footprint, direction);
        self.groups.count_object(namespace, footprint, &excess, direction);
        if let Others::Follow(changes) = &mut self.others {
            let what = What::Object(footprint.clone());
            changes.push(Counting { namespace: place, what, excess, direction });
        }
        namespace
    }

    /// Adds all amounts of a namespace that the group counts.
    pub(super) fn count_namespace(&mut self, place: u32, link: &Link) {
        let namespace = self.namespaces.get(place);
        self.groups.join(link.group, &namespace.name, place);
        let sums = match &link.partial {
            None => namespace.sums.clone(),
            Some(_) => {
                let counts = |footprint: &_| self.groups.counts(link, footprint);
                let sums = Arc::new(self.recount(place, counts));
                let shares = &mut self.namespaces.get_mut(place).shares;
                shares.insert(link.group, sums.clone());
                sums
            }
        };
        self.change_by(link, &sums, Change::Add);
    }

    /// Removes all amounts of a namespace from the group.
    pub(super) fn uncount_namespace(&mut self, place: u32, link: &Link) {
        let namespace = self.namespaces.get_mut(place);
        let sums = match &link.partial {
            None => namespace.sums.clone(),
            Some(_) => namespace.shares.remove(&link.group).unwrap_or_default(),
        };
        // A deleted group has no sums.
        if self.groups.slab.get(link.group).is_some() {
            self.groups.leave(link.group, &namespace.name);
            self.change_by(link, &sums, Change::Remove);
        }
    }

    fn change_by(&mut self, link: &Link, sums: &Sums, direction: Change) {
        let adds = direction == Change::Add;
        for (sum, amounts) in [(Sum::Used, &sums.used), (Sum::Reserved, &sums.reserved)] {
            load::count(&mut self.groups, link.group, sum, &amounts.without_zeros(), adds);
        }
    }
}
