//! The kept denials in memory: bounded in number, bytes and age, with a fair share for each principal, and
//! of that for each of its namespaces.

use std::collections::{BTreeMap, HashMap};

use quota_client::wire::{CheckedLimit, Denial};
use quota_core::shares::Shares;
use quota_semantics::{Name, Span, Timestamp, admission::LimitKind};

use super::{Bounds, Query, StoredDenial};
use crate::metrics;

/// Denials by number.
#[derive(Default)]
pub(super) struct Store {
    denials: BTreeMap<u64, StoredDenial>,
    shares: Shares<u64>,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.denials.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.shares.bytes()
    }

    /// The number of the latest denial.
    pub(super) fn last(&self) -> Option<u64> {
        self.denials.last_key_value().map(|(id, _)| *id)
    }

    /// The kept denials, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredDenial> {
        self.denials.values()
    }

    pub(super) fn list(&self, query: &Query) -> Vec<StoredDenial> {
        let before = query.before.unwrap_or(u64::MAX);
        let earlier = self.denials.range(..before).rev();
        let namespace = query.namespace.as_ref();
        earlier
            .map(|(_, denial)| denial)
            .filter(|denial| namespace.is_none_or(|namespace| denial.namespace == *namespace))
            .filter(|denial| query.reader.reads(&denial.namespace))
            .take(query.limit)
            .cloned()
            .collect()
    }

    /// Adds a denial; if there are too many, removes the oldest of the principal, and of its namespace, that takes the
    /// most room.
    pub(super) fn keep(&mut self, denial: StoredDenial, bounds: &Bounds) {
        let id = denial.id;
        self.remove(id);
        let bytes = denial.json.get().len();
        self.shares.add(&denial.principal, &denial.namespace, id, bytes);
        self.denials.insert(id, denial);
        while self.len() > bounds.records || self.bytes() > bounds.bytes {
            if self.len() <= bounds.records {
                metrics::limit_reached(metrics::Limit::DenialBytes);
            }
            let Some(oldest) = self.shares.first_to_go() else {
                return;
            };
            self.remove(oldest);
        }
    }

    /// Removes denials that are too old.
    pub(super) fn forget(&mut self, bounds: &Bounds, now: Timestamp) {
        let age = i64::try_from(bounds.age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = now.minus(Span::from_nanoseconds(age));
        while let Some((&id, first)) = self.denials.first_key_value()
            && first.time < oldest
        {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(denial) = self.denials.remove(&id) {
            self.shares.remove(&denial.principal, &denial.namespace, id);
        }
    }
}

/// Most quotas and groups that are counted. A count that is left out begins with 0 again, as after a restart.
const COUNTED_MAX: usize = 16_384;

/// A namespace and a quota; without a namespace, a group.
pub(super) type Place = (Name, Name);

/// The counts.
#[derive(Default)]
pub(super) struct Counts {
    denials: HashMap<Place, (u64, u64)>,
    /// The principal whose request was counted first, and its namespace, by the number of that request.
    begun: BTreeMap<u64, (Place, Name, Name)>,
    shares: Shares<u64>,
    next: u64,
}

impl Counts {
    /// Counts a denial for each quota and group that it exceeds.
    pub(super) fn add(&mut self, denial: &Denial) {
        for quota in &denial.quotas {
            if quota.resources.iter().any(CheckedLimit::is_exceeded) {
                self.add_one(place(quota.kind, &denial.namespace, &quota.name), denial);
            }
        }
    }

    /// How many requests a quota of a namespace, or a group, has denied.
    pub(super) fn get(&self, place: &Place) -> u64 {
        self.denials.get(place).map_or(0, |(_, count)| *count)
    }

    fn add_one(&mut self, place: Place, denial: &Denial) {
        if let Some((_, count)) = self.denials.get_mut(&place) {
            *count = count.saturating_add(1);
            return;
        }
        let key = self.next;
        self.next = key.saturating_add(1);
        let (principal, namespace) = (&denial.actor.principal, &denial.namespace);
        self.shares.add(principal, namespace, key, 1);
        self.begun.insert(key, (place.clone(), principal.clone(), namespace.clone()));
        self.denials.insert(place, (key, 1));
        while self.denials.len() > COUNTED_MAX
            && let Some(first) = self.shares.first_to_go()
        {
            self.remove(first);
        }
    }

    fn remove(&mut self, key: u64) {
        if let Some((place, principal, namespace)) = self.begun.remove(&key) {
            self.shares.remove(&principal, &namespace, key);
            self.denials.remove(&place);
        }
    }
}

/// The place of a quota of a namespace, or of a group, whatever the namespace.
pub(super) fn place(kind: LimitKind, namespace: &Name, name: &Name) -> Place {
    let namespace = match kind {
        LimitKind::ResourceQuota => namespace.clone(),
        LimitKind::ClusterResourceQuota => Name::default(),
    };
    (namespace, name.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::denials::tests::denial_of;

    #[test]
    fn who_is_denied_by_many_limits_does_not_displace_the_counts_of_others() {
        let mut counts = Counts::default();
        let victim = denial_of("team", "team-a", "compute", LimitKind::ResourceQuota);
        counts.add(&victim);
        for number in 0..2 * COUNTED_MAX {
            let quota = format!("q-{number}");
            counts.add(&denial_of(
                "attacker",
                &format!("ns-{number}"),
                &quota,
                LimitKind::ResourceQuota,
            ));
        }
        counts.add(&victim);
        let of = |namespace: &str, name: &str| {
            counts.get(&place(LimitKind::ResourceQuota, &namespace.into(), &name.into()))
        };
        assert_eq!(of("team-a", "compute"), 2);
        assert_eq!(of("ns-0", "q-0"), 0);
        let last = 2 * COUNTED_MAX - 1;
        assert_eq!(of(&format!("ns-{last}"), &format!("q-{last}")), 1);
        assert_eq!(counts.denials.len(), COUNTED_MAX);
        assert_eq!(counts.begun.len(), COUNTED_MAX);
    }

    #[test]
    fn a_group_counts_for_all_its_namespaces_and_only_exceeded_limits_count() {
        let mut counts = Counts::default();
        for namespace in ["a", "b"] {
            counts.add(&denial_of("p", namespace, "company", LimitKind::ClusterResourceQuota));
        }
        let mut passed = denial_of("p", "a", "other", LimitKind::ResourceQuota);
        passed.quotas[0].resources[0].hard = "100".parse().unwrap();
        counts.add(&passed);
        let group = place(LimitKind::ClusterResourceQuota, &"b".into(), &"company".into());
        assert_eq!(counts.get(&group), 2);
        assert_eq!(counts.get(&place(LimitKind::ResourceQuota, &"a".into(), &"other".into())), 0);
    }
}
