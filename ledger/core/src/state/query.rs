//! Queries about the state.

mod objects;
mod reservations;

use std::{collections::BTreeMap, sync::Arc};

use super::{Head, State, sums::Sums, view::Totals};
use crate::event::{Cursor, QuotaRecord, Sequence};
use quota_semantics::{
    Name, Timestamp, object, quantity::Quantity, resource::ResourceList, uid::Uid,
};

impl State {
    /// The last entry in the state.
    #[must_use]
    pub const fn head(&self) -> Head {
        self.head
    }

    /// Names of the namespaces that are not empty, in order, after `after`.
    pub fn namespaces(&self, after: &str) -> impl Iterator<Item = &Name> {
        use std::ops::Bound;
        let range = (Bound::Excluded(after), Bound::Unbounded);
        self.namespaces
            .by_name
            .range::<str, _>(range)
            .filter(|(_, place)| self.namespaces.get(**place).holds_anything())
            .map(|(name, _)| name)
    }

    /// Whether there is a namespace of this name, be it empty.
    #[must_use]
    pub fn has_namespace(&self, name: &str) -> bool {
        self.namespaces.place(name).is_some()
    }

    /// The number of live objects.
    #[must_use]
    pub const fn object_count(&self) -> u32 {
        self.objects.slab.len()
    }

    /// The number of objects whose uid another object in another namespace has as well. This harms neither.
    #[must_use]
    pub const fn uid_collisions(&self) -> usize {
        self.objects.collisions
    }

    /// The number of reservations that are committed and not observed.
    #[must_use]
    pub fn committed_count(&self) -> usize {
        self.reservations.committed.len()
    }

    /// The number of pending reservations.
    #[must_use]
    pub fn pending_count(&self) -> usize {
        self.reservations.expirations.len()
    }

    /// The number of pending reservations whose expiration has passed: they are held while the sources are behind.
    #[must_use]
    pub fn held_count(&self, now: Timestamp) -> usize {
        self.reservations.expiring(None, now).count()
    }

    /// The number of pending reservations of a namespace.
    #[must_use]
    pub fn pending_count_in(&self, namespace: &str) -> usize {
        self.namespaces.find(namespace).map_or(0, |namespace| namespace.pending.len())
    }

    /// What the pending reservations count as against the bounds on their number: long ones count as several.
    #[must_use]
    pub(crate) const fn counted_pending(&self) -> usize {
        self.reservations.pending.all
    }

    /// As [`Self::counted_pending`], of a namespace.
    #[must_use]
    pub(crate) fn counted_pending_in(&self, namespace: &str) -> usize {
        let more = self.reservations.pending.more_in.get(namespace);
        self.pending_count_in(namespace) + more.copied().unwrap_or_default()
    }

    /// As [`Self::counted_pending`], of a principal.
    #[must_use]
    pub(crate) fn counted_pending_of(&self, principal: &Name) -> usize {
        let counts = &self.reservations.pending.of_principal;
        counts.get(principal).copied().unwrap_or_default()
    }

    /// Whether the bound on ended reservations has to be recorded: it differs from the recorded one, or none is recorded
    /// yet and their bytes exceed it.
    pub(crate) fn has_to_bound_ended(&self, bytes: u64) -> bool {
        match self.reservations.ended_bytes {
            Some(bound) => bound != bytes,
            None => self.reservations.shares.bytes() as u64 > bytes,
        }
    }

    /// The bytes of remembered ended reservations.
    #[must_use]
    pub const fn ended_bytes(&self) -> usize {
        self.reservations.shares.bytes()
    }

    /// The number of reservations of a namespace that are committed and not observed.
    #[must_use]
    pub(crate) fn committed_count_in(&self, namespace: &str) -> usize {
        let namespace = self.namespaces.find(namespace);
        namespace.map_or(0, |namespace| namespace.committed.len())
    }

    /// The number of reservations of a principal that are committed and not observed.
    #[must_use]
    pub(crate) fn committed_count_of(&self, principal: &Name) -> usize {
        let counts = &self.reservations.committed_of;
        counts.get(principal).copied().unwrap_or_default()
    }

    /// The number of quotas of a namespace.
    #[must_use]
    pub(crate) fn quota_count_in(&self, namespace: &str) -> usize {
        let namespace = self.namespaces.find(namespace);
        namespace.map_or(0, |namespace| namespace.quotas.len())
    }

    /// The used and the reserved amounts of a namespace.
    pub(crate) fn sums_in(&self, namespace: &str) -> [&ResourceList; 2] {
        const NONE: &ResourceList = &ResourceList::new();
        let namespace = self.namespaces.find(namespace);
        namespace.map_or([NONE; 2], |namespace| [&namespace.sums.used, &namespace.sums.reserved])
    }

    /// The sums of a namespace; empty if the namespace is.
    #[must_use]
    pub fn totals(&self, namespace: &str) -> Totals {
        let sums = self.namespaces.find(namespace).map(|namespace| &*namespace.sums);
        let copy =
            |sums: &Sums| Totals { used: sums.used.clone(), reserved: sums.reserved.clone() };
        sums.map(copy).unwrap_or_default()
    }

    /// A quota as it was set, and the entry that set it.
    #[must_use]
    pub fn quota_record(
        &self,
        namespace: &str,
        name: &str,
    ) -> Option<(&Arc<QuotaRecord>, Sequence)> {
        let quota = self.namespaces.find(namespace)?.quotas.get(name)?;
        Some((&quota.record, quota.entry))
    }

    /// The quotas of a namespace as they were set, by name.
    pub fn quota_records(&self, namespace: &str) -> impl Iterator<Item = &Arc<QuotaRecord>> {
        let namespace = self.namespaces.find(namespace);
        let quotas = namespace.into_iter().flat_map(|namespace| namespace.quotas.values());
        quotas.map(|quota| &quota.record)
    }

    /// When those pending reservations expire that hold any of these resources in a quota.
    pub(crate) fn holders(
        &self,
        namespace: &str,
        quota: &str,
        resources: &ResourceList,
    ) -> Vec<Timestamp> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let Some(quota) = namespace.quotas.get(quota) else {
            return Vec::new();
        };
        let hard = quota.hard();
        let holds = |amounts: &ResourceList| {
            let positive = |name: &&Name| amounts.get(*name).is_some_and(Quantity::is_positive);
            let mut names = resources.names().filter(|name| hard.get(*name).is_some());
            names.any(|name| positive(&name))
        };
        let expiration = |&place: &u32| {
            let tracked = self.reservations.get(place);
            let reservation = &tracked.reservation;
            let observed = self.beside(tracked).map(|shared| &**shared);
            let amounts = quota.hold(&reservation.footprint, observed)?;
            holds(&amounts).then_some(reservation.expiration)
        };
        namespace.pending.iter().filter_map(expiration).collect()
    }

    /// The entry that last changed the footprint of a deleted object; none if that is not remembered.
    #[must_use]
    pub fn last_entry_of_deleted(&self, namespace: &str, uid: &Uid) -> Option<Sequence> {
        let gone = self.objects.deleted.find(namespace, uid)?;
        (gone.last > 0).then_some(gone.last)
    }

    /// How far each source has been consumed.
    pub const fn sources(&self) -> &BTreeMap<Name, Cursor> {
        &self.sources
    }

    /// The entries of the newest dead letters, oldest first.
    pub fn dead_letters(&self) -> impl DoubleEndedIterator<Item = Sequence> {
        self.dead_letters.iter().copied()
    }
}

/// Zero if nothing counts yet; absent if no object can ever count for the resource.
pub(super) fn used(sums: &ResourceList, resource: &Name) -> Option<Quantity> {
    let zero = || object::is_countable_by_anyone(resource).then(Quantity::default);
    sums.get(resource).cloned().or_else(zero)
}
