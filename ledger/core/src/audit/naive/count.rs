//! The amounts that count in a namespace, summed again for every request.

use std::collections::{BTreeMap, BTreeSet};

use super::{Key, Naive};
use crate::event::QuotaRecord;
use quota_semantics::{
    Name,
    object::{Amount, Footprint},
    quantity::Quantity,
    quota::scopes,
    uid::Uid,
};

pub(super) type Counts<'a> = BTreeMap<&'a Name, Count<'a>>;

impl Naive {
    /// The footprints that count in each namespace.
    pub(super) fn counts(&self) -> Counts<'_> {
        let mut counts = Counts::new();
        for object in self.objects.values() {
            let count = counts.entry(&object.namespace).or_default();
            count.objects.push(&object.footprint);
        }
        for (key, claim) in &self.pending {
            let observed = self.beside(key, &self.bearers);
            let count = counts.entry(&key.0).or_default();
            count.pending.push((&claim.reservation.footprint, observed));
        }
        for (key, claim) in &self.committed {
            let observed = self.beside(key, &self.commit_bearers);
            let count = counts.entry(&key.0).or_default();
            count.committed.push((&claim.reservation.footprint, observed));
        }
        counts
    }

    /// The footprint that already counts, and that a reservation or a commit therefore does not add: the footprint of
    /// its object, or of the object that bears its name.
    pub(super) fn beside(&self, key: &Key, bearers: &BTreeMap<Key, Uid>) -> Option<&Footprint> {
        let bearer = || {
            let bearer = bearers.get(key)?;
            self.objects.get(&(key.0.clone(), bearer.clone()))
        };
        let object = self.objects.get(key).or_else(bearer)?;
        Some(&object.footprint)
    }
}

/// The footprints of a namespace: those of its objects, and those of its reservations and commits, with their objects.
#[derive(Default)]
pub(super) struct Count<'a> {
    pub(super) objects: Vec<&'a Footprint>,
    pub(super) pending: Vec<Claimed<'a>>,
    pub(super) committed: Vec<Claimed<'a>>,
}

/// The footprint claimed for an object, and the footprint that the object already counts for.
type Claimed<'a> = (&'a Footprint, Option<&'a Footprint>);

impl<'a> Count<'a> {
    /// The footprints that a limit counts.
    pub(super) fn of(&self, counts: impl Fn(&Footprint) -> bool) -> Self {
        let claims = |claims: &[Claimed<'a>]| {
            let counted = claims.iter().filter(|(wanted, _)| counts(wanted));
            let counted =
                counted.map(|(wanted, observed)| (*wanted, observed.filter(|it| counts(it))));
            counted.collect()
        };
        let objects = self.objects.iter().copied();
        Self {
            objects: objects.filter(|footprint| counts(footprint)).collect(),
            pending: claims(&self.pending),
            committed: claims(&self.committed),
        }
    }

    pub(super) fn used(&self, resource: &str) -> Quantity {
        self.seen(resource).total()
    }

    /// The amount that counts beyond the used amount.
    pub(super) fn reserved(&self, resource: &str) -> Quantity {
        let mut tally = self.seen(resource);
        let used = tally.total();
        tally.beside(&self.pending, resource);
        let mut all = tally.total();
        all.sub_assign(&used);
        all
    }

    /// The amount of observed and committed objects.
    fn seen(&self, resource: &str) -> Tally {
        let mut tally = Tally::default();
        for footprint in &self.objects {
            tally.add(footprint, resource, &amount(footprint, resource));
        }
        tally.beside(&self.committed, resource);
        tally
    }

    pub(super) fn names(&self) -> BTreeSet<&Name> {
        let claimed = self.pending.iter().chain(&self.committed);
        let claimed = claimed.map(|(wanted, _)| *wanted);
        let all = self.objects.iter().copied().chain(claimed);
        all.flat_map(|footprint| footprint.resources.names()).collect()
    }
}

/// Sums of one resource.
#[derive(Default)]
struct Tally {
    plain: Quantity,
    /// The amount that workloads are charged for their pods.
    charged: Quantity,
    /// The amount of pods that name such a workload as their creator.
    drawn: Quantity,
}

impl Tally {
    fn add(&mut self, footprint: &Footprint, resource: &str, amount: &Quantity) {
        let sum = match footprint.traits.amount(resource) {
            Amount::Plain => &mut self.plain,
            Amount::Charged => &mut self.charged,
            Amount::Drawn => &mut self.drawn,
        };
        sum.add_assign(amount);
    }

    /// Adds the amounts of a reservation or a commit beyond those that its object already counts for.
    fn beside(&mut self, claims: &[Claimed<'_>], resource: &str) {
        for (wanted, observed) in claims {
            let is_alike = |observed: &&&Footprint| {
                observed.traits.amount(resource) == wanted.traits.amount(resource)
            };
            let held = amount(wanted, resource);
            let held = match observed.as_ref().filter(is_alike) {
                Some(observed) => held.subtract_non_negative(&amount(observed, resource)),
                None => held,
            };
            self.add(wanted, resource, &held);
        }
    }

    /// An amount charged to a workload does not count again for its pods. Pods that exceed the charge count for the
    /// excess.
    fn total(&self) -> Quantity {
        let mut total = self.plain.clone();
        total.add_assign((&self.charged).max(&self.drawn));
        total
    }
}

fn amount(footprint: &Footprint, resource: &str) -> Quantity {
    footprint.resources.get(resource).cloned().unwrap_or_default()
}

pub(super) fn counted(quota: &QuotaRecord, footprint: &Footprint) -> bool {
    scopes::matches(&quota.spec, &footprint.traits).unwrap_or(false)
}
