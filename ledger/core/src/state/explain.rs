//! What makes a number: the objects and reservations behind it.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{ObjectView, ReservationView, State};
use crate::event::Sequence;
use quota_semantics::{object::Footprint, quantity::Quantity, uid::Uid};

/// Something that makes up a number.
#[derive(Clone, Debug)]
pub struct Part {
    /// How much of the number it makes.
    pub amount: Quantity,
    /// What it is.
    pub holder: Holder,
}

/// An object or a reservation.
#[derive(Clone, Debug)]
pub enum Holder {
    /// A part of what is used.
    Object(ObjectView),
    /// A part of what is reserved.
    Reservation(ReservationView),
}

/// A part's place among the others: the largest first, and what is used before what is reserved.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PartKey(Reverse<Quantity>, bool, Uid);

impl Part {
    /// The entry that caused it: that last changed what the object counts for, or that granted the reservation.
    #[must_use]
    pub const fn entry(&self) -> Sequence {
        match &self.holder {
            Holder::Object(object) => object.entry,
            Holder::Reservation(reservation) => reservation.entry,
        }
    }

    /// Its place among the others.
    #[must_use]
    pub fn key(&self) -> PartKey {
        let (is_reservation, uid) = match &self.holder {
            Holder::Object(object) => (false, &object.uid),
            Holder::Reservation(view) => (true, &view.reservation.uid),
        };
        PartKey(Reverse(self.amount.clone()), is_reservation, uid.clone())
    }
}

impl State {
    /// The `limit` largest parts after `after` of what counts as `resource` in a quota, or, without a quota, in the
    /// whole namespace. What counts for nothing is left out. None if there is no such quota.
    #[must_use]
    pub fn parts(
        &self,
        namespace: &str,
        quota: Option<&str>,
        resource: &str,
        after: Option<&PartKey>,
        limit: usize,
    ) -> Option<Vec<Part>> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return quota.is_none().then(Vec::new);
        };
        let quota = match quota {
            Some(name) => Some(namespace.quotas.get(name)?),
            None => None,
        };
        let mut first = First {
            places: BTreeMap::new(),
            after,
            limit,
        };
        let counted = |footprint: &Footprint| {
            let counts = quota.is_none_or(|quota| quota.counts(footprint));
            footprint
                .resources
                .get(resource)
                .filter(|_| counts)
                .cloned()
        };
        for &place in &namespace.objects {
            let object = self.objects.get(place);
            if let Some(amount) = counted(self.footprints.get(object.footprint)) {
                first.offer(amount, false, &object.uid, place);
            }
        }
        for &place in &namespace.pending {
            let reservation = &self.reservations.get(place).reservation;
            let observed = self.observed_footprint(reservation);
            let held = match quota {
                Some(quota) => quota.hold(&reservation.footprint, observed),
                None => Some(super::namespaces::growth(&reservation.footprint, observed)),
            };
            if let Some(amount) = held.as_ref().and_then(|held| held.get(resource)) {
                first.offer(amount.clone(), true, &reservation.uid, place);
            }
        }
        Some(
            first
                .places
                .into_iter()
                .map(|(key, place)| self.part(key, place))
                .collect(),
        )
    }

    fn part(&self, PartKey(Reverse(amount), is_reservation, _): PartKey, place: u32) -> Part {
        let holder = if is_reservation {
            Holder::Reservation(self.reservation_view(self.reservations.get(place)))
        } else {
            Holder::Object(self.object_view(place))
        };
        Part { amount, holder }
    }
}

/// Keeps the first parts of those that it is offered.
struct First<'a> {
    places: BTreeMap<PartKey, u32>,
    after: Option<&'a PartKey>,
    limit: usize,
}

impl First<'_> {
    fn offer(&mut self, amount: Quantity, is_reservation: bool, uid: &Uid, place: u32) {
        if amount.is_zero() {
            return;
        }
        let key = PartKey(Reverse(amount), is_reservation, uid.clone());
        if self.after.is_some_and(|after| key <= *after) {
            return;
        }
        let is_late = || {
            self.places
                .last_key_value()
                .is_none_or(|(last, _)| key > *last)
        };
        if self.places.len() == self.limit && is_late() {
            return;
        }
        self.places.insert(key, place);
        if self.places.len() > self.limit {
            self.places.pop_last();
        }
    }
}
