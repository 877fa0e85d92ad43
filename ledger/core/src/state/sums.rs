//! Sums: of a namespace, of a quota with scopes, or of a namespace in a group.
//!
//! For each name they hold all plain amounts, and the larger of the charges of workloads and the draws of replicas
//! ([`Amount`]). The *balance* of a name is the draws less the charges; a positive balance counts in addition to plain
//! and charged amounts. Pending amounts are set against all others, so that a replica that is observed before its
//! workload counts once, too.
//!
//! Whatever is drawn, the sum is at least the need of all replicas; and when an object or reservation ends, no sum
//! grows.
//!
//! A sum has no zeros: a name goes when the last amount of it does. Otherwise whoever makes up names of resources could let
//! the sums of a namespace grow for ever.

use std::borrow::Cow;

use crate::codec::record;
use quota_semantics::{
    Name,
    group::Sum,
    object::{Amount, Footprint, Traits},
    quantity::{Format, Quantity},
    resource::ResourceList,
};

/// Used and reserved amounts. No zeros, except in [changes](Sums::unchanged).
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) used: ResourceList,
    pub(crate) reserved: ResourceList,
    pub(crate) balance: Balance,
}

/// The draws of replicas less the charges of workloads, of the used and of the reserved amounts. No zeros. Not part of
/// images, since it can be derived.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balance {
    used: ResourceList,
    reserved: ResourceList,
}

record!(Sums { used, reserved } without { balance });

/// Whether amounts are added or removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
}

/// The amounts of an object by the way in which they count.
pub(crate) struct Parts<'a> {
    /// Plain and charged amounts.
    pub(crate) direct: Cow<'a, ResourceList>,
    /// Drawn less charged amounts.
    shift: ResourceList,
}

/// The change of the positive balances; no zeros.
#[derive(Clone, Debug, Default)]
pub(crate) struct Excess {
    pub(crate) used: ResourceList,
    pub(crate) reserved: ResourceList,
}

impl<'a> Parts<'a> {
    /// The given amounts of an object with these traits.
    pub(crate) fn of(traits: &Traits, amounts: Cow<'a, ResourceList>) -> Self {
        if traits.is_plain() {
            return Self { direct: amounts, shift: ResourceList::new() };
        }
        let mut shift = amounts.mask(|name| traits.amount(name) == Amount::Drawn);
        shift.subtract(&amounts.mask(|name| traits.amount(name) == Amount::Charged));
        Self {
            direct: Cow::Owned(amounts.mask(|name| traits.amount(name) != Amount::Drawn)),
            shift,
        }
    }

    /// All amounts of an object.
    pub(crate) fn all(footprint: &'a Footprint) -> Self {
        Self::of(&footprint.traits, Cow::Borrowed(&footprint.resources))
    }

    /// The amounts of this object that exceed those of the other.
    pub(crate) fn beyond(mut self, other: &Self) -> Self {
        self.direct.to_mut().subtract(&other.direct);
        self.shift.subtract(&other.shift);
        self
    }
}

/// Returns whether one of the changed amounts is zero now.
fn change(sum: &mut ResourceList, amounts: &ResourceList, change: Change) -> bool {
    match change {
        Change::Add => sum.add(amounts),
        Change::Remove => sum.subtract(amounts),
    }
}

impl Sums {
    /// No amounts.
    pub(crate) const NONE: Self = Self {
        used: ResourceList::new(),
        reserved: ResourceList::new(),
        balance: Balance { used: ResourceList::new(), reserved: ResourceList::new() },
    };

    /// Changes to the sums: amounts to add to these, none so far, and the balances that they lead to.
    pub(crate) fn unchanged(&self) -> Self {
        Self { balance: self.balance.clone(), ..Self::NONE }
    }

    /// Adds or removes amounts. Returns the changes other than the direct amounts.
    pub(crate) fn count(&mut self, sum: Sum, parts: &Parts<'_>, direction: Change) -> Excess {
        let list = self.of(sum);
        if change(list, &parts.direct, direction) {
            list.drop_zeros_of(&parts.direct);
        }
        let excess = self.shift(sum, parts, direction);
        self.used.drop_zeros_of(&excess.used);
        self.reserved.drop_zeros_of(&excess.reserved);
        excess
    }

    /// As [`Sums::count`], in [changes](Sums::unchanged).
    pub(crate) fn count_with_zeros(
        &mut self,
        sum: Sum,
        parts: &Parts<'_>,
        direction: Change,
    ) -> Excess {
        change(self.of(sum), &parts.direct, direction);
        self.shift(sum, parts, direction)
    }

    /// Changes the balance, and the sums by what that changes, which is returned.
    #[inline]
    fn shift(&mut self, sum: Sum, parts: &Parts<'_>, direction: Change) -> Excess {
        if parts.shift.is_empty() {
            return Excess::default();
        }
        let excess = self.balance.shift(sum, &parts.shift, direction);
        self.used.add(&excess.used);
        self.reserved.add(&excess.reserved);
        excess
    }

    const fn of(&mut self, sum: Sum) -> &mut ResourceList {
        match sum {
            Sum::Used => &mut self.used,
            Sum::Reserved => &mut self.reserved,
        }
    }
}

impl Balance {
    fn shift(&mut self, sum: Sum, by: &ResourceList, direction: Change) -> Excess {
        let used_before = self.excess(by, true);
        let all_before = self.excess(by, false);
        let list = match sum {
            Sum::Used => &mut self.used,
            Sum::Reserved => &mut self.reserved,
        };
        if change(list, by, direction) {
            list.drop_zeros_of(by);
        }
        let mut used = self.excess(by, true);
        used.subtract(&used_before);
        let mut reserved = self.excess(by, false);
        reserved.subtract(&all_before);
        reserved.subtract(&used);
        Excess { used: used.without_zeros(), reserved: reserved.without_zeros() }
    }

    /// The positive balance of these names: of used amounts only, or of all.
    fn excess(&self, names: &ResourceList, used_only: bool) -> ResourceList {
        let excess = |name: &Name| {
            let excess = positive(self.of(name, used_only));
            (name.clone(), excess.in_format(usual_format(name)))
        };
        names.names().map(excess).collect()
    }

    fn of(&self, name: &str, used_only: bool) -> Quantity {
        let mut balance = self.used.get(name).cloned().unwrap_or_default();
        if let Some(reserved) = self.reserved.get(name).filter(|_| !used_only) {
            balance.add_assign(reserved);
        }
        balance
    }

    /// The growth of the counted amounts by these parts: no zeros, and no decreases. `used_only`: reservations are
    /// ignored.
    pub(crate) fn growth(&self, parts: Parts<'_>, used_only: bool) -> ResourceList {
        let Parts { direct, shift } = parts;
        let mut growth = direct.into_owned();
        for (name, by) in shift.iter() {
            let before = self.of(name, used_only);
            let mut after = before.clone();
            after.add_assign(by);
            let mut more = growth.get(name).cloned().unwrap_or_default();
            more.add_assign(&positive(after));
            more.sub_assign(&positive(before));
            growth.insert(name.clone(), more);
        }
        growth.retain(|_, amount| amount.is_positive());
        growth
    }
}

/// The usual format of amounts of a resource. A format taken from the balances would depend on their history.
fn usual_format(name: &str) -> Format {
    let is_in_bytes = ["memory", "storage", "hugepages-"].iter().any(|part| name.contains(part));
    match is_in_bytes {
        true => Format::BinarySI,
        false => Format::DecimalSI,
    }
}

fn positive(amount: Quantity) -> Quantity {
    match amount.is_positive() {
        true => amount,
        false => Quantity::ZERO,
    }
}

#[cfg(test)]
mod tests;
