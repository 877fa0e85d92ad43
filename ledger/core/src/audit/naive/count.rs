//! What counts in a namespace, summed anew whenever it is requested.

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
    /// What counts in each namespace.
    pub(super) fn counts(&self) -> Counts<'_> {
        let mut counts = Counts::new();
        for ((namespace, _), object) in &self.objects {
            let count = counts.entry(namespace).or_default();
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
            count
                .committed
                .push((&claim.reservation.footprint, observed));
        }
        counts
    }

    /// What a reservation or a commit does not take, since it counts already: its object, or that which bears its name.
    pub(super) fn beside(&self, key: &Key, bearers: &BTreeMap<Key, Uid>) -> Option<&Footprint> {
        let bearer = || {
            let bearer = bearers.get(key)?;
            self.objects.get(&(key.0.clone(), bearer.clone()))
        };
        let object = self.objects.get(key).or_else(bearer)?;
        Some(&object.footprint)
    }
}

/// The footprints of a namespace: of its objects; of its reservations and commits, with those of their objects.
#[derive(Default)]
pub(super) struct Count<'a> {
    pub(super) objects: Vec<&'a Footprint>,
    pub(super) pending: Vec<Claimed<'a>>,
    pub(super) committed: Vec<Claimed<'a>>,
}

/// What is claimed for an object, and what the object counts for.
type Claimed<'a> = (&'a Footprint, Option<&'a Footprint>);

impl Count<'_> {
    pub(super) fn used(&self, resource: &str, counts: impl Fn(&Footprint) -> bool) -> Quantity {
        self.seen(resource, &counts).total()
    }

    /// What counts beside what is used.
    pub(super) fn reserved(&self, resource: &str, counts: impl Fn(&Footprint) -> bool) -> Quantity {
        let mut tally = self.seen(resource, &counts);
        let used = tally.total();
        tally.beside(&self.pending, resource, &counts);
        let mut all = tally.total();
        all.sub_assign(&used);
        all
    }

    /// What is observed or committed.
    fn seen(&self, resource: &str, counts: &impl Fn(&Footprint) -> bool) -> Tally {
        let mut tally = Tally::default();
        for footprint in self.objects.iter().filter(|footprint| counts(footprint)) {
            tally.add(footprint, resource, &amount(footprint, resource));
        }
        tally.beside(&self.committed, resource, counts);
        tally
    }

    pub(super) fn names(&self) -> BTreeSet<&Name> {
        let claimed = self.pending.iter().chain(&self.committed);
        let claimed = claimed.map(|(wanted, _)| *wanted);
        let all = self.objects.iter().copied().chain(claimed);
        all.flat_map(|footprint| footprint.resources.names())
            .collect()
    }
}

/// Sums of one resource.
#[derive(Default)]
struct Tally {
    plain: Quantity,
    /// What workloads are charged for their pods.
    charged: Quantity,
    /// What pods need that say that such a workload made them.
    claimed: Quantity,
}

impl Tally {
    fn add(&mut self, footprint: &Footprint, resource: &str, amount: &Quantity) {
        let sum = match footprint.traits.amount(resource) {
            Amount::Plain => &mut self.plain,
            Amount::Charged => &mut self.charged,
            Amount::Claimed => &mut self.claimed,
        };
        sum.add_assign(amount);
    }

    /// A reservation or a commit takes what its object does not count for yet.
    fn beside(
        &mut self,
        claims: &[Claimed<'_>],
        resource: &str,
        counts: &impl Fn(&Footprint) -> bool,
    ) {
        for (wanted, observed) in claims.iter().filter(|(wanted, _)| counts(wanted)) {
            let is_alike = |observed: &&&Footprint| {
                counts(observed)
                    && observed.traits.amount(resource) == wanted.traits.amount(resource)
            };
            let held = amount(wanted, resource);
            let held = match observed.as_ref().filter(is_alike) {
                Some(observed) => held.subtract_non_negative(&amount(observed, resource)),
                None => held,
            };
            self.add(wanted, resource, &held);
        }
    }

    /// Nothing counts twice that a workload is charged for, and nothing is left out that nobody is charged for.
    fn total(&self) -> Quantity {
        let mut total = self.plain.clone();
        total.add_assign((&self.charged).max(&self.claimed));
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

pub(super) fn counted(quota: &QuotaRecord, footprint: &Footprint) -> bool {
    scopes::matches(&quota.spec, &footprint.traits).unwrap_or(false)
}
