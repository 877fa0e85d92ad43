//! The fold.
//!
//! Total: an entry that was written can be applied. It holds no policy; what an entry means was decided when
//! it was written. Where an entry speaks of something that is not there, it changes nothing.

use std::sync::Arc;

use super::{
    DEAD_LETTERS_MAX, State,
    namespaces::{Change, QuotaState, Sums},
    objects::Object,
    reservations::{End, Ended},
};
use crate::event::{Cause, Ending, Entry, Event, Observed, QuotaRecord, Reservation, Sequence};
use quota_semantics::{Name, Timestamp, object::Footprint, resource::ResourceList, uid::Uid};

impl State {
    /// Applies the next entry.
    ///
    /// The same function live, on replay, when a snapshot is checked and in an audit.
    pub fn apply(&mut self, entry: &Entry) {
        self.head.sequence = entry.sequence;
        self.head.time = self.head.time.max(entry.time);
        match &entry.event {
            Event::QuotaSet(quota) => self.set_quota(entry.sequence, quota),
            Event::QuotaDeleted { namespace, name } => self.delete_quota(namespace, name),
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                self.observe(entry, object);
            }
            Event::ObjectRefreshed {
                uid,
                version,
                ends_reservation,
                ..
            } => {
                self.refresh(entry, uid, *version, *ends_reservation);
            }
            Event::ObjectLapsed { uid, footprint, .. } => self.lapse(entry, uid, footprint),
            Event::ObjectDeleted { uid, .. } => self.delete_object(entry, uid),
            Event::ReservationGranted(reservation) => self.grant(entry.sequence, reservation),
            Event::ReservationGrown {
                uid,
                footprint,
                expiration,
                ..
            } => {
                self.grow(uid, footprint, *expiration);
            }
            Event::ReservationExtended {
                uid, expiration, ..
            } => self.extend(uid, *expiration),
            Event::ReservationCommitted { uid, resources, .. } => {
                self.commit(entry, uid, resources);
                self.mark_alive(uid);
            }
            Event::ReservationReleased { uid, .. } => self.end(entry, uid, End::Released),
            Event::ReservationExpired { uid, .. } => self.end(entry, uid, End::Expired),
            Event::ReservationSuperseded { uid, .. } => self.end(entry, uid, End::Superseded),
            Event::NameAwaited { uid, bearer, .. } => self.await_name(uid, bearer),
            Event::SourceAdvanced { source, cursor } => {
                self.sources.insert(source.clone(), cursor.clone());
            }
            Event::SourceReset {
                source,
                incarnation,
            } => {
                let cursor = self.sources.entry(source.clone()).or_default();
                *cursor = crate::event::Cursor {
                    incarnation: incarnation.clone(),
                    ..Default::default()
                };
                self.lose(&entry.actor.principal);
            }
            Event::SourceGapped { source, last, .. } => {
                self.sources.entry(source.clone()).or_default().position = *last;
                self.lose(&entry.actor.principal);
            }
            Event::MessageRejected(_) => {
                self.relists.spoil(&entry.actor.principal, None);
                self.keep_dead_letter(entry.sequence);
            }
            Event::EventRejected { resource, .. } => {
                self.relists.spoil(&entry.actor.principal, Some(resource));
                self.keep_dead_letter(entry.sequence);
            }
            Event::ObjectCorrected(correction) => self.observe(entry, &correction.object),
            Event::ObjectEnded(ending) => self.end_object(entry, ending),
            Event::RelistBegan(begin) => self.relists.begin(entry.sequence, begin),
            Event::ObjectsListed { source, uids } => {
                uids.iter().for_each(|uid| self.mark(uid, Some(source)));
            }
            Event::RelistClosed(close) => self.relists.close(close),
            Event::RelistEnded(end) => self.relists.end(end),
            Event::WatermarksAdvanced(watermarks) => self.progress.advance(watermarks),
            Event::ChargingChanged { kinds } => self.set_charging(entry, kinds),
            Event::ResourceListed { source, resource } => self.progress.listed(source, resource),
            Event::VersionsReset(scope) => {
                self.relists.resets.insert((**scope).clone());
            }
        }
    }

    /// Something of a source was lost: neither its relists nor its watermarks say anything any more.
    fn lose(&mut self, source: &Name) {
        self.relists.spoil(source, None);
        self.progress.lose(source);
    }

    fn keep_dead_letter(&mut self, entry: Sequence) {
        self.dead_letters.push_back(entry);
        if self.dead_letters.len() > DEAD_LETTERS_MAX {
            self.dead_letters.pop_front();
        }
    }

    fn set_quota(&mut self, entry: Sequence, record: &Arc<QuotaRecord>) {
        let place = self.namespaces.ensure(&record.namespace);
        let mut quota = QuotaState {
            record: record.clone(),
            entry,
            scoped: Sums::default(),
        };
        if quota.is_scoped() {
            quota.scoped = self.recount(place, &quota);
        }
        self.namespaces
            .get_mut(place)
            .quotas
            .insert(record.name.clone(), quota);
    }

    /// What counts against a quota, from its namespace's objects and pending reservations.
    fn recount(&self, namespace: u32, quota: &QuotaState) -> Sums {
        let namespace = self.namespaces.get(namespace);
        let mut sums = Sums::default();
        for &place in &namespace.objects {
            let footprint = self.footprints.get(self.objects.get(place).footprint);
            if quota.counts(footprint) {
                sums.used.add(&footprint.resources);
            }
        }
        for &place in &namespace.pending {
            let reservation = &self.reservations.get(place).reservation;
            let observed = self.observed_footprint(reservation);
            if let Some(amounts) = quota.hold(&reservation.footprint, observed) {
                sums.reserved.add(&amounts);
            }
        }
        sums
    }

    fn delete_quota(&mut self, namespace: &str, name: &str) {
        let Some(place) = self.namespaces.place(namespace) else {
            return;
        };
        self.namespaces.get_mut(place).quotas.remove(name);
        self.namespaces.drop_if_empty(place);
    }

    fn observe(&mut self, entry: &Entry, observed: &Observed) {
        let pending = self.pending_of(&observed.uid).cloned();
        if let Some(pending) = &pending {
            self.change_hold(pending, Change::Remove);
        }
        self.change_waiting(&observed.uid, Change::Remove);
        self.uncount(&observed.uid);
        let namespace = self.namespaces.ensure(&observed.namespace);
        let object = Object {
            uid: observed.uid.clone(),
            name: (&*observed.name).into(),
            version: observed.version,
            entry: entry.sequence,
            lapse: observed.lapse.unwrap_or(Timestamp::MAX),
            namespace,
            resource: self.resources.hold(&observed.resource),
            footprint: self.footprints.hold(&observed.footprint),
            position: u32::try_from(self.namespaces.get(namespace).objects.len())
                .unwrap_or(u32::MAX),
        };
        let place = self.objects.insert(object);
        let namespace = self.namespaces.get_mut(namespace);
        namespace.objects.push(place);
        namespace.count(&observed.footprint, Change::Add);
        self.mark_alive(&observed.uid);
        match pending {
            None => {}
            Some(_) if observed.ends_reservation => {
                self.settle(entry, &observed.uid, End::Observed);
            }
            Some(pending) => self.change_hold(&pending, Change::Add),
        }
        self.change_waiting(&observed.uid, Change::Add);
    }

    /// Takes an object out of the tables and the sums, if it is there.
    fn uncount(&mut self, uid: &Uid) {
        let Some(place) = self.objects.find(uid) else {
            return;
        };
        let Some(object) = self.objects.remove(place) else {
            return;
        };
        if !self.relists.is_empty() {
            let resource = self.resources.get(object.resource);
            let namespace = &self.namespaces.get(object.namespace).name;
            self.relists.clear(resource, namespace, place);
        }
        self.resources.release(object.resource);
        let footprint = self.footprints.release(object.footprint);
        let namespace = self.namespaces.get_mut(object.namespace);
        namespace.count(&footprint, Change::Remove);
        namespace.objects.swap_remove(object.position as usize);
        if let Some(&moved) = namespace.objects.get(object.position as usize) {
            self.objects.get_mut(moved).position = object.position;
        }
        self.namespaces.drop_if_empty(object.namespace);
    }

    fn refresh(&mut self, entry: &Entry, uid: &Uid, version: u64, ends_reservation: bool) {
        let Some(place) = self.objects.find(uid) else {
            return;
        };
        let object = self.objects.get_mut(place);
        object.version = version;
        self.mark_alive(uid);
        if ends_reservation {
            self.end(entry, uid, End::Observed);
        }
    }

    fn lapse(&mut self, entry: &Entry, uid: &Uid, footprint: &Footprint) {
        let Some(place) = self.objects.find(uid) else {
            return;
        };
        self.objects.set_lapse(place, Timestamp::MAX);
        self.recount_object(entry, place, footprint);
    }

    /// Gives an object another footprint, keeping what is held beside it right.
    pub(super) fn recount_object(&mut self, entry: &Entry, place: u32, footprint: &Footprint) {
        let uid = self.objects.get(place).uid.clone();
        self.withdraw_hold(&uid);
        self.change_waiting(&uid, Change::Remove);
        let held = self.footprints.hold(footprint);
        let object = self.objects.get_mut(place);
        let before = std::mem::replace(&mut object.footprint, held);
        object.entry = entry.sequence;
        let namespace = self.namespaces.get_mut(object.namespace);
        namespace.count(&self.footprints.release(before), Change::Remove);
        namespace.count(footprint, Change::Add);
        self.place_hold(&uid);
        self.change_waiting(&uid, Change::Add);
    }

    fn delete_object(&mut self, entry: &Entry, uid: &Uid) {
        self.remove_object(entry, uid);
        self.objects.deleted.remember(uid.clone());
    }

    /// Ends an object as its deletion would, but it is not remembered as deleted.
    fn end_object(&mut self, entry: &Entry, ending: &Ending) {
        let Ending {
            uid,
            namespace,
            resource,
            cause,
            ..
        } = ending;
        self.remove_object(entry, uid);
        if let Cause::Relist { began } = cause {
            self.relists.count_ended(resource, namespace, *began);
        }
    }

    /// Ceases to count an object, and what is held for it.
    fn remove_object(&mut self, entry: &Entry, uid: &Uid) {
        self.withdraw_hold(uid);
        self.change_waiting(uid, Change::Remove);
        self.uncount(uid);
        self.settle(entry, uid, End::Observed);
        self.change_waiting(uid, Change::Add);
    }

    /// The object was seen alive, so that it is in every list of its kind that is being made.
    fn mark_alive(&mut self, uid: &Uid) {
        self.mark(uid, None);
    }

    fn mark(&mut self, uid: &Uid, source: Option<&Name>) {
        if self.relists.is_empty() {
            return;
        }
        let Some(place) = self.objects.find(uid) else {
            return;
        };
        let object = self.objects.get(place);
        let resource = self.resources.get(object.resource);
        let namespace = &self.namespaces.get(object.namespace).name;
        self.relists.mark(resource, namespace, place, source);
    }

    fn grant(&mut self, entry: Sequence, reservation: &Arc<Reservation>) {
        let namespace = self.namespaces.ensure(&reservation.namespace);
        if let Some((before, _)) = self.reservations.find(&reservation.uid) {
            self.bearers.remove(before);
        }
        let place = self.reservations.insert(reservation.clone(), entry);
        self.namespaces.get_mut(namespace).pending.insert(place);
        self.change_hold_in(namespace, reservation, Change::Add);
    }

    fn grow(&mut self, uid: &Uid, footprint: &Footprint, expiration: Timestamp) {
        let Some((place, tracked)) = self.reservations.find_pending(uid) else {
            return;
        };
        let before = tracked.reservation.clone();
        self.change_hold(&before, Change::Remove);
        self.reservations.change(place, |reservation| {
            reservation.footprint = footprint.clone();
            reservation.expiration = expiration;
        });
        self.place_hold(uid);
    }

    fn extend(&mut self, uid: &Uid, expiration: Timestamp) {
        let Some((place, _)) = self.reservations.find_pending(uid) else {
            return;
        };
        self.reservations
            .change(place, |reservation| reservation.expiration = expiration);
    }

    fn commit(&mut self, entry: &Entry, uid: &Uid, resources: &ResourceList) {
        let Some((_, tracked)) = self.reservations.find_pending(uid) else {
            return;
        };
        let reservation = tracked.reservation.clone();
        let footprint = Footprint {
            resources: resources.clone(),
            traits: reservation.footprint.traits.clone(),
        };
        if let Some(place) = self.objects.find(uid) {
            self.recount_object(entry, place, &footprint);
            self.end(entry, uid, End::Committed);
            return;
        }
        self.end(entry, uid, End::Committed);
        let object = Observed {
            uid: uid.clone(),
            namespace: reservation.namespace.clone(),
            resource: reservation.resource.clone(),
            name: reservation.name.clone(),
            version: 0,
            footprint,
            lapse: None,
            ends_reservation: false,
        };
        self.observe(entry, &object);
    }

    fn end(&mut self, entry: &Entry, uid: &Uid, how: End) {
        let Some((place, tracked)) = self.reservations.find_pending(uid) else {
            return;
        };
        let pending = tracked.reservation.clone();
        let namespace = self.namespaces.place(&pending.namespace);
        if let Some(namespace) = namespace {
            self.change_hold_in(namespace, &pending, Change::Remove);
        }
        self.settle_in(entry, namespace, place, how);
    }

    fn settle(&mut self, entry: &Entry, uid: &Uid, how: End) {
        let Some((place, tracked)) = self.reservations.find_pending(uid) else {
            return;
        };
        let namespace = self.namespaces.place(&tracked.reservation.namespace);
        self.settle_in(entry, namespace, place, how);
    }

    fn settle_in(&mut self, entry: &Entry, namespace: Option<u32>, place: u32, how: End) {
        self.bearers.remove(place);
        self.reservations.end(
            place,
            Ended {
                how,
                time: self.head.time,
                entry: entry.sequence,
            },
        );
        if let Some(namespace) = namespace {
            self.namespaces.get_mut(namespace).pending.remove(&place);
            self.namespaces.drop_if_empty(namespace);
        }
    }

    fn withdraw_hold(&mut self, uid: &Uid) {
        if let Some(pending) = self.pending_of(uid).cloned() {
            self.change_hold(&pending, Change::Remove);
        }
    }

    fn place_hold(&mut self, uid: &Uid) {
        if let Some(pending) = self.pending_of(uid).cloned() {
            self.change_hold(&pending, Change::Add);
        }
    }

    /// Adds or removes what a pending reservation holds beside the object as it stands.
    pub(super) fn change_hold(&mut self, pending: &Reservation, direction: Change) {
        if let Some(namespace) = self.namespaces.place(&pending.namespace) {
            self.change_hold_in(namespace, pending, direction);
        }
    }

    fn change_hold_in(&mut self, namespace: u32, pending: &Reservation, direction: Change) {
        let own = self.observed_in(namespace, &pending.uid);
        let observed = own.or_else(|| self.bearer_shared(pending)).cloned();
        let namespace = self.namespaces.get_mut(namespace);
        namespace.hold(&pending.footprint, observed.as_deref(), direction);
    }

    /// What a reservation's object counts for already; an object of another namespace counts there.
    /// If it was never seen, what the object counts for that still bears its name.
    pub(crate) fn observed_footprint(&self, reservation: &Reservation) -> Option<&Footprint> {
        let own = self.observed_shared(&reservation.namespace, &reservation.uid);
        let base = own.or_else(|| self.bearer_shared(reservation));
        base.map(|shared| &**shared)
    }

    pub(crate) fn footprint_in(&self, namespace: &str, uid: &Uid) -> Option<&Footprint> {
        self.observed_shared(namespace, uid).map(|shared| &**shared)
    }

    pub(super) fn observed_shared(&self, namespace: &str, uid: &Uid) -> Option<&Arc<Footprint>> {
        let object = self.objects.get(self.objects.find(uid)?);
        let here = self.namespaces.get(object.namespace).name == *namespace;
        here.then(|| self.footprints.get(object.footprint))
    }

    fn observed_in(&self, namespace: u32, uid: &Uid) -> Option<&Arc<Footprint>> {
        let object = self.objects.get(self.objects.find(uid)?);
        (object.namespace == namespace).then(|| self.footprints.get(object.footprint))
    }
}

/// What an object counts for once its time is over: only that it is there.
#[must_use]
pub fn lapsed_footprint(footprint: &Footprint) -> Footprint {
    let mut resources = footprint.resources.clone();
    resources.retain(|name, _| name.starts_with("count/"));
    Footprint {
        resources,
        traits: footprint.traits.clone(),
    }
}
