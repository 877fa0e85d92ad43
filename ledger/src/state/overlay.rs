//! Quotas as a decision sees them: with the sums of the state, and with what the decision itself changes.

use crate::planted::{self, Bug};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{
    State,
    namespaces::{Namespace, QuotaState, Sums},
};
use crate::{
    Name, admission::Limit, event::Reservation, quantity::Quantity, quota::spec::Spec,
    resource::ResourceList, uid::Uid,
};

/// A quota of the state, as the rules of admission see it: what counts against the limit is used + reserved.
pub(crate) struct Counted<'a> {
    pub(crate) namespace: &'a Namespace,
    pub(crate) quota: &'a QuotaState,
    /// What the decision itself changes.
    overlay: Option<&'a Sums>,
}

impl Counted<'_> {
    pub(crate) fn reserved(&self, resource: &str) -> Quantity {
        let sums = self.namespace.sums_of(self.quota);
        let mut reserved = sums.reserved.get(resource).cloned().unwrap_or_default();
        if let Some(more) = self
            .overlay
            .and_then(|overlay| overlay.reserved.get(resource))
        {
            reserved.add_assign(more);
        }
        reserved
    }

    pub(crate) fn used(&self, resource: &str) -> Quantity {
        let used = self.namespace.sums_of(self.quota).used.get(resource);
        used.cloned().unwrap_or_default()
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
        &self.quota.record.spec.hard
    }
    fn counted(&self, resource: &str) -> Option<Quantity> {
        let mut counted = self.used(resource);
        if !planted::is(Bug::ReservedIgnored) {
            counted.add_assign(&self.reserved(resource));
        }
        Some(counted)
    }
}

/// What a decision under way changes in the sums of quotas, before it is an entry.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    sums: BTreeMap<Name, BTreeMap<Name, Sums>>,
    /// Pending reservations of the state that have ended, or have taken another form.
    ended: BTreeSet<Uid>,
    granted: BTreeMap<Uid, Arc<Reservation>>,
}

impl Overlay {
    fn of(&self, namespace: &Namespace, quota: &QuotaState) -> Option<&Sums> {
        self.sums.get(&namespace.name)?.get(&quota.record.name)
    }

    fn change(
        &mut self,
        namespace: &Namespace,
        quota: &QuotaState,
        change: impl FnOnce(&mut ResourceList),
    ) {
        let quotas = self.sums.entry(namespace.name.clone()).or_default();
        change(
            &mut quotas
                .entry(quota.record.name.clone())
                .or_default()
                .reserved,
        );
    }

    /// As if a pending reservation had ended.
    pub(crate) fn end(&mut self, state: &State, uid: &Uid) {
        let reservation = match self.granted.remove(uid) {
            Some(granted) => granted,
            None => match state.reservations.find_pending(uid) {
                Some((_, tracked)) if self.ended.insert(uid.clone()) => tracked.reservation.clone(),
                _ => return,
            },
        };
        let Some(namespace) = state.namespaces.find(&reservation.namespace) else {
            return;
        };
        let observed = state.observed_footprint(&reservation);
        for quota in namespace.quotas.values() {
            if let Some(amounts) = quota.hold(&reservation.footprint, observed) {
                self.change(namespace, quota, |reserved| reserved.subtract(&amounts));
            }
        }
    }

    /// The pending reservation for an object of this name.
    pub(crate) fn pending_for(
        &self,
        state: &State,
        namespace: &Name,
        resource: &Name,
        name: &str,
    ) -> Option<Uid> {
        let is_for = |granted: &&Arc<Reservation>| {
            granted.namespace == *namespace
                && granted.resource == *resource
                && *granted.name == *name
        };
        if let Some(granted) = self.granted.values().find(is_for) {
            return Some(granted.uid.clone());
        }
        let pending = state.pending_for(namespace, resource, name)?;
        let uid = pending.reservation.uid.clone();
        (!self.ended.contains(&uid)).then_some(uid)
    }

    /// How many more reservations are pending, in all and in a namespace, than in the state.
    pub(crate) fn more_pending(&self, state: &State, namespace: &str) -> [isize; 2] {
        let mut more = [0, 0];
        let mut count = |reservation: &Reservation, one: isize| {
            more[0] += one;
            more[1] += isize::from(reservation.namespace == *namespace) * one;
        };
        for granted in self.granted.values() {
            count(granted, 1);
        }
        for uid in &self.ended {
            if let Some((_, tracked)) = state.reservations.find_pending(uid) {
                count(&tracked.reservation, -1);
            }
        }
        more
    }

    /// As if a reservation had been granted.
    pub(crate) fn grant(&mut self, state: &State, reservation: &Arc<Reservation>) {
        self.granted
            .insert(reservation.uid.clone(), reservation.clone());
        let Some(namespace) = state.namespaces.find(&reservation.namespace) else {
            return;
        };
        let observed = state.observed_footprint(reservation);
        for quota in namespace.quotas.values() {
            if let Some(amounts) = quota.hold(&reservation.footprint, observed) {
                self.change(namespace, quota, |reserved| reserved.add(&amounts));
            }
        }
    }
}

impl State {
    /// The quotas of a namespace as a decision sees them.
    pub(crate) fn counted<'a>(&'a self, namespace: &str, overlay: &'a Overlay) -> Vec<Counted<'a>> {
        let Some(namespace) = self.namespaces.find(namespace) else {
            return Vec::new();
        };
        let of = |quota| Counted {
            namespace,
            quota,
            overlay: overlay.of(namespace, quota),
        };
        namespace.quotas.values().map(of).collect()
    }
}
