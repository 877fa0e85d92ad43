//! The fold of reservations and commits.

use std::sync::Arc;

use super::Key;
use crate::{
    event::{Entry, Reservation},
    state::{
        State,
        other_limits::{Counting, Others, What},
        sums::Change,
        tracked_reservation::{End, Ended, Tracked},
    },
};
use quota_semantics::{Timestamp, object::Footprint, resource::ResourceList, uid::Uid};

/// The places of the reservations that claim amounts for an object.
#[derive(Clone, Copy)]
pub(in crate::state) struct Claims {
    pub(in crate::state) pending: Option<u32>,
    pub(in crate::state) committed: Option<u32>,
}

impl State {
    pub(super) fn grant(&mut self, entry: &Entry, reservation: &Arc<Reservation>) {
        let key = (&reservation.namespace, &reservation.uid);
        let before = self.reservations.place_of(key.0, key.1);
        // A decision ends a pending reservation before it grants another one; a forged ledger may not.
        if let Some((_, true)) = before {
            self.end(entry, key, End::Superseded);
        }
        let namespace = self.ensure_namespace(key.0);
        let replaced = before.map(|(place, _)| place);
        let owner = entry.actor.principal.clone();
        let place = self.reservations.insert(replaced, reservation.clone(), owner, entry.sequence);
        self.namespaces.get_mut(namespace).pending.insert(place);
        self.change_claim(namespace, place, Change::Add);
    }

    /// The pending reservation of an object, and its namespace.
    pub(in crate::state) fn find_held(&self, (namespace, uid): Key<'_>) -> Option<(u32, u32)> {
        let (place, _) = self.reservations.find_pending(namespace, uid)?;
        Some((self.namespaces.place(namespace)?, place))
    }

    pub(super) fn grow(&mut self, key: Key<'_>, footprint: &Arc<Footprint>, expiration: Timestamp) {
        let Some((namespace, place)) = self.find_held(key) else {
            return;
        };
        self.change_claim(namespace, place, Change::Remove);
        self.reservations.change(place, |reservation| {
            reservation.grow(footprint.clone(), expiration);
        });
        self.change_claim(namespace, place, Change::Add);
    }

    pub(super) fn extend(&mut self, (namespace, uid): Key<'_>, expiration: Timestamp) {
        let Some((place, _)) = self.reservations.find_pending(namespace, uid) else {
            return;
        };
        self.reservations.change(place, |reservation| reservation.expiration = expiration);
    }

    pub(super) fn await_version(&mut self, (namespace, uid): Key<'_>, after_version: u64) {
        let Some((place, _)) = self.reservations.find_pending(namespace, uid) else {
            return;
        };
        self.reservations.change(place, |reservation| {
            reservation.after_version = after_version;
        });
    }

    pub(super) fn commit(&mut self, entry: &Entry, key: Key<'_>, resources: &ResourceList) {
        let Some((namespace, place)) = self.find_held(key) else {
            return;
        };
        let held = &self.reservations.get(place).reservation.footprint;
        let footprint = held.with_resources(resources.clone());
        self.change_claim(namespace, place, Change::Remove);
        // Remove it first: only one commit of each object counts.
        self.forget_commit(key, namespace);
        let ended = self.ended(entry, End::Committed);
        self.reservations.commit(place, footprint, ended);
        let places = self.namespaces.get_mut(namespace);
        places.pending.remove(&place);
        places.committed.insert(place);
        self.change_claim(namespace, place, Change::Add);
    }

    /// Forgets a commit that a newer one replaces.
    fn forget_commit(&mut self, key: Key<'_>, namespace: u32) {
        let Some((place, _)) = self.reservations.find_committed(key.0, key.1) else {
            return;
        };
        self.change_claim(namespace, place, Change::Remove);
        self.bearers.remove(place);
        self.reservations.remove(place);
        self.namespaces.get_mut(namespace).committed.remove(&place);
    }

    fn ended(&self, entry: &Entry, how: End) -> Ended {
        Ended { how, time: self.head.time, entry: entry.sequence }
    }

    pub(super) fn end(&mut self, entry: &Entry, key: Key<'_>, how: End) {
        if let Some((namespace, place)) = self.find_held(key) {
            self.change_claim(namespace, place, Change::Remove);
            self.settle(namespace, place, entry, how);
        }
    }

    /// Ends a reservation whose claim was removed.
    pub(super) fn settle(&mut self, namespace: u32, place: u32, entry: &Entry, how: End) {
        self.bearers.remove(place);
        self.reservations.end(place, self.ended(entry, how));
        self.namespaces.get_mut(namespace).pending.remove(&place);
        self.drop_namespace_if_empty(namespace);
    }

    pub(super) fn end_commit(&mut self, entry: &Entry, key: Key<'_>, how: End) {
        if let Some((place, _)) = self.reservations.find_committed(key.0, key.1)
            && let Some(namespace) = self.namespaces.place(key.0)
        {
            self.change_claim(namespace, place, Change::Remove);
            self.settle_commit(namespace, place, entry, how);
        }
    }

    /// Ends a commit whose claim was removed.
    pub(super) fn settle_commit(&mut self, namespace: u32, place: u32, entry: &Entry, how: End) {
        self.bearers.remove(place);
        self.reservations.end_commit(place, self.ended(entry, how));
        self.namespaces.get_mut(namespace).committed.remove(&place);
        self.drop_namespace_if_empty(namespace);
    }

    /// The footprint that already counts for a reservation or a commit: that of its object, or, if the object was never
    /// observed, that of the object that still bears its name.
    pub(in crate::state) fn beside(&self, tracked: &Tracked) -> Option<&Arc<Footprint>> {
        let reservation = &tracked.reservation;
        let own = self.footprint_shared(&reservation.namespace, &reservation.uid);
        own.or_else(|| {
            let bearer = self.bearer_of(tracked)?;
            self.footprint_shared(&reservation.namespace, bearer)
        })
    }

    /// As [`Self::beside`], of a pending reservation or of one that a decision is about to grant.
    pub(in crate::state) fn beside_pending(&self, reservation: &Reservation) -> Option<&Footprint> {
        let own = self.footprint_shared(&reservation.namespace, &reservation.uid);
        let observed = own.or_else(|| self.bearer_shared(reservation));
        observed.map(|shared| &**shared)
    }

    /// Whether an object that is observed in this version replaces its commit.
    pub(crate) fn replaces(&self, namespace: &str, uid: &Uid, version: u64) -> bool {
        let committed = self.reservations.find_committed(namespace, uid);
        committed.is_some_and(|(_, tracked)| tracked.reservation.is_awaiting(version))
    }

    /// The reservations that claim amounts for an object.
    pub(in crate::state) fn claims_of(&self, (namespace, uid): Key<'_>) -> Claims {
        let reservations = &self.reservations;
        let place = |(place, _): (u32, &Tracked)| place;
        Claims {
            pending: reservations.find_pending(namespace, uid).map(place),
            committed: reservations.find_committed(namespace, uid).map(place),
        }
    }

    /// Adds or removes the claims for an object. Claims depend on the present footprint of the object.
    pub(super) fn change_claims(&mut self, namespace: &str, claims: Claims, direction: Change) {
        let mut places = [claims.pending, claims.committed].into_iter().flatten().peekable();
        if places.peek().is_some()
            && let Some(namespace) = self.namespaces.place(namespace)
        {
            places.for_each(|place| self.change_claim(namespace, place, direction));
        }
    }

    pub(in crate::state) fn change_claim(&mut self, namespace: u32, place: u32, direction: Change) {
        let tracked = self.reservations.get(place);
        let Some((claim, target)) = tracked.claim() else {
            return;
        };
        let shared = self.beside(tracked).cloned();
        let beside = shared.as_deref();
        let counted = self.namespaces.get_mut(namespace);
        let excess = counted.claim(claim, target, beside, direction);
        self.groups.count_claim(counted, claim, (target, beside), &excess, direction);
        if let Others::Follow(changes) = &mut self.others {
            let what = match &tracked.committed {
                Some(committed) => What::Committed(committed.clone(), shared),
                None => What::Pending(tracked.reservation.clone(), shared),
            };
            changes.push(Counting { namespace, what, excess, direction });
        }
    }
}
