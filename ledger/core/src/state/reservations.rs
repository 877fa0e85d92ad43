//! Reservations: pending ones, and recently ended ones.

use std::collections::BTreeSet;
use std::{hash::BuildHasher, ops::Bound, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashMap, HashTable};

use super::{
    slab::Slab,
    tracked_reservation::{Ended, Target, Tracked},
};
use crate::{
    bounded_memory::BoundedMemory,
    event::{Reservation, Sequence},
};
use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};

pub(crate) const CHUNK: usize = 64;

/// Most ended reservations that are remembered, so that a repeated request gets the same answer. Part of the fold, and
/// so of the format.
const ENDED_MAX: u32 = 1 << 18;

/// The expiration of a pending reservation, and its place: they are ordered by it.
pub(crate) type Expiry = (Timestamp, u32);

/// All remembered reservations, by place, uid, name and expiration.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reservations {
    pub(crate) slab: Slab<Tracked, CHUNK>,
    /// Most bytes of ended reservations; none: their number alone is bounded.
    pub(crate) ended_bytes: Option<u64>,
    /// Ended reservations, by the entries that ended them.
    pub(super) shares: BoundedMemory<(Sequence, u32)>,
    /// By namespace and uid. Places only: with the uids in it the table would not fit into the processor's caches. At
    /// most one reservation of each object.
    by_uid: HashTable<u32>,
    /// Commits, by namespace and uid; there may be a newer reservation for the same object.
    pub(super) committed: HashTable<u32>,
    /// Pending reservations by their target.
    by_target: HashTable<u32>,
    hasher: DefaultHashBuilder,
    pub(super) expirations: BTreeSet<Expiry>,
    pub(super) pending: PendingCounts,
    /// The number of commits of each principal that has any.
    pub(super) committed_of: HashMap<Name, usize>,
}

impl Reservations {
    pub(crate) fn from_parts(mut slab: Slab<Tracked, CHUNK>, ended_bytes: Option<u64>) -> Self {
        for place in 0..slab.places() {
            slab.get_mut(place).into_iter().for_each(Tracked::measure);
        }
        let mut reservations = Self { ended_bytes, ..Self::default() };
        reservations.by_uid.reserve(slab.len() as usize, |_| 0);
        reservations.slab = slab;
        let mut ends = Vec::new();
        for (place, tracked) in reservations.slab.clone().iter() {
            reservations.index(place);
            ends.extend(tracked.remembered_end().map(|end| (end, place)));
        }
        // Shares are for keys that grow.
        ends.sort_unstable();
        for (end, place) in ends {
            reservations.share(place, end);
        }
        reservations
    }

    fn index(&mut self, place: u32) {
        self.index_uid(place);
        if self.get(place).ended.is_none() {
            self.index_pending(place);
        }
    }

    fn index_uid(&mut self, place: u32) {
        let Self { slab, by_uid, committed, committed_of, hasher, .. } = self;
        let hash_at = |place: u32| {
            let tracked = slab.get(place);
            tracked.map_or(0, |Tracked { reservation, .. }| {
                hash_of(hasher, &reservation.namespace, &reservation.uid)
            })
        };
        let commit = slab.get(place).filter(|it| it.committed.is_some());
        let table = match commit {
            Some(commit) => {
                *committed_of.entry_ref(&commit.owner).or_default() += 1;
                committed
            }
            None => by_uid,
        };
        table.insert_unique(hash_at(place), place, |&place| hash_at(place));
    }

    fn unindex_uid(&mut self, place: u32) {
        let Self { slab, by_uid, committed, committed_of, hasher, .. } = self;
        let Some(tracked) = slab.get(place) else {
            return;
        };
        let Reservation { namespace, uid, .. } = &*tracked.reservation;
        let hash = hash_of(hasher, namespace, uid);
        let is_commit = tracked.committed.is_some();
        let table = if is_commit { committed } else { by_uid };
        if let Ok(entry) = table.find_entry(hash, |&other| other == place) {
            entry.remove();
            if is_commit {
                count_out(committed_of, &tracked.owner, 1);
            }
        }
    }

    fn index_pending(&mut self, place: u32) {
        let Self { slab, by_target, hasher, expirations, pending, .. } = self;
        let Some(tracked) = slab.get(place) else {
            return;
        };
        let reservation = &tracked.reservation;
        pending.add(tracked);
        expirations.insert((reservation.expiration, place));
        let Some(target) = Target::of(reservation) else {
            return;
        };
        let hash_at = |&place: &u32| {
            let target = slab.get(place).and_then(|tracked| Target::of(&tracked.reservation));
            target.map_or(0, |target| hasher.hash_one(target))
        };
        by_target.insert_unique(hasher.hash_one(target), place, hash_at);
    }

    pub(crate) fn get(&self, place: u32) -> &Tracked {
        self.slab.get(place).expect("a reservation that is listed is remembered")
    }

    /// Whether there is at most one commit of each object, and at most one other reservation.
    pub(crate) fn is_distinct(&self) -> bool {
        let mut all = self.slab.iter();
        all.all(|(place, tracked)| {
            let table = match tracked.committed {
                Some(_) => &self.committed,
                None => &self.by_uid,
            };
            let Reservation { namespace, uid, .. } = &*tracked.reservation;
            let found = self.find_in(table, namespace, uid);
            found.is_some_and(|(found, _)| found == place)
        })
    }

    /// The recorded reservation of an object: the pending one, else the committed one, else the one that ended last.
    pub(crate) fn find(&self, namespace: &str, uid: &Uid) -> Option<(u32, &Tracked)> {
        let found = self.find_in(&self.by_uid, namespace, uid);
        match found {
            Some((_, tracked)) if tracked.ended.is_none() => found,
            _ => self.find_committed(namespace, uid).or(found),
        }
    }

    fn find_in(
        &self,
        table: &HashTable<u32>,
        namespace: &str,
        uid: &Uid,
    ) -> Option<(u32, &Tracked)> {
        // Mostly nothing is committed, and then nothing need be hashed.
        if table.is_empty() {
            return None;
        }
        let same = |&place: &u32| self.get(place).is(namespace, uid);
        let place = *table.find(hash_of(&self.hasher, namespace, uid), same)?;
        Some((place, self.get(place)))
    }

    pub(crate) fn find_pending(&self, namespace: &str, uid: &Uid) -> Option<(u32, &Tracked)> {
        self.find_in(&self.by_uid, namespace, uid).filter(|(_, tracked)| tracked.ended.is_none())
    }

    pub(crate) fn find_committed(&self, namespace: &str, uid: &Uid) -> Option<(u32, &Tracked)> {
        self.find_in(&self.committed, namespace, uid)
    }

    /// The hash by which the pending reservations of a target are found.
    pub(crate) fn hash_of_target(&self, target: Target<'_>) -> u64 {
        self.hasher.hash_one(target)
    }

    /// The pending reservations of a target, and their places, in no order.
    pub(crate) fn pending_for<'a, 't>(
        &'a self,
        hash: u64,
        target: Target<'t>,
    ) -> impl Iterator<Item = (u32, &'a Tracked)> + use<'a, 't> {
        let all = self.by_target.iter_hash(hash);
        let all = all.map(|&place| (place, self.get(place)));
        all.filter(move |(_, tracked)| Target::of(&tracked.reservation) == Some(target))
    }

    /// The place of the recorded reservation of an object that is not committed, and whether that is pending.
    pub(crate) fn place_of(&self, namespace: &str, uid: &Uid) -> Option<(u32, bool)> {
        let (place, tracked) = self.find_in(&self.by_uid, namespace, uid)?;
        Some((place, tracked.ended.is_none()))
    }

    /// Records a reservation. `replaced`: the place of the recorded one for the same object.
    pub(crate) fn insert(
        &mut self,
        replaced: Option<u32>,
        reservation: Arc<Reservation>,
        owner: Name,
        entry: Sequence,
    ) -> u32 {
        if let Some(place) = replaced {
            self.remove(place);
        }
        let place = self.slab.insert(Tracked::pending(reservation, owner, entry));
        self.index(place);
        place
    }

    /// Changes a pending reservation.
    pub(crate) fn change(&mut self, place: u32, change: impl FnOnce(&mut Reservation)) {
        let Some(tracked) = self.slab.get_mut(place) else {
            return;
        };
        let before = tracked.reservation.expiration;
        self.pending.remove(tracked);
        change(Arc::make_mut(&mut tracked.reservation));
        tracked.measure();
        self.pending.add(tracked);
        let after = tracked.reservation.expiration;
        self.expirations.remove(&(before, place));
        self.expirations.insert((after, place));
    }

    pub(crate) fn end(&mut self, place: u32, ended: Ended) {
        let entry = ended.entry;
        self.settle(place, ended);
        self.remember(place, entry);
    }

    /// Remembers an ended reservation. If there are too many, some are forgotten.
    fn remember(&mut self, place: u32, entry: Sequence) {
        self.share(place, entry);
        self.make_room();
    }

    fn share(&mut self, place: u32, entry: Sequence) {
        let Some(tracked) = self.slab.get(place) else {
            return;
        };
        let Tracked { reservation, owner, bytes, .. } = tracked;
        self.shares.add(owner, &reservation.namespace, (entry, place), *bytes);
    }

    /// Forgets ended reservations until the bound holds: of the principal with the most bytes, and of its namespace with
    /// the most, the oldest.
    fn make_room(&mut self) {
        let most = self.ended_bytes.unwrap_or(u64::MAX);
        while (self.shares.bytes() as u64 > most || self.shares.len() > ENDED_MAX as usize)
            && let Some((_, place)) = self.shares.first_to_go()
        {
            self.remove(place);
        }
    }

    /// Bounds the bytes of ended reservations from now on.
    pub(crate) fn bound_ended(&mut self, bytes: u64) {
        self.ended_bytes = Some(bytes);
        self.make_room();
    }

    /// Ends a pending reservation.
    fn settle(&mut self, place: u32, ended: Ended) {
        let Self { slab, by_target, hasher, expirations, pending, .. } = self;
        let Some(tracked) = slab.get_mut(place) else {
            return;
        };
        if tracked.ended.replace(ended).is_none() {
            pending.remove(tracked);
        }
        expirations.remove(&(tracked.reservation.expiration, place));
        let target = Target::of(&tracked.reservation);
        let found = target
            .map(|target| by_target.find_entry(hasher.hash_one(target), |&other| other == place));
        if let Some(Ok(entry)) = found {
            entry.remove();
        }
    }

    /// Commits a pending reservation with this footprint. It is not forgotten before the commit ends.
    pub(crate) fn commit(&mut self, place: u32, footprint: Footprint, ended: Ended) {
        self.settle(place, ended);
        self.unindex_uid(place);
        if let Some(tracked) = self.slab.get_mut(place) {
            tracked.committed = Some(Arc::new(footprint));
            self.index_uid(place);
        }
    }

    /// Ends a commit. If a newer reservation exists for the object, only that one is remembered.
    pub(crate) fn end_commit(&mut self, place: u32, ended: Ended) {
        let reservation = self.get(place).reservation.clone();
        let Reservation { namespace, uid, .. } = &*reservation;
        if self.find_in(&self.by_uid, namespace, uid).is_some() {
            self.remove(place);
            return;
        }
        self.unindex_uid(place);
        let entry = ended.entry;
        if let Some(tracked) = self.slab.get_mut(place) {
            tracked.committed = None;
            tracked.ended = Some(ended);
            self.index_uid(place);
            self.remember(place, entry);
        }
    }

    /// Forgets a reservation or a commit.
    pub(crate) fn remove(&mut self, place: u32) {
        self.unindex_uid(place);
        let Some(tracked) = self.slab.remove(place) else {
            return;
        };
        if tracked.ended.is_none() {
            self.pending.remove(&tracked);
        } else if let Some(entry) = tracked.remembered_end() {
            let namespace = &tracked.reservation.namespace;
            self.shares.remove(&tracked.owner, namespace, (entry, place));
        }
    }

    /// Pending reservations whose expiration is at or before `time`, soonest first. `after`: only those behind this one.
    pub(crate) fn expiring(
        &self,
        after: Option<Expiry>,
        time: Timestamp,
    ) -> impl Iterator<Item = (Expiry, &Tracked)> {
        let begin = after.map_or(Bound::Unbounded, Bound::Excluded);
        let behind = self.expirations.range((begin, Bound::Unbounded));
        let due = behind.take_while(move |(at, _)| *at <= time);
        due.map(|&expiry| (expiry, self.get(expiry.1)))
    }
}

/// The hash of an object. Holders choose uids, so one uid may be reserved in very many namespaces.
fn hash_of(hasher: &DefaultHashBuilder, namespace: &str, uid: &Uid) -> u64 {
    hasher.hash_one((namespace, uid))
}

/// What pending reservations count as against the bounds on their number: long ones count as several.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingCounts {
    pub(super) all: usize,
    /// Of each principal that has any.
    pub(super) of_principal: HashMap<Name, usize>,
    /// Beyond their number, of each namespace with long ones.
    pub(super) more_in: HashMap<Name, usize>,
}

impl PendingCounts {
    fn add(&mut self, tracked: &Tracked) {
        let count = tracked.count();
        self.all += count;
        *self.of_principal.entry_ref(&tracked.owner).or_default() += count;
        if count > 1 {
            *self.more_in.entry_ref(&tracked.reservation.namespace).or_default() += count - 1;
        }
    }

    fn remove(&mut self, tracked: &Tracked) {
        let count = tracked.count();
        self.all -= count;
        count_out(&mut self.of_principal, &tracked.owner, count);
        count_out(&mut self.more_in, &tracked.reservation.namespace, count - 1);
    }
}

/// Removes this many from the count of a principal or namespace.
fn count_out(counts: &mut HashMap<Name, usize>, name: &Name, fewer: usize) {
    if fewer > 0
        && let Some(count) = counts.get_mut(name)
    {
        *count -= fewer;
        if *count == 0 {
            counts.remove(name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reserved(namespace: &str) -> Arc<Reservation> {
        Arc::new(Reservation {
            uid: Uid::new("shared").unwrap(),
            namespace: namespace.into(),
            resource: "pods".into(),
            name: "web".into(),
            api_version: "v1".into(),
            kind: "Pod".into(),
            footprint: Arc::default(),
            created: Timestamp::EPOCH,
            expiration: Timestamp::MAX,
            after_version: 0,
            requested: None,
        })
    }

    #[test]
    fn one_uid_in_many_namespaces_is_found_without_a_look_at_all() {
        let mut reservations = Reservations::default();
        let namespaces: Vec<_> = (0..1000).map(|number| format!("team-{number}")).collect();
        for namespace in &namespaces {
            reservations.insert(None, reserved(namespace), "tenant".into(), 1);
        }
        let uid = Uid::new("shared").unwrap();
        for namespace in &namespaces {
            let (_, found) = reservations.find(namespace, &uid).unwrap();
            assert_eq!(*found.reservation.namespace, **namespace);
            let hash = hash_of(&reservations.hasher, namespace, &uid);
            let looked_at = reservations.by_uid.iter_hash(hash).count();
            assert!(looked_at < 100, "{looked_at}");
        }
    }
}
