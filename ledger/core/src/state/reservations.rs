//! Reservations: the pending ones, and those that ended lately.

use planted::Bug;
use std::collections::BTreeSet;
use std::{hash::BuildHasher, sync::Arc};

use hashbrown::{DefaultHashBuilder, HashTable};

use super::{ring::Ring, slab::Slab};
use crate::{
    codec::{record, variants},
    event::{Reservation, Sequence},
};
use quota_semantics::{Timestamp, uid::Uid};

const CHUNK: usize = 64;

/// How many ended reservations are remembered, so that a repeated request gets the same answer. In the fold,
/// and so part of the format.
const ENDED_MAX: u32 = 1 << 18;

/// Places of ended reservations in the order of their ends, with the entry that ended them: a place may have been
/// given to another since.
pub(crate) type Ends = Ring<(u32, Sequence), ENDED_MAX>;

/// How a reservation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum End {
    /// Its object was observed, or deleted before it was ever seen.
    Observed,
    /// The holder said that the object exists.
    Committed,
    /// The holder gave it back.
    Released,
    /// Its time ran out.
    Expired,
    /// A newer reservation for the same name took its place.
    Superseded,
}

/// A reservation and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct Tracked {
    pub(crate) reservation: Arc<Reservation>,
    /// The entry that granted it.
    pub(crate) entry: Sequence,
    pub(crate) ended: Option<Ended>,
}

impl Tracked {
    /// How and when it ended.
    pub(crate) fn end(&self) -> Option<(End, Timestamp)> {
        let ended = self.ended.as_ref()?;
        Some((ended.how, ended.time))
    }
}

/// The end of a reservation.
#[derive(Clone, Debug)]
pub(crate) struct Ended {
    pub(crate) how: End,
    pub(crate) time: Timestamp,
    pub(crate) entry: Sequence,
}

variants!(End { 0 => Observed, 1 => Committed, 2 => Released, 3 => Expired, 4 => Superseded });
record!(Ended { how, time, entry });
record!(Tracked {
    reservation,
    entry,
    ended
});

/// What a pending reservation is for. A newer one for the same takes its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Target<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) resource: &'a str,
    pub(crate) name: &'a str,
}

impl<'a> Target<'a> {
    /// None, if the name is not known.
    pub(crate) fn of(reservation: &'a Reservation) -> Option<Self> {
        let Reservation {
            namespace,
            resource,
            name,
            ..
        } = reservation;
        (!name.is_empty()).then_some(Self {
            namespace,
            resource,
            name,
        })
    }
}

/// All remembered reservations, by place, uid, name and expiration.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    pub(crate) slab: Slab<Tracked, CHUNK>,
    pub(crate) ended: Ends,
    /// Places only: with the uids in it the table would be many times the caches.
    by_uid: HashTable<u32>,
    by_target: HashTable<u32>,
    hasher: DefaultHashBuilder,
    expirations: BTreeSet<(Timestamp, u32)>,
}

impl Reservations {
    pub(crate) fn from_parts(slab: Slab<Tracked, CHUNK>, ended: Ends) -> Self {
        let mut reservations = Self {
            ended,
            ..Self::default()
        };
        reservations.by_uid.reserve(slab.len() as usize, |_| 0);
        reservations.slab = slab;
        for (place, tracked) in reservations.slab.clone().iter() {
            if planted::is(Bug::SnapshotWithoutEnded) && tracked.ended.is_some() {
                continue;
            }
            reservations.index_uid(place, &tracked.reservation.uid);
            if tracked.ended.is_none() {
                reservations.index_pending(place, &tracked.reservation);
            }
        }
        reservations
    }

    fn index_uid(&mut self, place: u32, uid: &Uid) {
        let Self {
            slab,
            by_uid,
            hasher,
            ..
        } = self;
        let rehash = |&place: &u32| {
            let tracked = slab.get(place);
            tracked.map_or(0, |tracked| hasher.hash_one(&tracked.reservation.uid))
        };
        by_uid.insert_unique(hasher.hash_one(uid), place, rehash);
    }

    fn index_pending(&mut self, place: u32, reservation: &Reservation) {
        self.expirations.insert((reservation.expiration, place));
        let Some(target) = Target::of(reservation) else {
            return;
        };
        let Self {
            slab,
            by_target,
            hasher,
            ..
        } = self;
        let target_at = |&place: &u32| Target::of(&slab.get(place)?.reservation);
        let same = |place: &u32| target_at(place) == Some(target);
        let rehash = |place: &u32| hasher.hash_one(target_at(place));
        let entry = by_target.entry(hasher.hash_one(Some(target)), same, rehash);
        *entry.or_insert(place).get_mut() = place;
    }

    pub(crate) fn get(&self, place: u32) -> &Tracked {
        self.slab
            .get(place)
            .expect("a reservation that is listed is remembered")
    }

    pub(crate) fn find(&self, uid: &Uid) -> Option<(u32, &Tracked)> {
        let same = |&place: &u32| self.get(place).reservation.uid == *uid;
        let place = *self.by_uid.find(self.hasher.hash_one(uid), same)?;
        Some((place, self.get(place)))
    }

    pub(crate) fn find_pending(&self, uid: &Uid) -> Option<(u32, &Tracked)> {
        self.find(uid)
            .filter(|(_, tracked)| tracked.ended.is_none())
    }

    pub(crate) fn pending_for(&self, target: Target<'_>) -> Option<&Tracked> {
        let same = |&place: &u32| Target::of(&self.get(place).reservation) == Some(target);
        let place = self
            .by_target
            .find(self.hasher.hash_one(Some(target)), same)?;
        Some(self.get(*place))
    }

    pub(crate) fn pending_count(&self) -> usize {
        self.expirations.len()
    }

    pub(crate) fn insert(&mut self, reservation: Arc<Reservation>, entry: Sequence) -> u32 {
        if let Some((place, _)) = self.find(&reservation.uid) {
            self.remove(place);
        }
        let tracked = Tracked {
            reservation: reservation.clone(),
            entry,
            ended: None,
        };
        let place = self.slab.insert(tracked);
        self.index_uid(place, &reservation.uid);
        self.index_pending(place, &reservation);
        place
    }

    /// Changes a pending reservation.
    pub(crate) fn change(&mut self, place: u32, change: impl FnOnce(&mut Reservation)) {
        let Some(tracked) = self.slab.get_mut(place) else {
            return;
        };
        let before = tracked.reservation.expiration;
        change(Arc::make_mut(&mut tracked.reservation));
        let after = tracked.reservation.expiration;
        self.expirations.remove(&(before, place));
        self.expirations.insert((after, place));
    }

    pub(crate) fn end(&mut self, place: u32, ended: Ended) {
        let entry = ended.entry;
        let Some(tracked) = self.slab.get_mut(place) else {
            return;
        };
        tracked.ended = Some(ended);
        let reservation = tracked.reservation.clone();
        self.expirations.remove(&(reservation.expiration, place));
        let hash = self.hasher.hash_one(Target::of(&reservation));
        if let Ok(entry) = self.by_target.find_entry(hash, |&other| other == place) {
            entry.remove();
        }
        if let (_, Some((place, entry))) = self.ended.push((place, entry)) {
            self.forget(place, entry);
        }
    }

    fn forget(&mut self, place: u32, entry: Sequence) {
        let same = |tracked: &Tracked| tracked.ended.as_ref().is_some_and(|e| e.entry == entry);
        if self.slab.get(place).is_some_and(same) {
            self.remove(place);
        }
    }

    fn remove(&mut self, place: u32) {
        let hash = self.hasher.hash_one(&self.get(place).reservation.uid);
        if let Ok(entry) = self.by_uid.find_entry(hash, |&other| other == place) {
            entry.remove();
        }
        self.slab.remove(place);
    }

    /// Pending reservations whose expiration is at or before `time`, soonest first.
    pub(crate) fn expiring(&self, time: Timestamp) -> impl Iterator<Item = &Tracked> {
        let due = self
            .expirations
            .iter()
            .take_while(move |(at, _)| *at <= time);
        due.map(|&(_, place)| self.get(place))
    }

    pub(crate) fn next_expiration(&self) -> Option<Timestamp> {
        self.expirations.first().map(|&(at, _)| at)
    }
}
