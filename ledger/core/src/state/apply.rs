//! The fold.
//!
//! Total: every entry that was written can be applied. The fold holds no policy; the effect of an entry was decided
//! when it was written. An entry about a missing subject changes nothing.

mod reservations;

use std::sync::Arc;

pub(super) use reservations::Claims;

use super::{
    DEAD_LETTERS_MAX, State,
    namespaces::{Extra, QuotaState, hold},
    objects::Object,
    sums::{Change, Parts, Sums},
    tracked_reservation::End,
};
use crate::event::{Cause, Ending, Entry, Event, Observed, QuotaRecord, Sequence};
use quota_semantics::{Name, Timestamp, group::Sum, object::Footprint, uid::Uid};

/// The identity of an object and of its reservation.
pub(super) type Key<'a> = (&'a Name, &'a Uid);

impl State {
    /// Applies the next entry.
    ///
    /// The same function is used live, on replay, to check snapshots, and in audits.
    pub fn apply(&mut self, entry: &Entry) {
        self.head.sequence = entry.sequence;
        self.head.time = self.head.time.max(entry.time);
        match &entry.event {
            Event::QuotaSet(quota) => self.set_quota(entry, quota),
            Event::QuotaDeleted { namespace, name } => self.delete_quota(namespace, name),
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                self.observe(entry, object);
            }
            Event::ObjectRefreshed { uid, namespace, version, ends_reservation } => {
                self.refresh(entry, (namespace, uid), *version, *ends_reservation);
            }
            Event::ObjectLapsed { uid, namespace, footprint } => {
                self.lapse(entry, (namespace, uid), footprint);
            }
            Event::ObjectDeleted { uid, namespace } => self.delete_object(entry, (namespace, uid)),
            Event::ReservationGranted(reservation) => self.grant(entry, reservation),
            Event::ReservationGrown { uid, namespace, footprint, expiration } => {
                self.grow((namespace, uid), footprint, *expiration);
            }
            Event::ReservationExtended { uid, namespace, expiration } => {
                self.extend((namespace, uid), *expiration);
            }
            Event::ReservationCommitted { uid, namespace, resources } => {
                self.commit(entry, (namespace, uid), resources);
            }
            Event::ReservationReturned { uid, namespace } => {
                self.end_commit(entry, (namespace, uid), End::Returned);
            }
            Event::ReservationReleased { uid, namespace } => {
                self.end(entry, (namespace, uid), End::Released);
            }
            Event::ReservationExpired { uid, namespace } => {
                self.end(entry, (namespace, uid), End::Expired);
            }
            Event::ReservationSuperseded { uid, namespace, .. } => {
                self.end(entry, (namespace, uid), End::Superseded);
            }
            Event::NameAwaited { uid, namespace, bearer } => {
                self.await_name((namespace, uid), bearer);
            }
            Event::VersionAwaited { uid, namespace, after_version } => {
                self.await_version((namespace, uid), *after_version);
            }
            Event::SourceAdvanced { source, cursor } => {
                self.sources.insert(source.clone(), cursor.clone());
            }
            Event::SourceReset { source, incarnation } => {
                let cursor = self.sources.entry(source.clone()).or_default();
                *cursor =
                    crate::event::Cursor { incarnation: incarnation.clone(), ..Default::default() };
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
                for uid in uids {
                    self.mark_listed(uid, source);
                    self.mark_namespace(entry.sequence, uid, source);
                    self.mark_listed_group(uid, source);
                }
            }
            Event::RelistClosed(close) => self.relists.close(close),
            Event::RelistEnded(end) => self.relists.end(end),
            Event::WatermarksAdvanced(watermarks) => self.progress.advance(watermarks),
            Event::WorkloadsCharged { kinds } => self.set_charging(entry, kinds),
            Event::ObjectLabelsChanged { keys } => {
                self.object_labels = keys.iter().cloned().collect();
            }
            // A change of the leader has no effect on decided entries.
            Event::LeaderChanged { .. } => {}
            Event::EndedBounded { bytes } => self.reservations.bound_ended(*bytes),
            Event::ResourceListed { source, resource } => self.progress.listed(source, resource),
            Event::GroupSet(group) => self.set_group(entry, group),
            Event::GroupDeleted { name } => self.delete_group(name),
            Event::OverrideEnded { namespace, quota } => {
                self.end_override(namespace.as_ref(), quota);
            }
            Event::NamespaceObserved(namespace) => {
                self.see_namespace(entry.sequence, namespace);
            }
            Event::NamespaceDeleted { name, uid, relist } => {
                self.forget_namespace(name, uid, *relist);
            }
            Event::VersionsReset(scope) => {
                self.relists.resets.insert((**scope).clone());
            }
        }
    }

    /// Records that messages of a source were lost: its open relists are incomplete, and its watermarks do not count.
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

    fn set_quota(&mut self, entry: &Entry, record: &Arc<QuotaRecord>) {
        let place = self.ensure_namespace(&record.namespace);
        let mut quota = QuotaState {
            extra: Extra::of(record),
            record: record.clone(),
            entry: entry.sequence,
            owner: entry.actor.principal.clone(),
            override_ended: false,
            scoped: Arc::default(),
        };
        quota.end_override_at(self.head.time);
        if quota.is_scoped() {
            let sums = self.recount(place, |footprint| quota.counts(footprint));
            quota.scoped = Arc::new(sums);
        }
        let until = quota.limits_until();
        let subject = (Some(record.namespace.clone()), record.name.clone());
        self.deadlines.set(subject, until);
        self.namespaces.get_mut(place).quotas.insert(record.name.clone(), quota);
    }

    /// Sums the objects, pending reservations and commits of a namespace whose footprints pass `counts`.
    pub(super) fn recount(&self, namespace: u32, counts: impl Fn(&Footprint) -> bool) -> Sums {
        let namespace = self.namespaces.get(namespace);
        let mut sums = Sums::default();
        for &place in &namespace.objects {
            let footprint = self.footprints.get(self.objects.get(place).footprint);
            if counts(footprint) {
                sums.count(Sum::Used, &Parts::all(footprint), Change::Add);
            }
        }
        for &place in namespace.pending.iter().chain(&namespace.committed) {
            let tracked = self.reservations.get(place);
            let observed = self.beside(tracked).map(|shared| &**shared);
            let Some((claim, target)) = tracked.claim() else {
                continue;
            };
            if let Some(amounts) = hold(&counts, target, observed) {
                let parts = Parts::of(&target.traits, amounts);
                sums.count(claim.into(), &parts, Change::Add);
            }
        }
        sums
    }

    fn delete_quota(&mut self, namespace: &str, name: &str) {
        let Some(place) = self.namespaces.place(namespace) else {
            return;
        };
        let quota = self.namespaces.get_mut(place).quotas.remove(name);
        if let Some(quota) = quota {
            let record = &quota.record;
            let subject = (Some(record.namespace.clone()), record.name.clone());
            self.deadlines.set(subject, None);
        }
        self.drop_namespace_if_empty(place);
    }

    fn observe(&mut self, entry: &Entry, observed: &Observed) {
        let key = (&observed.namespace, &observed.uid);
        let claims = self.claims_of(key);
        self.change_claims(key.0, claims, Change::Remove);
        self.change_waiting(key, Change::Remove);
        let place = match self.find_object(key.0, key.1) {
            Some(place) if self.stays(place, observed) => {
                self.renew(place, entry, observed);
                place
            }
            before => {
                before.into_iter().for_each(|place| self.uncount(place));
                self.count(entry, observed)
            }
        };
        self.mark(place, None);
        let Claims { pending, committed } = claims;
        let is_replaced = |&place: &u32| {
            let commit = &self.reservations.get(place).reservation;
            commit.is_awaiting(observed.version)
        };
        let replaced = committed.filter(is_replaced);
        let ended = pending.filter(|_| observed.ends_reservation);
        let namespace = self.objects.get(place).namespace;
        if let Some(place) = replaced {
            self.settle_commit(namespace, place, entry, End::Observed);
        }
        if let Some(place) = ended {
            self.settle(namespace, place, entry, End::Observed);
        }
        let left = Claims {
            pending: pending.filter(|_| ended.is_none()),
            committed: committed.filter(|_| replaced.is_none()),
        };
        self.change_claims(key.0, left, Change::Add);
        self.change_waiting(key, Change::Add);
    }

    /// Adds an object to the tables and the sums.
    fn count(&mut self, entry: &Entry, observed: &Observed) -> u32 {
        let namespace = self.ensure_namespace(&observed.namespace);
        let object = Object {
            uid: observed.uid.clone(),
            name: (&*observed.name).into(),
            version: observed.version,
            entry: entry.sequence,
            lapse: lapse_of(observed),
            namespace,
            resource: self.resources.hold(&observed.resource),
            footprint: self.footprints.hold(&observed.footprint),
            position: position_of(self.namespaces.get(namespace).objects.len()),
        };
        let footprint = object.footprint;
        let place = self.objects.insert(object);
        self.count_object(namespace, footprint, Change::Add).objects.push(place);
        place
    }

    /// Removes an object from the tables and the sums.
    fn uncount(&mut self, place: u32) {
        let Some(object) = self.objects.remove(place) else {
            return;
        };
        if !self.relists.open.is_empty() {
            let resource = self.resources.get(object.resource);
            let namespace = &self.namespaces.get(object.namespace).name;
            self.relists.clear(resource, namespace, place);
        }
        self.resources.release(object.resource);
        let namespace = self.count_object(object.namespace, object.footprint, Change::Remove);
        namespace.objects.swap_remove(object.position as usize);
        let moved = namespace.objects.get(object.position as usize).copied();
        self.footprints.release(object.footprint);
        if let Some(moved) = moved {
            self.objects.get_mut(moved).position = object.position;
        }
        self.drop_namespace_if_empty(object.namespace);
    }

    /// Whether an object keeps its entries in the tables in this version: it has the same name, and its namespace exists
    /// without it.
    fn stays(&self, place: u32, observed: &Observed) -> bool {
        let object = self.objects.get(place);
        **self.resources.get(object.resource) == observed.resource
            && object.name.as_bytes() == observed.name.as_bytes()
            && self.namespaces.get(object.namespace).outlives_an_object()
    }

    /// Replaces an object by a newer version of it, with the same result as removing and adding it.
    fn renew(&mut self, place: u32, entry: &Entry, observed: &Observed) {
        let object = self.objects.get(place);
        let Object { namespace, position, footprint: before, .. } = *object;
        let siblings = &mut self.count_object(namespace, before, Change::Remove).objects;
        let last = siblings.len() - 1;
        siblings.swap(position as usize, last);
        let moved = siblings[position as usize];
        self.footprints.release(before);
        let footprint = self.footprints.hold(&observed.footprint);
        self.objects.get_mut(moved).position = position;
        self.objects.set_lapse(place, lapse_of(observed));
        let object = self.objects.get_mut(place);
        object.version = observed.version;
        object.entry = entry.sequence;
        object.footprint = footprint;
        object.position = position_of(last);
        self.count_object(namespace, footprint, Change::Add);
    }

    fn refresh(&mut self, entry: &Entry, key: Key<'_>, version: u64, ends_reservation: bool) {
        let Some(place) = self.find_object(key.0, key.1) else {
            return;
        };
        let object = self.objects.get_mut(place);
        object.version = version;
        self.mark(place, None);
        if self.replaces(key.0, key.1, version) {
            self.end_commit(entry, key, End::Observed);
        }
        if ends_reservation {
            self.end(entry, key, End::Observed);
        }
    }

    fn lapse(&mut self, entry: &Entry, key: Key<'_>, footprint: &Footprint) {
        let Some(place) = self.find_object(key.0, key.1) else {
            return;
        };
        self.objects.set_lapse(place, Timestamp::MAX);
        self.recount_object(entry, place, footprint);
    }

    /// Changes the footprint of an object, and the claims beside it accordingly.
    pub(super) fn recount_object(&mut self, entry: &Entry, place: u32, footprint: &Footprint) {
        let object = self.objects.get(place);
        let uid = object.uid.clone();
        let namespace = self.namespaces.get(object.namespace).name.clone();
        let key = (&namespace, &uid);
        let claims = self.claims_of(key);
        self.change_claims(key.0, claims, Change::Remove);
        self.change_waiting(key, Change::Remove);
        let held = self.footprints.hold(footprint);
        let object = self.objects.get_mut(place);
        let before = std::mem::replace(&mut object.footprint, held);
        object.entry = entry.sequence;
        let namespace = object.namespace;
        self.count_object(namespace, before, Change::Remove);
        self.footprints.release(before);
        self.count_object(namespace, held, Change::Add);
        self.change_claims(key.0, claims, Change::Add);
        self.change_waiting(key, Change::Add);
    }

    fn delete_object(&mut self, entry: &Entry, key: Key<'_>) {
        let (namespace, uid) = key;
        let place = self.find_object(namespace, uid);
        let last = place.map_or(0, |place| self.objects.get(place).entry);
        self.take_away(entry, key);
        self.objects.deleted.remember(namespace.clone(), uid.clone(), last);
    }

    /// Ends an object as its deletion would, but without remembering the uid as deleted.
    fn end_object(&mut self, entry: &Entry, ending: &Ending) {
        let Ending { uid, namespace, resource, cause, .. } = ending;
        self.take_away(entry, (namespace, uid));
        if let Cause::Relist { began } = cause {
            self.relists.count_ended(resource, namespace, *began);
        }
    }

    /// Removes an object, and all claims for it.
    fn take_away(&mut self, entry: &Entry, key: Key<'_>) {
        let claims = self.claims_of(key);
        self.change_claims(key.0, claims, Change::Remove);
        self.change_waiting(key, Change::Remove);
        let Some(namespace) = self.namespaces.place(key.0) else {
            return;
        };
        if let Some(place) = self.find_object(key.0, key.1) {
            self.uncount(place);
        }
        if let Some(place) = claims.committed {
            self.settle_commit(namespace, place, entry, End::Observed);
        }
        if let Some(place) = claims.pending {
            self.settle(namespace, place, entry, End::Observed);
        }
        self.change_waiting(key, Change::Add);
    }

    /// Marks an object that a source listed. The entry holds only the uid, so an object with the same uid in another
    /// namespace is marked, too.
    fn mark_listed(&mut self, uid: &Uid, source: &Name) {
        if self.relists.open.is_empty() {
            return;
        }
        let places: Vec<u32> = self.objects.all_with(uid).collect();
        for place in places {
            self.mark(place, Some(source));
        }
    }

    fn mark(&mut self, place: u32, source: Option<&Name>) {
        if self.relists.open.is_empty() {
            return;
        }
        let object = self.objects.get(place);
        let resource = self.resources.get(object.resource);
        let namespace = &self.namespaces.get(object.namespace).name;
        self.relists.mark(resource, namespace, place, source);
    }

    pub(super) fn find_object(&self, namespace: &str, uid: &Uid) -> Option<u32> {
        // By uid first: mostly nothing is found, and then the namespace need not be looked up.
        let is_here = |place: &u32| {
            let object = self.objects.get(*place);
            self.namespaces.get(object.namespace).name == *namespace
        };
        self.objects.all_with(uid).find(is_here)
    }

    pub(crate) fn footprint_in(&self, namespace: &str, uid: &Uid) -> Option<&Footprint> {
        self.footprint_shared(namespace, uid).map(|shared| &**shared)
    }

    pub(super) fn footprint_shared(&self, namespace: &str, uid: &Uid) -> Option<&Arc<Footprint>> {
        let place = self.find_object(namespace, uid)?;
        Some(self.footprints.get(self.objects.get(place).footprint))
    }
}

fn lapse_of(observed: &Observed) -> Timestamp {
    observed.lapse.unwrap_or(Timestamp::MAX)
}

/// A position in the list of a namespace.
fn position_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// The footprint of a lapsed object: only its count.
#[must_use]
pub(crate) fn lapsed_footprint(footprint: &Footprint) -> Footprint {
    let mut resources = footprint.resources.clone();
    resources.retain(|name, _| name.starts_with("count/"));
    footprint.with_resources(resources)
}
