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

type Key = (Name, Uid);

fn key(namespace: &Name, uid: &Uid) -> Key {
    (namespace.clone(), uid.clone())
}

#[derive(Default)]
pub(crate) struct Model {
    quotas: BTreeMap<(Name, Name), Arc<QuotaRecord>>,
    objects: BTreeMap<Key, Observed>,
    pending: BTreeMap<Key, Reservation>,
    /// With what was committed in place of what was reserved.
    committed: BTreeMap<Key, Reservation>,
    /// The objects that bear the names of reservations.
    bearers: BTreeMap<Key, Uid>,
    commit_bearers: BTreeMap<Key, Uid>,
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
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => self.observe(object),
            Event::ObjectRefreshed {
                uid,
                namespace,
                version,
                ends_reservation,
            } => self.see(&key(namespace, uid), *version, *ends_reservation),
            Event::ObjectLapsed {
                uid,
                namespace,
                footprint,
            } => {
                let object = self.objects.get_mut(&key(namespace, uid)).unwrap();
                object.footprint = footprint.clone();
            }
            Event::ObjectDeleted { uid, namespace } => self.take_away(&key(namespace, uid)),
            Event::ObjectCorrected(correction) => self.observe(&correction.object),
            Event::ObjectEnded(ending) => self.take_away(&key(&ending.namespace, &ending.uid)),
            Event::ReservationGranted(reservation) => {
                let key = key(&reservation.namespace, &reservation.uid);
                self.bearers.remove(&key);
                self.pending.insert(key, (**reservation).clone());
            }
            Event::ReservationGrown {
                uid,
                namespace,
                footprint,
                ..
            } => {
                let pending = self.pending.get_mut(&key(namespace, uid)).unwrap();
                pending.footprint = footprint.clone();
            }
            Event::ReservationCommitted {
                uid,
                namespace,
                resources,
            } => {
                let key = key(namespace, uid);
                let mut reservation = self.pending.remove(&key).unwrap();
                reservation.footprint.resources = resources.clone();
                self.commit_bearers.remove(&key);
                if let Some(bearer) = self.bearers.remove(&key) {
                    self.commit_bearers.insert(key.clone(), bearer);
                }
                self.committed.insert(key, reservation);
            }
            Event::ReservationReturned { uid, namespace } => {
                self.committed.remove(&key(namespace, uid)).unwrap();
            }
            Event::ReservationReleased { uid, namespace }
            | Event::ReservationExpired { uid, namespace }
            | Event::ReservationSuperseded { uid, namespace, .. } => {
                self.pending.remove(&key(namespace, uid)).unwrap();
            }
            Event::ChargingChanged { kinds } | Event::WorkloadsCharged { kinds }
                if kinds.is_empty() =>
            {
                for object in self.objects.values_mut() {
                    if let Traits::Template { replica, .. } = &object.footprint.traits {
                        let resources = &object.footprint.resources;
                        object.footprint = Footprint {
                            resources: resources.mask(|name| replica.get(name).is_none()),
                            traits: Traits::Plain,
                            labels: object.footprint.labels.clone(),
                        };
                    }
                }
            }
            Event::NameAwaited {
                uid,
                namespace,
                bearer,
            } => {
                self.bearers.insert(key(namespace, uid), bearer.clone());
            }
            _ => {}
        }
    }

    fn observe(&mut self, object: &Observed) {
        let key = key(&object.namespace, &object.uid);
        self.see(&key, object.version, object.ends_reservation);
        self.objects.insert(key, object.clone());
    }

    fn see(&mut self, key: &Key, version: u64, ends_reservation: bool) {
        if let Some(committed) = self.committed.get(key)
            && (version == 0 || version > committed.after_version)
        {
            self.committed.remove(key);
        }
        if ends_reservation {
            self.pending.remove(key).unwrap();
        }
    }

    fn take_away(&mut self, key: &Key) {
        self.objects.remove(key);
        self.pending.remove(key);
        self.committed.remove(key);
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
                let bearer = self.bearer(reservation);
                let asked = self.growth(quota, reservation, bearer, resource);
                if role(&reservation.footprint, resource) == 0 && asked.is_positive() {
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
        let mut tally = Tally::default();
        for object in self.objects.values() {
            if object.namespace == *namespace && applies(quota, &object.footprint) {
                let footprint = &object.footprint;
                tally.add(footprint, resource, amount(footprint, resource));
            }
        }
        let of_namespace = |r: &&Reservation| r.namespace == *namespace;
        for reservation in self.committed.values().filter(of_namespace) {
            let key = key(&reservation.namespace, &reservation.uid);
            let bearer = self.commit_bearers.get(&key);
            let growth = self.growth(quota, reservation, bearer, resource);
            tally.add(&reservation.footprint, resource, growth);
        }
        let used = tally.total();
        for reservation in self.pending.values().filter(of_namespace) {
            let bearer = self.bearer(reservation);
            let growth = self.growth(quota, reservation, bearer, resource);
            tally.add(&reservation.footprint, resource, growth);
        }
        let mut reserved = tally.total();
        reserved.sub_assign(&used);
        (used, reserved)
    }

    /// What counts against each limit.
    pub(crate) fn all_counted(&self) -> BTreeMap<(Name, Name, Name), (Quantity, Quantity)> {
        let mut all = BTreeMap::new();
        for ((namespace, name), quota) in &self.quotas {
            for (resource, hard) in quota.spec.hard.iter() {
                let (mut counted, reserved) = self.count(namespace, name, resource);
                counted.add_assign(&reserved);
                let key = (namespace.clone(), name.clone(), resource.clone());
                all.insert(key, (counted, hard.clone()));
            }
        }
        all
    }

    fn bearer(&self, reservation: &Reservation) -> Option<&Uid> {
        let key = key(&reservation.namespace, &reservation.uid);
        self.bearers.get(&key)
    }

    /// What is taken beside the object, or else beside the one that bears the name.
    fn growth(
        &self,
        quota: &QuotaRecord,
        reservation: &Reservation,
        bearer: Option<&Uid>,
        resource: &str,
    ) -> Quantity {
        if !applies(quota, &reservation.footprint) {
            return Quantity::ZERO;
        }
        let wanted = amount(&reservation.footprint, resource);
        let own = self
            .objects
            .get(&key(&reservation.namespace, &reservation.uid));
        let beside = own.or_else(|| {
            let bearer = bearer?;
            self.objects.get(&key(&reservation.namespace, bearer))
        });
        let is_alike = |object: &&Observed| {
            applies(quota, &object.footprint)
                && role(&object.footprint, resource) == role(&reservation.footprint, resource)
        };
        match beside.filter(is_alike) {
            Some(object) => wanted.subtract_non_negative(&amount(&object.footprint, resource)),
            None => wanted,
        }
    }
}

/// How an amount counts: 0 plain, 1 a workload's for its pods, 2 a pod's that names such a workload.
fn role(footprint: &Footprint, resource: &str) -> usize {
    match &footprint.traits {
        Traits::Template { replica, .. } => usize::from(replica.get(resource).is_some()),
        Traits::Replica(_) if resource != "count/pods" => 2,
        _ => 0,
    }
}

#[derive(Default)]
struct Tally([Quantity; 3]);

impl Tally {
    fn add(&mut self, footprint: &Footprint, resource: &str, amount: Quantity) {
        self.0[role(footprint, resource)].add_assign(&amount);
    }

    fn total(&self) -> Quantity {
        let [plain, charged, claimed] = &self.0;
        let mut total = plain.clone();
        total.add_assign(charged.max(claimed));
        total
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
            (
                "Terminating",
                Traits::Pod(pod) | Traits::Replica(pod) | Traits::Template { pod, .. },
            ) => pod.terminating,
            (
                "NotBestEffort",
                Traits::Pod(pod) | Traits::Replica(pod) | Traits::Template { pod, .. },
            ) => !pod.best_effort,
            _ => false,
        })
}
