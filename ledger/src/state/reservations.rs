//! Reservations: the pending ones, and those that ended lately.

use crate::planted::{self, Bug};
use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;

use super::{ring::Ring, slab::Slab};
use crate::{
    Name, Timestamp,
    codec::{record, variants},
    event::{Reservation, Sequence},
    uid::Uid,
};

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

/// Namespace, resource and name of what a pending reservation is for.
type Target = (Name, Name, Box<str>);

/// All remembered reservations, by place, uid, name and expiration.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    pub(crate) slab: Slab<Tracked, CHUNK>,
    pub(crate) ended: Ends,
    by_uid: HashMap<Uid, u32>,
    by_target: HashMap<Target, u32>,
    expirations: BTreeSet<(Timestamp, u32)>,
}

fn target(reservation: &Reservation) -> Option<Target> {
    let Reservation {
        namespace,
        resource,
        name,
        ..
    } = reservation;
    (!name.is_empty()).then(|| (namespace.clone(), resource.clone(), name.clone()))
}

impl Reservations {
    pub(crate) fn from_parts(slab: Slab<Tracked, CHUNK>, ended: Ends) -> Self {
        let mut reservations = Self {
            ended,
            ..Self::default()
        };
        for (place, tracked) in slab.iter() {
            if planted::is(Bug::SnapshotWithoutEnded) && tracked.ended.is_some() {
                continue;
            }
            reservations
                .by_uid
                .insert(tracked.reservation.uid.clone(), place);
            if tracked.ended.is_none() {
                reservations.index_pending(place, &tracked.reservation);
            }
        }
        reservations.slab = slab;
        reservations
    }

    fn index_pending(&mut self, place: u32, reservation: &Reservation) {
        self.expirations.insert((reservation.expiration, place));
        if let Some(target) = target(reservation) {
            self.by_target.insert(target, place);
        }
    }

    pub(crate) fn get(&self, place: u32) -> &Tracked {
        self.slab
            .get(place)
            .expect("a reservation that is listed is remembered")
    }

    pub(crate) fn find(&self, uid: &Uid) -> Option<(u32, &Tracked)> {
        let place = *self.by_uid.get(uid)?;
        Some((place, self.get(place)))
    }

    pub(crate) fn find_pending(&self, uid: &Uid) -> Option<(u32, &Tracked)> {
        self.find(uid)
            .filter(|(_, tracked)| tracked.ended.is_none())
    }

    pub(crate) fn pending_for(
        &self,
        namespace: &Name,
        resource: &Name,
        name: &str,
    ) -> Option<&Tracked> {
        let target = (namespace.clone(), resource.clone(), Box::from(name));
        self.by_target.get(&target).map(|&place| self.get(place))
    }

    pub(crate) fn pending_count(&self) -> usize {
        self.expirations.len()
    }

    pub(crate) fn insert(&mut self, reservation: Arc<Reservation>, entry: Sequence) -> u32 {
        if let Some(place) = self.by_uid.remove(&reservation.uid) {
            self.slab.remove(place);
        }
        let tracked = Tracked {
            reservation: reservation.clone(),
            entry,
            ended: None,
        };
        let place = self.slab.insert(tracked);
        self.by_uid.insert(reservation.uid.clone(), place);
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
        if let Some(target) = target(&reservation)
            && self.by_target.get(&target) == Some(&place)
        {
            self.by_target.remove(&target);
        }
        if let (_, Some((place, entry))) = self.ended.push((place, entry)) {
            self.forget(place, entry);
        }
    }

    fn forget(&mut self, place: u32, entry: Sequence) {
        let same = |tracked: &&Tracked| tracked.ended.as_ref().is_some_and(|e| e.entry == entry);
        let Some(tracked) = self.slab.get(place).filter(same) else {
            return;
        };
        self.by_uid.remove(&tracked.reservation.uid.clone());
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
