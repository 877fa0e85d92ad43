//! The naive model: lists of what is there, recounted whenever a number is wanted.

use std::collections::BTreeMap;
use std::sync::Arc;

use quota_core::event::{Entry, Event, Observed, QuotaRecord, Reservation};
use quota_semantics::{
    Name,
    object::{Footprint, Traits},
    quantity::Quantity,
    uid::Uid,
};

#[derive(Default)]
pub(crate) struct Model {
    quotas: BTreeMap<(Name, Name), Arc<QuotaRecord>>,
    objects: BTreeMap<Uid, Observed>,
    pending: BTreeMap<Uid, Reservation>,
    /// The objects that bear the names of reservations.
    bearers: BTreeMap<Uid, Uid>,
}

impl Model {
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match &entry.event {
            Event::QuotaSet(quota) => {
                self.quotas
                    .insert((quota.namespace.clone(), quota.name.clone()), quota.clone());
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
                ends_reservation: true,
                ..
            } => {
                self.pending.remove(uid);
            }
            Event::ObjectLapsed { uid, footprint, .. } => {
                self.objects.get_mut(uid).unwrap().footprint = footprint.clone();
            }
            Event::ObjectDeleted { uid, .. } => {
                self.objects.remove(uid);
                self.pending.remove(uid);
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
            Event::ReservationGranted(reservation) => {
                self.bearers.remove(&reservation.uid);
                self.pending
                    .insert(reservation.uid.clone(), (**reservation).clone());
            }
            Event::ReservationGrown { uid, footprint, .. } => {
                self.pending.get_mut(uid).unwrap().footprint = footprint.clone();
            }
            Event::ReservationCommitted { uid, resources, .. } => {
                let reservation = self.pending.remove(uid).unwrap();
                let footprint = Footprint {
                    resources: resources.clone(),
                    traits: reservation.footprint.traits,
                };
                let object = Observed {
                    uid: uid.clone(),
                    namespace: reservation.namespace,
                    resource: reservation.resource,
                    name: reservation.name,
                    version: 0,
                    footprint: footprint.clone(),
                    lapse: None,
                    ends_reservation: false,
                };
                self.objects.entry(uid.clone()).or_insert(object).footprint = footprint;
            }
            Event::ReservationReleased { uid, .. }
            | Event::ReservationExpired { uid, .. }
            | Event::ReservationSuperseded { uid, .. } => {
                self.pending.remove(uid).unwrap();
            }
            Event::ChargingChanged { kinds } if kinds.is_empty() => {
                for object in self.objects.values_mut() {
                    if let Traits::Template { replica, .. } = &object.footprint.traits {
                        let resources = &object.footprint.resources;
                        object.footprint = Footprint {
                            resources: resources.mask(|name| replica.get(name).is_none()),
                            traits: Traits::Plain,
                        };
                    }
                }
            }
            Event::NameAwaited { uid, bearer, .. } => {
                self.bearers.insert(uid.clone(), bearer.clone());
            }
            _ => {}
        }
    }

    pub(crate) fn quota_names(&self) -> Vec<(Name, Name)> {
        self.quotas.keys().cloned().collect()
    }

    /// The limits that a reservation was checked against: quota, resource, hard.
    pub(crate) fn limits_on(&self, reservation: &Reservation) -> Vec<(Name, Name, Quantity)> {
        let of = |quota: &&Arc<QuotaRecord>| {
            quota.namespace == reservation.namespace && applies(quota, &reservation.footprint)
        };
        let mut limits = Vec::new();
        for quota in self.quotas.values().filter(of) {
            for (resource, hard) in quota.spec.hard.iter() {
                let asked = self.growth(quota, reservation, resource);
                if asked.is_positive() {
                    limits.push((quota.name.clone(), resource.clone(), hard.clone()));
                }
            }
        }
        limits
    }

    /// What is used and what is reserved of a resource in a quota.
    pub(crate) fn count(
        &self,
        namespace: &str,
        name: &str,
        resource: &str,
    ) -> (Quantity, Quantity) {
        let quota = &self.quotas[&(Name::from(namespace), Name::from(name))];
        let mut used = Quantity::ZERO;
        for object in self.objects.values() {
            if object.namespace == *namespace && applies(quota, &object.footprint) {
                used.add_assign(&amount(&object.footprint, resource));
            }
        }
        let mut reserved = Quantity::ZERO;
        for reservation in self.pending.values().filter(|r| r.namespace == *namespace) {
            reserved.add_assign(&self.growth(quota, reservation, resource));
        }
        (used, reserved)
    }

    fn growth(&self, quota: &QuotaRecord, reservation: &Reservation, resource: &str) -> Quantity {
        if !applies(quota, &reservation.footprint) {
            return Quantity::ZERO;
        }
        let wanted = amount(&reservation.footprint, resource);
        let here = |uid: &Uid| {
            let object = self.objects.get(uid);
            object.filter(|object| object.namespace == quota.namespace)
        };
        let own = here(&reservation.uid);
        let beside = own.or_else(|| here(self.bearers.get(&reservation.uid)?));
        match beside.filter(|object| applies(quota, &object.footprint)) {
            Some(object) => wanted.subtract_non_negative(&amount(&object.footprint, resource)),
            None => wanted,
        }
    }
}

fn amount(footprint: &Footprint, resource: &str) -> Quantity {
    footprint
        .resources
        .get(resource)
        .cloned()
        .unwrap_or_default()
}

/// The two scopes that the histories use, written down once more.
fn applies(quota: &QuotaRecord, footprint: &Footprint) -> bool {
    quota
        .spec
        .scopes
        .iter()
        .all(|scope| match (&**scope, &footprint.traits) {
            ("Terminating", Traits::Pod(pod) | Traits::Template { pod, .. }) => pod.terminating,
            ("NotBestEffort", Traits::Pod(pod) | Traits::Template { pod, .. }) => !pod.best_effort,
            _ => false,
        })
}
