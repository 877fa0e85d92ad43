//! Queries about reservations.

use std::borrow::Cow;

use crate::{
    event::Reservation,
    state::{
        State,
        namespaces::growth,
        reservations::Expiry,
        tracked_reservation::{End, Target, Tracked},
        view::{ReservationStatus, ReservationView},
    },
};
use quota_semantics::{Timestamp, object::Footprint, uid::Uid};

impl State {
    /// The first pending reservations of a namespace, as granted, in unspecified order.
    pub fn some_pending(&self, namespace: &str, most: usize) -> impl Iterator<Item = &Reservation> {
        let namespace = self.namespaces.find(namespace).into_iter();
        let places = namespace.flat_map(|namespace| &namespace.pending).take(most);
        places.map(|&place| &*self.reservations.get(place).reservation)
    }

    /// The pending reservations of a namespace, soonest expiration first.
    #[must_use]
    pub fn pending(&self, namespace: &str) -> Vec<ReservationView> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let mut pending: Vec<_> = namespace
            .pending
            .iter()
            .map(|&place| self.reservation_view(self.reservations.get(place)))
            .collect();
        pending.sort_by(|a, b| {
            let key = |view: &ReservationView| {
                (view.reservation.expiration, view.reservation.uid.clone())
            };
            key(a).cmp(&key(b))
        });
        pending
    }

    /// A reservation in any state, as long as it is remembered.
    #[must_use]
    pub fn reservation(&self, namespace: &str, uid: &Uid) -> Option<ReservationView> {
        self.reservations.find(namespace, uid).map(|(_, tracked)| self.reservation_view(tracked))
    }

    /// The same without the held amounts, which take the most work.
    #[must_use]
    pub fn reservation_status(&self, namespace: &str, uid: &Uid) -> Option<ReservationStatus> {
        let (_, tracked) = self.reservations.find(namespace, uid)?;
        Some(ReservationStatus {
            reservation: tracked.reservation.clone(),
            end: tracked.end(),
            holding: self.holding(tracked),
        })
    }

    /// The pending reservations for objects of this name, in no order.
    pub(crate) fn named<'a>(
        &'a self,
        namespace: &'a str,
        resource: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = &'a Tracked> {
        let target = Target { namespace, resource, name };
        let all = self.reservations.pending_for(self.reservations.hash_of_target(target), target);
        all.map(|(_, tracked)| tracked)
    }

    /// The reservation for an object, pending or not, without the held amounts.
    pub(crate) fn tracked(&self, namespace: &str, uid: &Uid) -> Option<(u32, &Tracked)> {
        self.reservations.find(namespace, uid)
    }

    /// The committed footprint of an object that was not observed.
    #[must_use]
    pub fn committed(&self, namespace: &str, uid: &Uid) -> Option<&Footprint> {
        self.unobserved_commit(namespace, uid)?.committed.as_deref()
    }

    /// The commit of an object that was not observed.
    pub(crate) fn unobserved_commit(&self, namespace: &str, uid: &Uid) -> Option<&Tracked> {
        let found = self.reservations.find_committed(namespace, uid);
        found.map(|(_, tracked)| tracked)
    }

    /// The commits of a namespace whose objects were not observed.
    pub(crate) fn committed_in(&self, namespace: &str) -> impl Iterator<Item = ReservationView> {
        let namespace = self.namespaces.find(namespace).into_iter();
        let places = namespace.flat_map(|namespace| &namespace.committed);
        places.map(|&place| self.reservation_view(self.reservations.get(place)))
    }

    /// Whether a pending reservation superseded an earlier one for the same name, as far as that is remembered: the entry
    /// before its own ended that one.
    pub(crate) fn replaced_another(&self, pending: &Tracked) -> bool {
        let namespace = &pending.reservation.namespace;
        let before = pending.entry.saturating_sub(1);
        let after = (before.saturating_sub(1), u32::MAX);
        let mut ended = self.reservations.shares.of(namespace, after);
        let ended = ended.next().filter(|(entry, _)| *entry == before);
        ended.is_some_and(|(_, place)| {
            let earlier = self.reservations.get(place);
            let how = earlier.ended.as_ref().map(|ended| ended.how);
            how == Some(End::Superseded)
                && Target::of(&earlier.reservation) == Target::of(&pending.reservation)
        })
    }

    /// The pending reservation for an object.
    pub(crate) fn pending_of(&self, namespace: &str, uid: &Uid) -> Option<&Tracked> {
        self.find_pending(namespace, uid).map(|(_, tracked)| tracked)
    }

    /// The same with its place.
    pub(crate) fn find_pending(&self, namespace: &str, uid: &Uid) -> Option<(u32, &Tracked)> {
        self.reservations.find_pending(namespace, uid)
    }

    pub(in crate::state) fn reservation_view(&self, tracked: &Tracked) -> ReservationView {
        let reservation = tracked.reservation.clone();
        let held = match tracked.claim() {
            Some((_, target)) => growth(target, self.beside(tracked).map(|shared| &**shared)),
            None => Cow::Borrowed(&reservation.footprint.resources),
        };
        ReservationView {
            held: held.into_owned(),
            owner: tracked.owner.clone(),
            entry: tracked.entry,
            end: tracked.end(),
            committed: tracked.committed.clone(),
            bearer: self.bearer_of(tracked).cloned(),
            reservation,
        }
    }

    /// When the oldest pending reservation was granted.
    #[must_use]
    pub fn oldest_pending(&self) -> Option<Timestamp> {
        let all = self.reservations.expiring(None, Timestamp::MAX);
        all.map(|(_, tracked)| tracked.reservation.created).min()
    }

    /// Pending reservations whose expiration is at or before `time`, soonest first. `after`: only those behind this one.
    pub(crate) fn expiring(
        &self,
        after: Option<Expiry>,
        time: Timestamp,
    ) -> impl Iterator<Item = (Expiry, &Reservation)> {
        let expiring = self.reservations.expiring(after, time);
        expiring.map(|(expiry, tracked)| (expiry, &*tracked.reservation))
    }

    /// The soonest expiration of a pending reservation.
    #[must_use]
    pub fn next_expiration(&self) -> Option<Timestamp> {
        let expirations = &self.reservations.expirations;
        expirations.first().map(|&(at, _)| at)
    }
}
