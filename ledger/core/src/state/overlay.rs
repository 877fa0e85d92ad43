//! Quotas as a decision sees them: with the sums of the state, and with what the decision itself changes.

use planted::Bug;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use hashbrown::HashMap;

use super::{
    State,
    namespaces::{Change, Namespace, QuotaState, Sums},
};
use crate::event::{Event, Reservation};
use quota_semantics::{
    Name, admission::Limit, quantity::Quantity, quota::spec::Spec, resource::ResourceList, uid::Uid,
};

/// A quota of the state, as the rules of admission see it: what counts against the limit is used + reserved.
pub(crate) struct Counted<'a> {
    pub(crate) quota: &'a QuotaState,
    /// What counts against it.
    sums: &'a Sums,
    /// What the decision itself changes.
    overlay: Option<&'a ResourceList>,
    /// As if nothing were reserved.
    used_only: bool,
}

impl Counted<'_> {
    /// As if all pending reservations had ended.
    pub(crate) const fn without_reservations(self) -> Self {
        Self {
            used_only: true,
            ..self
        }
    }

    pub(crate) fn reserved(&self, resource: &str) -> Quantity {
        let mut holds = self.holds(resource);
        // Not from zero: what is alone keeps its spelling.
        let mut reserved = holds.next().cloned().unwrap_or_default();
        holds.for_each(|more| reserved.add_assign(more));
        reserved
    }

    /// What is reserved, in the state and by the decision itself.
    fn holds(&self, resource: &str) -> impl Iterator<Item = &Quantity> {
        let own = self.overlay.and_then(|overlay| overlay.get(resource));
        let holds = self.sums.reserved.get(resource).into_iter().chain(own);
        holds.filter(|_| !self.used_only)
    }

    pub(crate) fn used(&self, resource: &str) -> Quantity {
        self.sums.used.get(resource).cloned().unwrap_or_default()
    }
}

impl Limit for Counted<'_> {
    fn name(&self) -> &Name {
        &self.quota.record.name
    }
    fn spec(&self) -> &Spec {
        &self.quota.record.spec
    }
    fn hard(&self) -> &ResourceList {
        self.quota.hard()
    }
    fn is_counted(&self, _: &str) -> bool {
        true
    }
    fn counted(&self, resource: &str) -> Option<Quantity> {
        let mut counted = self.used(resource);
        if !planted::is(Bug::ReservedIgnored) {
            self.holds(resource)
                .for_each(|more| counted.add_assign(more));
        }
        Some(counted)
    }
}

/// What a decision under way changes in the state, before it is an entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    namespaces: BTreeMap<Name, Changed>,
    /// Pending reservations of the state that have ended, or have taken another form.
    ended: BTreeSet<(Name, Uid)>,
    granted: HashMap<(Name, Uid), Arc<Reservation>>,
    /// The newest granted by namespace, resource and name.
    newest: HashMap<(Name, Name, Box<str>), Uid>,
    /// How many more reservations are pending than in the state.
    pending: isize,
}

/// What changes in a namespace.
#[derive(Clone, Debug, Default)]
struct Changed {
    /// How many more reservations are pending.
    pending: isize,
    /// What is reserved more, by quota, sorted by name.
    reserved: Vec<(Name, ResourceList)>,
}

impl Changed {
    fn place(&self, quota: &Name) -> Result<usize, usize> {
        self.reserved
            .binary_search_by(|(other, _)| other.cmp(quota))
    }

    fn reserved(&self, quota: &Name) -> Option<&ResourceList> {
        let place = self.place(quota).ok()?;
        Some(&self.reserved[place].1)
    }

    fn reserved_mut(&mut self, quota: &Name) -> &mut ResourceList {
        let place = self.place(quota).unwrap_or_else(|place| {
            let none = (quota.clone(), ResourceList::new());
            self.reserved.insert(place, none);
            place
        });
        &mut self.reserved[place].1
    }
}

impl Overlay {
    fn of(&self, namespace: &Namespace, quota: &QuotaState) -> Option<&ResourceList> {
        if self.namespaces.is_empty() {
            return None;
        }
        let changed = self.namespaces.get(&namespace.name)?;
        changed.reserved(&quota.record.name)
    }

    /// As if a reservation had been granted, or had ended.
    fn change(&mut self, state: &State, reservation: &Reservation, change: Change) {
        let one = match change {
            Change::Add => 1,
            Change::Remove => -1,
        };
        let name = reservation.namespace.clone();
        let changed = self.namespaces.entry(name).or_default();
        self.pending += one;
        changed.pending += one;
        let Some(namespace) = state.namespaces.find(&reservation.namespace) else {
            return;
        };
        let observed = state.observed_footprint(reservation);
        for quota in namespace.quotas.values() {
            let Some(amounts) = quota.hold(&reservation.footprint, observed) else {
                continue;
            };
            let reserved = changed.reserved_mut(&quota.record.name);
            match change {
                Change::Add => reserved.add(&amounts),
                Change::Remove => reserved.subtract(&amounts),
            }
        }
    }

    /// As if a pending reservation had ended.
    pub(crate) fn end(&mut self, state: &State, namespace: &Name, uid: &Uid) {
        let key = (namespace.clone(), uid.clone());
        let reservation = match self.granted.remove(&key) {
            Some(granted) => granted,
            None => match state.pending_of(namespace, uid) {
                Some(pending) if self.ended.insert(key) => pending.reservation.clone(),
                _ => return,
            },
        };
        self.change(state, &reservation, Change::Remove);
    }

    /// The pending reservations for objects of this name, by uid, with their owners; none: it is granted by the decision
    /// itself.
    pub(crate) fn pending_for<'s>(
        &self,
        state: &'s State,
        namespace: &'s Name,
        resource: &'s Name,
        name: &'s str,
    ) -> BTreeMap<Uid, Option<&'s Name>> {
        let of_state = state.named(namespace, resource, name).map(|tracked| {
            let uid = tracked.reservation.uid.clone();
            (uid, Some(&tracked.owner))
        });
        let is_there = |uid: &Uid| !self.ended.contains(&(namespace.clone(), uid.clone()));
        let mut all: BTreeMap<_, _> = of_state.filter(|(uid, _)| is_there(uid)).collect();
        if !self.granted.is_empty() {
            let target = (namespace.clone(), resource.clone(), name.into());
            let newest = self.newest.get(&target).cloned();
            let is_granted = |uid: &Uid| {
                let key = (namespace.clone(), uid.clone());
                self.granted.contains_key(&key)
            };
            all.extend(newest.filter(is_granted).map(|uid| (uid, None)));
        }
        all
    }

    /// How many more reservations are pending, in all and in a namespace, than in the state.
    pub(crate) fn more_pending(&self, namespace: &str) -> [isize; 2] {
        let here = self.namespaces.get(namespace);
        [self.pending, here.map_or(0, |changed| changed.pending)]
    }

    /// As if this had happened already.
    pub(crate) fn follow(&mut self, state: &State, event: &Event) {
        match event {
            Event::ReservationGranted(reservation) => self.grant(state, reservation.clone()),
            Event::ReservationSuperseded { uid, namespace, .. } => {
                self.end(state, namespace, uid);
            }
            Event::ReservationGrown {
                uid,
                namespace,
                footprint,
                ..
            } => {
                let Some(pending) = state.pending_of(namespace, uid) else {
                    return;
                };
                self.end(state, namespace, uid);
                let grown = Reservation {
                    footprint: footprint.clone(),
                    ..(*pending.reservation).clone()
                };
                self.grant(state, Arc::new(grown));
            }
            _ => {}
        }
    }

    fn grant(&mut self, state: &State, reservation: Arc<Reservation>) {
        self.change(state, &reservation, Change::Add);
        let Reservation {
            uid,
            namespace,
            resource,
            name,
            ..
        } = &*reservation;
        let target = (namespace.clone(), resource.clone(), name.clone());
        self.newest.insert(target, uid.clone());
        let key = (namespace.clone(), uid.clone());
        self.granted.insert(key, reservation);
    }
}

impl State {
    /// The quotas of a namespace as a decision sees them.
    pub(crate) fn counted<'a>(&'a self, namespace: &str, overlay: &'a Overlay) -> Vec<Counted<'a>> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let of = |quota| Counted {
            quota,
            sums: namespace.sums_of(quota),
            overlay: overlay.of(namespace, quota),
            used_only: false,
        };
        namespace.quotas.values().map(of).collect()
    }
}
