//! The reservations of a namespace as of one moment, so that reading a page of them does not block the state.

use std::{collections::BTreeSet, ops::ControlFlow, sync::Arc};

use super::{
    State, reservations,
    slab::Slab,
    tracked_reservation::{End, ReservationPlace, ReservationState, Tracked},
};
use crate::event::Reservation;
use quota_semantics::Timestamp;

/// Most ended reservations that are read for one page.
const ENDED_WORK: usize = 10_000;

/// The number of places between two pauses.
const STEP: usize = 1024;

/// The reservations of a namespace. Taking the view copies pointers and numbers, without reading any reservation.
#[derive(Clone, Debug)]
pub struct ReservationsView {
    reservations: Slab<Tracked, { reservations::CHUNK }>,
    places: Selected,
}

#[derive(Clone, Debug)]
enum Selected {
    /// The places of all pending or committed reservations, in no order.
    Granted(Vec<u32>),
    /// The places of some reservations that ended behind a place, in the order of their ends.
    Ended {
        places: Vec<ReservationPlace>,
        wanted: ReservationState,
        /// Whether there are more after them.
        more: bool,
    },
}

/// A page of reservations, with the way and the time of their ends; and the last place, if there are more.
pub type ReservationsPage =
    (Vec<(Arc<Reservation>, Option<(End, Timestamp)>)>, Option<ReservationPlace>);

impl State {
    /// The reservations of a namespace as of now; of ended ones, a bounded number behind a place.
    #[must_use]
    pub fn reservations_view(
        &self,
        namespace: &str,
        state: ReservationState,
        after: ReservationPlace,
    ) -> ReservationsView {
        let granted = |places: Option<&BTreeSet<u32>>| {
            Selected::Granted(places.into_iter().flatten().copied().collect())
        };
        let found = self.namespaces.find(namespace);
        ReservationsView {
            reservations: self.reservations.slab.clone(),
            places: match state {
                ReservationState::Pending => granted(found.map(|namespace| &namespace.pending)),
                ReservationState::Committed => granted(found.map(|namespace| &namespace.committed)),
                wanted => {
                    let mut ended = self.reservations.shares.of(namespace, after);
                    Selected::Ended {
                        places: ended.by_ref().take(ENDED_WORK).collect(),
                        wanted,
                        more: ended.next().is_some(),
                    }
                }
            },
        }
    }
}

impl ReservationsView {
    /// The number of reservations that have to be read for a page.
    #[must_use]
    pub const fn len(&self) -> usize {
        match &self.places {
            Selected::Granted(places) => places.len(),
            Selected::Ended { places, .. } => places.len(),
        }
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of their amounts, plus one for each reservation. Stops counting above `enough`.
    #[must_use]
    pub fn amounts(&self, enough: usize) -> usize {
        let of = |place: u32| {
            let tracked: Option<&Tracked> = self.reservations.get(place);
            tracked.map_or(0, |tracked| tracked.reservation.footprint.resources.len())
        };
        let sum = |amounts: usize, place| match amounts > enough {
            true => ControlFlow::Break(amounts),
            false => ControlFlow::Continue(amounts + of(place)),
        };
        let all = self.len();
        let sum = match &self.places {
            Selected::Granted(places) => places.iter().copied().try_fold(all, sum),
            Selected::Ended { places, .. } => places.iter().map(|it| it.1).try_fold(all, sum),
        };
        match sum {
            ControlFlow::Break(amounts) | ControlFlow::Continue(amounts) => amounts,
        }
    }

    /// The `limit` first reservations behind the last place of the previous page; and the last place of this page, if
    /// there are more. `pause` is called after every thousand that are read.
    ///
    /// Pending and committed ones come in the order in which they were granted, ended ones in the order in which they
    /// ended, as long as they are remembered. A bounded number of ended ones is read, so a page may be short or even
    /// empty while there are more.
    #[must_use]
    pub fn page(
        &self,
        after: ReservationPlace,
        limit: usize,
        pause: impl FnMut(),
    ) -> ReservationsPage {
        let (places, next) = match &self.places {
            Selected::Granted(places) => self.granted(places, after, limit, pause),
            Selected::Ended { places, wanted, more } => {
                self.ended(places, *wanted, *more, limit, pause)
            }
        };
        let shown = |place| {
            let tracked: &Tracked = self.reservations.get(place)?;
            Some((tracked.reservation.clone(), tracked.end()))
        };
        (places.into_iter().filter_map(shown).collect(), next)
    }

    fn granted(
        &self,
        places: &[u32],
        after: ReservationPlace,
        limit: usize,
        mut pause: impl FnMut(),
    ) -> (Vec<u32>, Option<ReservationPlace>) {
        let mut first = BTreeSet::new();
        for places in places.chunks(STEP) {
            let all = places
                .iter()
                .filter_map(|&place| Some((self.reservations.get(place)?.entry, place)));
            for key in all.filter(|key| *key > after) {
                let is_late = first.len() > limit && first.last().is_some_and(|last| key > *last);
                if !is_late {
                    first.insert(key);
                }
                if first.len() > limit + 1 {
                    first.pop_last();
                }
            }
            pause();
        }
        let more = first.len() > limit;
        let page: Vec<_> = first.into_iter().take(limit).collect();
        let next = page.last().copied().filter(|_| more);
        (page.into_iter().map(|(_, place)| place).collect(), next)
    }

    fn ended(
        &self,
        places: &[ReservationPlace],
        wanted: ReservationState,
        more: bool,
        limit: usize,
        mut pause: impl FnMut(),
    ) -> (Vec<u32>, Option<ReservationPlace>) {
        let (mut found, mut last) = (Vec::new(), None);
        for places in places.chunks(STEP) {
            for key in places {
                let end = self.reservations.get(key.1).and_then(Tracked::end);
                if end.is_some_and(|(end, _)| end.state() == wanted) {
                    if found.len() == limit {
                        return (found, last);
                    }
                    found.push(key.1);
                }
                last = Some(*key);
            }
            pause();
        }
        (found, last.filter(|_| more))
    }
}
