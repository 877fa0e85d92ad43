//! The naive fold: plain lists of objects and reservations, summed again for every question.
//!
//! Deliberately simple and slow, and without a line in common with the state: no stored sums, no hash tables, no
//! indexes. If both agree, the stored sums are right.

mod compare;
mod count;
mod groups;
mod objects;
mod progress;
mod relists;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::{
    event::{Cursor, Entry, Event, NamespaceRecord, Observed, QuotaRecord, Reservation, Sequence},
    state::State,
};
use count::{Count, counted};
use quota_semantics::{Name, Timestamp, quantity::Quantity, uid::Uid};

/// A limit of a quota, and the amounts that count against it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counted {
    /// The amount of observed and committed objects.
    pub used: Quantity,
    /// The amount that pending reservations hold beyond `used`.
    pub reserved: Quantity,
    /// The limit.
    pub hard: Quantity,
}

impl Counted {
    /// The sum of used and reserved.
    #[must_use]
    pub fn sum(&self) -> Quantity {
        let mut sum = self.used.clone();
        sum.add_assign(&self.reserved);
        sum
    }

    /// Whether the sum exceeds the limit.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.sum() > self.hard
    }
}

/// The amount that a reservation holds of a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The quota's name.
    pub quota: Name,
    /// The limited resource.
    pub resource: Name,
    /// The amount that the reservation holds, beyond the amount that its object counts for.
    pub held: Quantity,
    /// The total that counts against the limit.
    pub counted: Counted,
}

/// The identity of an object and of its reservation.
pub(super) type Key = (Name, Uid);

fn key(namespace: &Name, uid: &Uid) -> Key {
    (namespace.clone(), uid.clone())
}

/// The amounts that a holder claimed for an object, and the owner of the claim.
#[derive(Clone, Debug)]
struct Claim {
    reservation: Reservation,
    owner: Name,
}

/// The result of all entries up to a sequence, as lists.
#[derive(Clone, Debug, Default)]
pub struct Naive {
    last: Sequence,
    quotas: BTreeMap<(Name, Name), Arc<QuotaRecord>>,
    objects: objects::Objects,
    pending: BTreeMap<Key, Claim>,
    /// Commits. A commit replaces the amounts of its reservation.
    committed: BTreeMap<Key, Claim>,
    /// The objects that bear the names of pending reservations, and those that bear the names of commits.
    bearers: BTreeMap<Key, Uid>,
    commit_bearers: BTreeMap<Key, Uid>,
    sources: BTreeMap<Name, Cursor>,
    relists: relists::Relists,
    progress: progress::Progress,
    namespaces: BTreeMap<Name, Arc<NamespaceRecord>>,
    groups: groups::Groups,
    time: Timestamp,
}

impl Naive {
    /// Starts from a state, if the entries before it have been removed.
    #[must_use]
    pub fn beginning_with(state: &State) -> Self {
        let mut naive = Self {
            last: state.head().sequence,
            sources: state.sources().clone(),
            relists: relists::Relists::beginning_with(state),
            groups: groups::Groups::beginning_with(state),
            time: state.head().time,
            progress: progress::Progress::beginning_with(state, state.progress_sources()),
            ..Self::default()
        };
        for observed in state.observed_namespaces("") {
            let name = observed.record.name.clone();
            naive.namespaces.insert(name, observed.record.clone());
        }
        for namespace in state.namespaces("") {
            for quota in state.quotas(namespace) {
                let key = (namespace.clone(), quota.record.name.clone());
                naive.quotas.insert(key, quota.record);
            }
            for view in state.objects(namespace, None, usize::MAX, |_, _| true) {
                let object = Observed {
                    uid: view.uid,
                    namespace: view.namespace,
                    resource: view.resource,
                    name: view.name,
                    version: view.version,
                    footprint: (*view.footprint).clone(),
                    lapse: view.lapse,
                    ends_reservation: false,
                };
                let key = key(namespace, &object.uid);
                naive.objects.insert(&key, object);
            }
            let claims = state.pending(namespace).into_iter().chain(state.committed_in(namespace));
            for view in claims {
                let mut reservation = (*view.reservation).clone();
                let claims = match view.committed {
                    Some(committed) => {
                        reservation.footprint = committed;
                        &mut naive.committed
                    }
                    None => &mut naive.pending,
                };
                let key = key(namespace, &reservation.uid);
                let bearers = match view.end {
                    None => &mut naive.bearers,
                    Some(_) => &mut naive.commit_bearers,
                };
                if let Some(bearer) = view.bearer {
                    bearers.insert(key.clone(), bearer);
                }
                let owner = view.owner;
                claims.insert(key, Claim { reservation, owner });
            }
        }
        naive
    }

    /// Applies the next entry. If the subject of the entry is missing, as after damage, nothing changes.
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
            Event::ObjectObserved(object) | Event::ObjectReplaced(object) => self.observe(object),
            Event::ObjectRefreshed { uid, namespace, version, ends_reservation } => {
                let key = key(namespace, uid);
                if let Some(object) = self.objects.get_mut(&key) {
                    object.version = *version;
                    self.see(&key, *version, *ends_reservation);
                }
            }
            Event::ObjectLapsed { uid, namespace, footprint } => {
                if let Some(object) = self.objects.get_mut(&key(namespace, uid)) {
                    object.footprint = (**footprint).clone();
                    object.lapse = None;
                }
            }
            Event::ObjectDeleted { uid, namespace } => self.take_away(&key(namespace, uid)),
            Event::ReservationGranted(reservation) => {
                let key = key(&reservation.namespace, &reservation.uid);
                let claim = Claim {
                    reservation: (**reservation).clone(),
                    owner: entry.actor.principal.clone(),
                };
                self.bearers.remove(&key);
                self.pending.insert(key, claim);
            }
            Event::ReservationGrown { uid, namespace, footprint, expiration } => {
                if let Some(claim) = self.pending.get_mut(&key(namespace, uid)) {
                    claim.reservation.grow(footprint.clone(), *expiration);
                }
            }
            Event::ReservationExtended { uid, namespace, expiration } => {
                if let Some(claim) = self.pending.get_mut(&key(namespace, uid)) {
                    claim.reservation.expiration = *expiration;
                }
            }
            Event::ReservationCommitted { uid, namespace, resources } => {
                let key = key(namespace, uid);
                if let Some(mut claim) = self.pending.remove(&key) {
                    Arc::make_mut(&mut claim.reservation.footprint).resources = resources.clone();
                    self.commit_bearers.remove(&key);
                    if let Some(bearer) = self.bearers.remove(&key) {
                        self.commit_bearers.insert(key.clone(), bearer);
                    }
                    self.committed.insert(key, claim);
                }
            }
            Event::ReservationReturned { uid, namespace } => {
                self.committed.remove(&key(namespace, uid));
            }
            Event::ReservationReleased { uid, namespace }
            | Event::ReservationExpired { uid, namespace }
            | Event::ReservationSuperseded { uid, namespace, .. } => {
                self.pending.remove(&key(namespace, uid));
            }
            Event::NameAwaited { uid, namespace, bearer } => {
                let key = key(namespace, uid);
                if self.pending.contains_key(&key) {
                    self.bearers.insert(key, bearer.clone());
                }
            }
            Event::VersionAwaited { uid, namespace, after_version } => {
                if let Some(claim) = self.pending.get_mut(&key(namespace, uid)) {
                    claim.reservation.after_version = *after_version;
                }
            }
            Event::SourceAdvanced { source, cursor } => {
                self.sources.insert(source.clone(), cursor.clone());
            }
            Event::SourceReset { source, incarnation } => {
                let cursor = Cursor { incarnation: incarnation.clone(), ..Cursor::default() };
                self.sources.insert(source.clone(), cursor);
            }
            Event::SourceGapped { source, last, .. } => {
                self.sources.entry(source.clone()).or_default().position = *last;
            }
            Event::ObjectCorrected(correction) => self.observe(&correction.object),
            Event::ObjectEnded(ending) => self.take_away(&key(&ending.namespace, &ending.uid)),
            Event::WorkloadsCharged { kinds } => {
                for object in self.objects.values_mut() {
                    if let Some(itself) = object.footprint.itself()
                        && !kinds.contains(&object.resource)
                    {
                        object.footprint = itself;
                    }
                }
            }
            Event::NamespaceObserved(record) => {
                self.namespaces.insert(record.name.clone(), record.clone());
            }
            Event::NamespaceDeleted { name, uid, .. } => {
                self.namespaces.retain(|other, existing| other != name || existing.uid != *uid);
            }
            Event::LeaderChanged { .. }
            | Event::ObjectLabelsChanged { .. }
            | Event::GroupSet(_)
            | Event::GroupDeleted { .. }
            | Event::OverrideEnded { .. }
            | Event::RelistBegan(_)
            | Event::ObjectsListed { .. }
            | Event::RelistClosed(_)
            | Event::RelistEnded(_)
            | Event::WatermarksAdvanced(_)
            | Event::ResourceListed { .. }
            | Event::VersionsReset(_)
            | Event::EndedBounded { .. }
            | Event::EventRejected { .. }
            | Event::MessageRejected(_) => {}
        }
        self.time = self.time.max(entry.time);
        self.groups.apply(entry, self.time);
        let groups = self.groups.records();
        self.relists.apply(entry, &self.objects, &self.namespaces, groups);
        self.progress.apply(entry);
    }

    fn observe(&mut self, object: &Observed) {
        let key = key(&object.namespace, &object.uid);
        self.see(&key, object.version, object.ends_reservation);
        self.objects.insert(&key, object.clone());
    }

    /// Ends the commit of an object that was observed, unless the commit waits for a later version.
    fn see(&mut self, key: &Key, version: u64, ends_reservation: bool) {
        if let Some(claim) = self.committed.get(key)
            && (version == 0 || version > claim.reservation.after_version)
        {
            self.committed.remove(key);
        }
        if ends_reservation {
            self.pending.remove(key);
        }
    }

    fn take_away(&mut self, key: &Key) {
        self.objects.remove(key);
        self.pending.remove(key);
        self.committed.remove(key);
    }

    /// The amounts that count against each limit of each quota, by namespace, quota and resource.
    #[must_use]
    pub fn counted(&self) -> BTreeMap<(Name, Name, Name), Counted> {
        let counts = self.counts();
        let nothing = Count::default();
        let mut all = BTreeMap::new();
        for ((namespace, name), record) in &self.quotas {
            let count = counts.get(namespace).unwrap_or(&nothing);
            let count = count.of(|footprint| counted(record, footprint));
            for (resource, hard) in record.spec.hard.iter() {
                let key = (namespace.clone(), name.clone(), resource.clone());
                let counted = Counted {
                    used: count.used(resource),
                    reserved: count.reserved(resource),
                    hard: hard.clone(),
                };
                all.insert(key, counted);
            }
        }
        all
    }

    /// The amounts that a pending reservation holds of each limit that applies to it, by quota and resource. Limits of
    /// which it holds nothing are left out.
    #[must_use]
    pub fn held(&self, namespace: &Name, uid: &Uid) -> Vec<Held> {
        let key = key(namespace, uid);
        let Some(Claim { reservation, .. }) = self.pending.get(&key) else {
            return Vec::new();
        };
        let own = Count {
            pending: vec![(&reservation.footprint, self.beside(&key, &self.bearers))],
            ..Count::default()
        };
        let of_namespace = self.counted().into_iter();
        let of_namespace =
            of_namespace.filter(|((quota_namespace, ..), _)| quota_namespace == namespace);
        let held = of_namespace.map(|((_, quota, resource), counted_in_all)| {
            let record = &self.quotas[&(namespace.clone(), quota.clone())];
            let own = own.of(|footprint| counted(record, footprint));
            Held { held: own.reserved(&resource), counted: counted_in_all, quota, resource }
        });
        held.filter(|held| held.held.is_positive()).collect()
    }
}
