//! Names that reservations wait for: only one object can bear a name. While the old object exists, a reservation for
//! its name holds only the excess over it, and from its observed end on the whole footprint.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{State, apply::Key, sums::Change, tracked_reservation::Tracked};
use crate::event::Reservation;
use quota_semantics::{Name, object::Footprint, uid::Uid};

/// The objects that bear the names of pending reservations and of commits, by the places of these reservations.
#[derive(Clone, Debug, Default)]
pub(crate) struct NameHolders {
    by_place: ByPlace,
    by_bearer: BTreeSet<(Uid, u32)>,
}

/// The number of places in one chunk.
const CHUNK: u32 = 256;

/// Uids by place, in chunks behind reference counts, so that a copy is cheap.
#[derive(Clone, Debug, Default)]
pub(crate) struct ByPlace(BTreeMap<u32, Arc<BTreeMap<u32, Uid>>>);

impl ByPlace {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, place: u32) -> Option<&Uid> {
        self.0.get(&(place / CHUNK))?.get(&place)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Uid)> {
        let all = self.0.values().flat_map(|chunk| chunk.iter());
        all.map(|(&place, uid)| (place, uid))
    }

    fn insert(&mut self, place: u32, uid: Uid) {
        let chunk = self.0.entry(place / CHUNK).or_default();
        Arc::make_mut(chunk).insert(place, uid);
    }

    fn remove(&mut self, place: u32) -> Option<Uid> {
        let chunk = self.0.get_mut(&(place / CHUNK))?;
        let removed = Arc::make_mut(chunk).remove(&place);
        if chunk.is_empty() {
            self.0.remove(&(place / CHUNK));
        }
        removed
    }
}

impl NameHolders {
    pub(crate) fn from_places(by_place: BTreeMap<u32, Uid>) -> Self {
        let mut bearers = Self::default();
        for (place, uid) in by_place {
            bearers.insert(place, uid);
        }
        bearers
    }

    pub(crate) const fn by_place(&self) -> &ByPlace {
        &self.by_place
    }

    pub(crate) fn insert(&mut self, place: u32, bearer: Uid) {
        self.remove(place);
        self.by_bearer.insert((bearer.clone(), place));
        self.by_place.insert(place, bearer);
    }

    /// The reservation at this place no longer waits.
    pub(crate) fn remove(&mut self, place: u32) {
        if let Some(bearer) = self.by_place.remove(place) {
            self.by_bearer.remove(&(bearer, place));
        }
    }

    /// The places of the reservations that wait for the name of an object.
    fn waiting_for(&self, bearer: &Uid) -> Vec<u32> {
        if self.by_bearer.is_empty() {
            return Vec::new();
        }
        let first = (bearer.clone(), 0);
        let pairs = self.by_bearer.range(first..);
        let of_it = pairs.take_while(|(other, _)| other == bearer);
        of_it.map(|(_, place)| *place).collect()
    }
}

impl State {
    /// The object that bore the name of a pending reservation when the reservation was granted; none: no object did.
    #[must_use]
    pub fn bearer(&self, reservation: &Reservation) -> Option<&Uid> {
        if self.bearers.by_place.is_empty() {
            return None;
        }
        let Reservation { namespace, uid, .. } = reservation;
        let (place, _) = self.reservations.find_pending(namespace, uid)?;
        self.bearers.by_place.get(place)
    }

    /// The object that bore the name of a reservation or a commit when the reservation was granted; none: no object
    /// did.
    pub(crate) fn bearer_of(&self, tracked: &Tracked) -> Option<&Uid> {
        let Reservation { namespace, uid, .. } = &*tracked.reservation;
        match tracked.committed {
            None => self.bearer(&tracked.reservation),
            Some(_) if self.bearers.by_place.is_empty() => None,
            Some(_) => {
                let (place, _) = self.reservations.find_committed(namespace, uid)?;
                self.bearers.by_place.get(place)
            }
        }
    }

    /// Whether any reservation waits to take the place of an object, apart from the given uids. One that holds nothing
    /// of what the object takes leaves the place to others.
    pub(crate) fn is_waited_for(
        &self,
        namespace: &Name,
        bearer: &Uid,
        but_for: impl Fn(&Uid) -> bool,
    ) -> bool {
        let Some(footprint) = self.footprint_in(namespace, bearer) else {
            return false;
        };
        let waiting = self.waiting_for((namespace, bearer));
        let takes_place = |reservation: &Reservation| {
            let held = &reservation.footprint.resources;
            let mut shared = footprint.resources.common(held);
            shared.any(|(_, _, held)| held.is_positive())
        };
        let mut waiting = waiting.iter().map(|place| &*self.reservations.get(*place).reservation);
        waiting.any(|waiting| !but_for(&waiting.uid) && takes_place(waiting))
    }

    /// The places of the reservations that wait for the name of an object.
    pub(super) fn waiting_for(&self, (namespace, bearer): Key<'_>) -> Vec<u32> {
        let mut places = self.bearers.waiting_for(bearer);
        places.retain(|place| self.reservations.get(*place).reservation.namespace == *namespace);
        places
    }

    /// The footprint of the object that bears the name of a pending reservation, if it is alive.
    pub(crate) fn bearer_shared(&self, reservation: &Reservation) -> Option<&Arc<Footprint>> {
        let bearer = self.bearer(reservation)?;
        self.footprint_shared(&reservation.namespace, bearer)
    }

    /// Records that a reservation waits for a name.
    pub(super) fn await_name(&mut self, key: Key<'_>, bearer: &Uid) {
        let Some((namespace, place)) = self.find_held(key).filter(|_| key.1 != bearer) else {
            return;
        };
        self.change_claim(namespace, place, Change::Remove);
        self.bearers.insert(place, bearer.clone());
        self.change_claim(namespace, place, Change::Add);
    }

    /// Removes or restores the amounts that are held beside an object by the reservations that wait for its name.
    pub(super) fn change_waiting(&mut self, bearer: Key<'_>, direction: Change) {
        let waiting = self.waiting_for(bearer);
        if !waiting.is_empty()
            && let Some(namespace) = self.namespaces.place(bearer.0)
        {
            waiting.into_iter().for_each(|place| self.change_claim(namespace, place, direction));
        }
    }
}
