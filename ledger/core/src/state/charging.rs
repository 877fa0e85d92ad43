//! Which workloads are charged for their pods.

use std::collections::BTreeSet;

use super::State;
use crate::event::Entry;
use quota_semantics::Name;

impl State {
    /// The kinds of workloads that are charged for their pods, as in `deployments.apps`.
    #[must_use]
    pub const fn charging(&self) -> &BTreeSet<Name> {
        &self.charging
    }

    /// Other workloads are charged than before. Those that are not any more count for themselves alone. What is being
    /// listed was counted by the other rule.
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
