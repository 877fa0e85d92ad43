//! The naive fold: lists of what is there, recounted whenever a number is wanted.
//!
//! Deliberately simple and slow, and without a line in common with the state: no sums that are kept, no tables, no
//! indexes. If both agree, the kept sums are right.

mod compare;
mod count;
mod progress;
mod relists;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    event::{Cursor, Entry, Event, Observed, QuotaRecord, Reservation, Sequence},
    state::State,
};
use count::{Count, counted};
use quota_semantics::{
    Name, object::Footprint, quantity::Quantity, resource::ResourceList, uid::Uid,
};

/// What a reservation holds of a limit, and how that limit stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The quota's name.
    pub quota: Name,
    /// The limited resource.
    pub resource: Name,
    /// What the reservation holds of it, beside what its object counts for.
    pub held: Quantity,
    /// What is used and reserved in all.
    pub counted: Quantity,
    /// The limit.
    pub hard: Quantity,
}

/// What all entries up to a sequence amount to, as lists.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    last: Sequence,
    quotas: BTreeMap<(Name, Name), Arc<QuotaRecord>>,
    objects: BTreeMap<Uid, Observed>,
    pending: BTreeMap<Uid, Reservation>,
    /// The objects that bear the names of reservations, by the uids of these.
    bearers: BTreeMap<Uid, Uid>,
    sources: BTreeMap<Name, Cursor>,
    relists: relists::Relists,
    progress: progress::Progress,
}

impl Naive {
    /// Begins with what a state holds, where the entries before it are gone.
    #[must_use]
    pub fn beginning_with(state: &State) -> Self {
        let mut naive = Self {
            last: state.head().sequence,
            sources: state.sources().clone(),
            relists: relists::Relists::beginning_with(state),
            progress: progress::Progress::beginning_with(state, state.progress_sources()),
            ..Self::default()
        };
        for namespace in state.namespaces("") {
            for quota in state.quotas(namespace) {
                let key = (namespace.clone(), quota.record.name.clone());
                naive.quotas.insert(key, quota.record);
            }
            for view in state.objects(namespace, None, usize::MAX, |_, _| true) {
                let object = Observed {
                    uid: view.uid.clone(),
                    namespace: view.namespace,
                    resource: view.resource,
                    name: view.name,
                    version: view.version,
                    footprint: (*view.footprint).clone(),
                    lapse: view.lapse,
                    ends_reservation: false,
                };
                naive.objects.insert(view.uid, object);
            }
            for view in state.pending(namespace) {
                let reservation = (*view.reservation).clone();
                if let Some(bearer) = state.bearer(&reservation) {
                    let uid = reservation.uid.clone();
                    naive.bearers.insert(uid, bearer.clone());
                }
                naive.pending.insert(reservation.uid.clone(), reservation);
            }
        }
        naive
    }

    /// Takes in the next entry. What it is about may be missing, as after damage: then it changes nothing.
    pub fn apply(&mut self, entry: &Entry) {
        self.last = entry.sequence;
        match &entry.event {
            Event::QuotaSet(quota) => {
                let key = (quota.namespace.clone(), quota.name.clone());
                self.quotas.insert(key, quota.clone());
            }
            Event::QuotaDeleted { namespace, name } => {
                self.quotas.remove(&(namespace.clone(), name.clone()));
            }
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
                self.objects.insert(object.uid.clone(), (**object).clone());
                if object.ends_reservation {
                    self.pending.remove(&object.uid);
                }
            }
            Event::ObjectRefreshed {
                uid,
                version,
                ends_reservation,
                ..
            } => {
                if let Some(object) = self.objects.get_mut(uid) {
                    object.version = *version;
                    if *ends_reservation {
                        self.pending.remove(uid);
                    }
                }
            }
            Event::ObjectLapsed { uid, footprint, .. } => {
                if let Some(object) = self.objects.get_mut(uid) {
                    object.footprint = footprint.clone();
                    object.lapse = None;
                }
            }
            Event::ObjectDeleted { uid, .. } => {
                self.objects.remove(uid);
                self.pending.remove(uid);
            }
            Event::ReservationGranted(reservation) => {
                let uid = reservation.uid.clone();
                self.bearers.remove(&uid);
                self.pending.insert(uid, (**reservation).clone());
            }
            Event::ReservationGrown {
                uid,
                footprint,
                expiration,
                ..
            } => {
                if let Some(reservation) = self.pending.get_mut(uid) {
                    reservation.footprint = footprint.clone();
                    reservation.expiration = *expiration;
                }
            }
            Event::ReservationExtended {
                uid, expiration, ..
            } => {
                if let Some(reservation) = self.pending.get_mut(uid) {
                    reservation.expiration = *expiration;
                }
            }
            Event::ReservationCommitted { uid, resources, .. } => self.commit(uid, resources),
            Event::ReservationReleased { uid, .. }
            | Event::ReservationExpired { uid, .. }
            | Event::ReservationSuperseded { uid, .. } => {
                self.pending.remove(uid);
            }
            Event::NameAwaited { uid, bearer, .. } => {
                if self.pending.contains_key(uid) {
                    self.bearers.insert(uid.clone(), bearer.clone());
                }
            }
            Event::SourceAdvanced { source, cursor } => {
                self.sources.insert(source.clone(), cursor.clone());
            }
            Event::SourceReset {
                source,
                incarnation,
            } => {
                let cursor = Cursor {
                    incarnation: incarnation.clone(),
                    ..Cursor::default()
                };
                self.sources.insert(source.clone(), cursor);
            }
            Event::SourceGapped { source, last, .. } => {
                self.sources.entry(source.clone()).or_default().position = *last;
            }
            Event::ObjectCorrected(correction) => {
                let object = &correction.object;
                self.objects.insert(object.uid.clone(), object.clone());
                if object.ends_reservation {
                    self.pending.remove(&object.uid);
                }
            }
            Event::ObjectEnded(ending) => {
                self.objects.remove(&ending.uid);
                self.pending.remove(&ending.uid);
            }
            Event::ChargingChanged { kinds } => {
                for object in self.objects.values_mut() {
                    if let Some(itself) = object.footprint.itself()
                        && !kinds.contains(&object.resource)
                    {
                        object.footprint = itself;
                    }
                }
            }
            Event::RelistBegan(_)
            | Event::ObjectsListed { .. }
            | Event::RelistClosed(_)
            | Event::RelistEnded(_)
            | Event::WatermarksAdvanced(_)
            | Event::ResourceListed { .. }
            | Event::VersionsReset(_)
            | Event::EventRejected { .. }
            | Event::MessageRejected(_) => {}
        }
        self.relists.apply(entry, &self.objects);
        self.progress.apply(entry);
    }

    fn commit(&mut self, uid: &Uid, resources: &ResourceList) {
        let Some(reservation) = self.pending.remove(uid) else {
            return;
        };
        let footprint = Footprint {
            resources: resources.clone(),
            traits: reservation.footprint.traits,
        };
        if let Some(object) = self.objects.get_mut(uid) {
            object.footprint = footprint;
            return;
        }
        let object = Observed {
            uid: uid.clone(),
            namespace: reservation.namespace,
            resource: reservation.resource,
            name: reservation.name,
            version: 0,
            footprint,
            lapse: None,
            ends_reservation: false,
        };
        self.objects.insert(uid.clone(), object);
    }

    /// What a pending reservation holds of each limit that it is subject to, by quota and resource; of those that
    /// it holds nothing of, nothing is told.
    #[must_use]
    pub fn held(&self, uid: &Uid) -> Vec<Held> {
        let Some(reservation) = self.pending.get(uid) else {
            return Vec::new();
        };
        let counts = self.counts();
        let nothing = Count::default();
        let count = counts.get(&reservation.namespace).unwrap_or(&nothing);
        let own = Count {
            objects: Vec::new(),
            pending: vec![(&reservation.footprint, self.beside(reservation))],
        };
        let mut all = Vec::new();
        for ((namespace, quota), record) in &self.quotas {
            if *namespace != reservation.namespace {
                continue;
            }
            for (resource, hard) in record.spec.hard.iter() {
                let counts = |footprint: &Footprint| counted(record, footprint);
                let held = own.reserved(resource, counts);
                if held.is_positive() {
                    let mut sum = count.used(resource, counts);
                    sum.add_assign(&count.reserved(resource, counts));
                    all.push(Held {
                        quota: quota.clone(),
                        resource: resource.clone(),
                        held,
                        counted: sum,
                        hard: hard.clone(),
                    });
                }
            }
        }
        all
    }
}
