//! What counts in a namespace, summed anew whenever it is asked for.

use std::collections::{BTreeMap, BTreeSet};

use super::Naive;
use crate::event::{QuotaRecord, Reservation};
use quota_semantics::{Name, object::Footprint, quantity::Quantity, quota::scopes, uid::Uid};

pub(super) type Counts<'a> = BTreeMap<&'a Name, Count<'a>>;

impl Naive {
    /// What counts in each namespace.
    pub(super) fn counts(&self) -> Counts<'_> {
        let mut counts = Counts::new();
        for object in self.objects.values() {
            let count = counts.entry(&object.namespace).or_default();
            count.objects.push(&object.footprint);
        }
        for reservation in self.pending.values() {
            let observed = self.beside(reservation);
            let count = counts.entry(&reservation.namespace).or_default();
            count.pending.push((&reservation.footprint, observed));
        }
        counts
    }

    /// What a reservation does not hold, since it counts already: its object, or that which bears its name.
    pub(super) fn beside(&self, reservation: &Reservation) -> Option<&Footprint> {
        let here = |uid: &Uid| {
            let object = self.objects.get(uid)?;
            (object.namespace == reservation.namespace).then_some(&object.footprint)
        };
        here(&reservation.uid).or_else(|| here(self.bearers.get(&reservation.uid)?))
    }
}

/// The footprints of a namespace: of its objects; of its reservations, with those of their objects.
#[derive(Default)]
pub(super) struct Count<'a> {
    pub(super) objects: Vec<&'a Footprint>,
    pub(super) pending: Vec<(&'a Footprint, Option<&'a Footprint>)>,
}

impl Count<'_> {
    pub(super) fn used(&self, resource: &str, counts: impl Fn(&Footprint) -> bool) -> Quantity {
        let mut sum = Quantity::ZERO;
        for footprint in self.objects.iter().filter(|footprint| counts(footprint)) {
            sum.add_assign(&amount(footprint, resource));
        }
        sum
    }

    /// A reservation holds what its object does not count for yet.
    pub(super) fn reserved(&self, resource: &str, counts: impl Fn(&Footprint) -> bool) -> Quantity {
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

    pub(super) fn names(&self) -> BTreeSet<&Name> {
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

pub(super) fn counted(quota: &QuotaRecord, footprint: &Footprint) -> bool {
    scopes::matches(&quota.spec, &footprint.traits).unwrap_or(false)
}
