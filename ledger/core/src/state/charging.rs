//! Which workloads are charged for their pods, and which labels of objects are recorded.

use std::{collections::BTreeSet, sync::Arc};

use super::State;
use crate::event::Entry;
use quota_semantics::Name;

impl State {
    /// Computes the balances of all sums, since images do not hold them.
    pub(super) fn restore_balances(&mut self) {
        let mut observed = self.footprints.slab.iter();
        let mut claimed = self.reservations.slab.iter();
        let is_plain = observed.all(|(_, pooled)| pooled.value().traits.is_plain())
            && claimed.all(|(_, tracked)| {
                let claim = tracked.claim();
                claim.is_none_or(|(_, target)| target.traits.is_plain())
            });
        if is_plain {
            return;
        }
        let places: Vec<u32> = self.namespaces.by_name.values().copied().collect();
        for place in places {
            let balance = self.recount(place, |_| true).balance;
            let namespace = self.namespaces.get(place);
            let scoped = namespace.quotas.iter().filter(|(_, quota)| quota.is_scoped());
            let of_quotas: Vec<_> = scoped
                .map(|(name, quota)| {
                    let sums = self.recount(place, |footprint| quota.counts(footprint));
                    (name.clone(), sums.balance)
                })
                .collect();
            let partial = namespace.path.iter().filter(|link| link.partial.is_some());
            let of_groups: Vec<_> = partial
                .map(|link| {
                    let counts = |footprint: &_| self.groups.counts(link, footprint);
                    (link.group, self.recount(place, counts).balance)
                })
                .collect();
            let namespace = self.namespaces.get_mut(place);
            Arc::make_mut(&mut namespace.sums).balance = balance;
            for (name, balance) in of_quotas {
                if let Some(quota) = namespace.quotas.get_mut(&name) {
                    Arc::make_mut(&mut quota.scoped).balance = balance;
                }
            }
            for (group, balance) in of_groups {
                if let Some(share) = namespace.shares.get_mut(&group) {
                    Arc::make_mut(share).balance = balance;
                }
            }
        }
    }

    /// The kinds of workloads that are charged for their pods, as in `deployments.apps`.
    #[must_use]
    pub const fn charging(&self) -> &BTreeSet<Name> {
        &self.charging
    }

    /// The labels of objects that are recorded, for groups to choose by.
    #[must_use]
    pub const fn object_labels(&self) -> &BTreeSet<Name> {
        &self.object_labels
    }

    /// The kinds of present and past objects.
    pub(crate) fn resources_of_objects(&self) -> impl Iterator<Item = Name> {
        self.resources.values().cloned()
    }

    /// Changes the set of charged workloads. Workloads that are no longer charged count for themselves alone. Open
    /// relists are discarded, since their objects were counted by the previous rule.
    pub(super) fn set_charging(&mut self, entry: &Entry, kinds: &[Name]) {
        self.charging = kinds.iter().cloned().collect();
        self.relists.open.clear();
        let alone = self.objects.slab.iter().filter_map(|(place, object)| {
            let kind: &Name = self.resources.get(object.resource);
            let footprint = self.footprints.get(object.footprint);
            let itself = footprint.itself()?;
            (!self.charging.contains(kind)).then_some((place, itself))
        });
        for (place, itself) in alone.collect::<Vec<_>>() {
            self.recount_object(entry, place, &itself);
        }
    }
}
