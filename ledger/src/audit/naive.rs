//! The naive fold: lists of what is there, recounted whenever a number is wanted.
//!
//! Deliberately simple and slow, and without a line in common with the state: no sums that are kept, no tables, no
//! indexes. If both agree, the kept sums are right.

mod relists;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    Name,
    event::{Cursor, Entry, Event, Observed, QuotaRecord, Reservation, Sequence},
    object::Footprint,
    quantity::Quantity,
    quota::scopes,
    resource::ResourceList,
    state::State,
    uid::Uid,
};

/// Differences that are told; there may be more.
const TOLD: usize = 20;

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
    sources: BTreeMap<Name, Cursor>,
    relists: relists::Relists,
}

impl Naive {
    /// Begins with what a state holds, where the entries before it are gone.
    #[must_use]
    pub fn beginning_with(state: &State) -> Self {
        let mut naive = Self {
            last: state.head().sequence,
            sources: state.sources().clone(),
            relists: relists::Relists::beginning_with(state),
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
            Event::ObjectObserved(object) => {
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
            Event::RelistBegan(_)
            | Event::ObjectsListed { .. }
            | Event::RelistClosed(_)
            | Event::RelistEnded(_)
            | Event::MessageRejected(_) => {}
        }
        self.relists.apply(entry, &self.objects);
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
        let observed = self.objects.get(uid);
        let observed = observed.filter(|object| object.namespace == reservation.namespace);
        let own = Count {
            objects: Vec::new(),
            pending: vec![(
                &reservation.footprint,
                observed.map(|object| &object.footprint),
            )],
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

    /// Where a state is not what the entries amount to, in words; at most 20 of them. Empty: nowhere.
    #[must_use]
    pub fn differences(&self, state: &State) -> Vec<String> {
        let mut told = Told(Vec::new());
        told.unless(state.head().sequence == self.last, || {
            format!("it is at {}, not {}", state.head().sequence, self.last)
        });
        told.unless(*state.sources() == self.sources, || {
            "the cursors of the sources".to_owned()
        });
        for difference in self.relists.differences(state) {
            told.unless(false, || difference);
        }
        self.compare_objects(state, &mut told);
        self.compare_pending(state, &mut told);
        let counts = self.counts();
        for (key, count) in &counts {
            compare_namespace(key, count, state, &mut told);
        }
        self.compare_quotas(state, &counts, &mut told);
        told.0
    }

    fn compare_objects(&self, state: &State, told: &mut Told) {
        told.unless(state.object_count() as usize == self.objects.len(), || {
            format!(
                "{} objects, not {}",
                state.object_count(),
                self.objects.len()
            )
        });
        for (uid, object) in &self.objects {
            let same = state.object(uid).is_some_and(|view| {
                view.namespace == object.namespace
                    && view.resource == object.resource
                    && view.name == object.name
                    && view.version == object.version
                    && view.lapse == object.lapse
                    && *view.footprint == object.footprint
            });
            told.unless(same, || format!("object {uid}"));
        }
    }

    fn compare_pending(&self, state: &State, told: &mut Told) {
        told.unless(state.pending_count() == self.pending.len(), || {
            format!(
                "{} pending reservations, not {}",
                state.pending_count(),
                self.pending.len()
            )
        });
        for (uid, reservation) in &self.pending {
            let same = state
                .reservation(uid)
                .is_some_and(|view| view.end.is_none() && *view.reservation == *reservation);
            told.unless(same, || format!("reservation {uid}"));
        }
    }

    fn compare_quotas(&self, state: &State, counts: &Counts<'_>, told: &mut Told) {
        let kept: usize = state
            .namespaces("")
            .map(|name| state.quotas(name).len())
            .sum();
        told.unless(kept == self.quotas.len(), || {
            format!("{kept} quotas, not {}", self.quotas.len())
        });
        let nothing = Count::default();
        for ((namespace, name), record) in &self.quotas {
            let view = state.quota(namespace, name);
            let Some(view) = view.filter(|view| view.record == *record) else {
                told.unless(false, || format!("quota {namespace}/{name}"));
                continue;
            };
            let count = counts.get(namespace).unwrap_or(&nothing);
            for figure in view.figures {
                let resource = &figure.resource;
                let used = count.used(resource, |footprint| counted(record, footprint));
                let reserved = count.reserved(resource, |footprint| counted(record, footprint));
                told.number(
                    (namespace, Some(name), resource),
                    "used",
                    figure.used.as_ref(),
                    &used,
                );
                told.number(
                    (namespace, Some(name), resource),
                    "reserved",
                    Some(&figure.reserved),
                    &reserved,
                );
            }
        }
    }

    /// What counts in each namespace.
    fn counts(&self) -> Counts<'_> {
        let mut counts = Counts::new();
        for object in self.objects.values() {
            let count = counts.entry(&object.namespace).or_default();
            count.objects.push(&object.footprint);
        }
        for reservation in self.pending.values() {
            let object = self.objects.get(&reservation.uid);
            let observed = object.filter(|object| object.namespace == reservation.namespace);
            let observed = observed.map(|object| &object.footprint);
            let count = counts.entry(&reservation.namespace).or_default();
            count.pending.push((&reservation.footprint, observed));
        }
        counts
    }
}

type Counts<'a> = BTreeMap<&'a Name, Count<'a>>;

/// The footprints of a namespace: of its objects; of its reservations, with those of their objects.
#[derive(Default)]
struct Count<'a> {
    objects: Vec<&'a Footprint>,
    pending: Vec<(&'a Footprint, Option<&'a Footprint>)>,
}

impl Count<'_> {
    fn used(&self, resource: &str, counts: impl Fn(&Footprint) -> bool) -> Quantity {
        let mut sum = Quantity::ZERO;
        for footprint in self.objects.iter().filter(|footprint| counts(footprint)) {
            sum.add_assign(&amount(footprint, resource));
        }
        sum
    }

    /// A reservation holds what its object does not count for yet.
    fn reserved(&self, resource: &str, counts: impl Fn(&Footprint) -> bool) -> Quantity {
        let mut sum = Quantity::ZERO;
        for (wanted, observed) in self.pending.iter().filter(|(wanted, _)| counts(wanted)) {
            let wanted = amount(wanted, resource);
            let held = match observed.filter(|observed| counts(observed)) {
                Some(observed) => wanted.subtract_non_negative(&amount(observed, resource)),
                None => wanted,
            };
            sum.add_assign(&held);
        }
        sum
    }

    fn names(&self) -> std::collections::BTreeSet<&Name> {
        let pending = self.pending.iter().map(|(wanted, _)| *wanted);
        let all = self.objects.iter().copied().chain(pending);
        all.flat_map(|footprint| footprint.resources.names())
            .collect()
    }
}

fn amount(footprint: &Footprint, resource: &str) -> Quantity {
    footprint
        .resources
        .get(resource)
        .cloned()
        .unwrap_or_default()
}

fn counted(quota: &QuotaRecord, footprint: &Footprint) -> bool {
    scopes::matches(&quota.spec, &footprint.traits).unwrap_or(false)
}

/// The sums that are kept whatever the quotas.
fn compare_namespace(namespace: &Name, count: &Count<'_>, state: &State, told: &mut Told) {
    let totals = state.totals(namespace);
    let kept = totals.used.names().chain(totals.reserved.names());
    let mut names = count.names();
    names.extend(kept);
    for resource in names {
        let place = (namespace, None, resource);
        told.number(
            place,
            "used",
            totals.used.get(resource),
            &count.used(resource, |_| true),
        );
        let reserved = count.reserved(resource, |_| true);
        told.number(place, "reserved", totals.reserved.get(resource), &reserved);
    }
}

/// Differences found so far.
struct Told(Vec<String>);

impl Told {
    fn unless(&mut self, same: bool, what: impl FnOnce() -> String) {
        if !same && self.0.len() < TOLD {
            self.0.push(what());
        }
    }

    fn number(
        &mut self,
        (namespace, quota, resource): (&Name, Option<&Name>, &Name),
        which: &str,
        kept: Option<&Quantity>,
        counted: &Quantity,
    ) {
        let kept = kept.unwrap_or(&Quantity::ZERO);
        self.unless(kept == counted, || {
            let quota = quota.map(|quota| format!("/{quota}")).unwrap_or_default();
            format!("{which} {resource} of {namespace}{quota} is {kept}, but counts {counted}")
        });
    }
}
