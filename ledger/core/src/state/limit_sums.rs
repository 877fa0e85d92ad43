//! The limits of one quota or group, and what counts against them, without a copy.

use std::collections::BTreeSet;

use super::{State, sums::Sums};
use quota_semantics::{Name, quantity::Quantity, resource::ResourceList};

/// The limits of a quota or group, and the sums that count against them.
pub(crate) struct LimitNow<'s> {
    hard: &'s ResourceList,
    used: &'s ResourceList,
    reserved: &'s ResourceList,
}

impl<'s> LimitNow<'s> {
    /// Each resource, its limit, and what is used and reserved.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'s Name, &'s Quantity, Quantity)> {
        let (used, reserved) = (self.used, self.reserved);
        self.hard.iter().map(move |(resource, hard)| {
            let mut taken = used.get(resource).cloned().unwrap_or_default();
            if let Some(reserved) = reserved.get(resource) {
                taken.add_assign(reserved);
            }
            (resource, hard, taken)
        })
    }
}

impl State {
    /// The limits of a quota. `facts`: the state that has the sums of the namespace.
    pub(crate) fn limit_of_quota<'s>(
        &'s self,
        facts: &'s Self,
        namespace: &str,
        name: &str,
    ) -> Option<LimitNow<'s>> {
        let place = self.namespaces.place(namespace)?;
        let quota = self.namespaces.get(place).quotas.get(name)?;
        let sums = facts.namespaces.slab.get(place)?.sums_of(quota);
        Some(LimitNow { hard: quota.hard(), used: &sums.used, reserved: &sums.reserved })
    }

    /// The limits of a group whose limits hold for all of its namespaces together.
    pub(crate) fn limit_of_group(&self, name: &str) -> Option<LimitNow<'_>> {
        let group = self.groups.find(name)?;
        (!group.record.spec.extensions.each).then(|| LimitNow {
            hard: group.hard(),
            used: &group.load.used,
            reserved: &group.load.reserved,
        })
    }

    /// The limits in one namespace of a group whose limits hold for each namespace alone; none: it does not limit the
    /// namespace. `facts`: the state that has the sums of the namespace.
    pub(crate) fn limit_of_each<'s>(
        &'s self,
        facts: &'s Self,
        name: &str,
        namespace: &str,
    ) -> Option<LimitNow<'s>> {
        const NONE: &Sums = &Sums::NONE;
        let &place = self.groups.by_name.get(name)?;
        let group = self.groups.get(place);
        let at = self.namespaces.place(namespace)?;
        let namespace = self.namespaces.get(at);
        if !group.record.spec.extensions.each || namespace.quotas.contains_key(name) {
            return None;
        }
        let link = namespace.path.iter().find(|link| link.group == place)?;
        let sums = match link.partial {
            None => &*facts.namespaces.slab.get(at)?.sums,
            Some(_) => namespace.share_of(place).map_or(NONE, |share| &**share),
        };
        Some(LimitNow { hard: group.hard(), used: &sums.used, reserved: &sums.reserved })
    }

    /// The namespaces in which a group counts objects.
    pub(crate) fn namespaces_of_group(&self, name: &str) -> impl Iterator<Item = &Name> {
        let place = self.groups.by_name.get(name);
        place.into_iter().flat_map(|&place| self.groups.members(place).keys())
    }

    /// Whether one of these groups counts objects of a namespace.
    pub(crate) fn is_in_any(&self, namespace: &Name, groups: &BTreeSet<Name>) -> bool {
        let path = self.path_of(namespace);
        path.iter().any(|link| groups.contains(&self.groups.get(link.group).record.name))
    }
}
