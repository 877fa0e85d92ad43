//! Sums: what counts in a namespace, against a quota with scopes, or of a namespace in a group.
//!
//! Of each name they hold all plain amounts, and the larger of what workloads are charged and what replicas claim
//! ([`Amount`]). The *balance* of a name is what is claimed less what is charged; as far as it is positive, it counts
//! beside plain and charged amounts. What is pending is set against all that counts, so that a replica that is seen
//! before its workload counts once, too.
//!
//! Whoever claims, the sum is at least what all replicas need; and when something ends, no sum grows.

use std::borrow::Cow;

use crate::codec::record;
use quota_semantics::{
    Name,
    group::Sum,
    object::{Amount, Footprint, Traits},
    quantity::{Format, Quantity},
    resource::ResourceList,
};

/// What is used and what is promised.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sums {
    pub(crate) used: ResourceList,
    pub(crate) reserved: ResourceList,
    pub(crate) balance: Balance,
}

/// What replicas claim less what workloads are charged: of what is used, and of what is promised. No zeros. Not in an
/// image, since it follows from what is there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Balance {
    used: ResourceList,
    reserved: ResourceList,
}

record!(Sums { used, reserved } without { balance });

/// Whether something begins or ceases to count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Add,
    Remove,
}

/// Amounts of an object, as they count.
pub(crate) struct Parts<'a> {
    /// What counts by itself, and what is charged.
    pub(crate) direct: Cow<'a, ResourceList>,
    /// What is claimed, less what is charged.
    shift: ResourceList,
}

/// By how much the part of balances that counts has changed; no zeros.
#[derive(Debug, Default)]
pub(crate) struct Excess {
    pub(crate) used: ResourceList,
    pub(crate) reserved: ResourceList,
}

impl<'a> Parts<'a> {
    /// These amounts of an object with these traits.
    pub(crate) fn of(traits: &Traits, amounts: Cow<'a, ResourceList>) -> Self {
        if traits.is_plain() {
            return Self {
                direct: amounts,
                shift: ResourceList::new(),
            };
        }
        let mut shift = amounts.mask(|name| traits.amount(name) == Amount::Claimed);
        shift.subtract(&amounts.mask(|name| traits.amount(name) == Amount::Charged));
        Self {
            direct: Cow::Owned(amounts.mask(|name| traits.amount(name) != Amount::Claimed)),
            shift,
        }
    }

    /// All of an object.
    pub(crate) fn all(footprint: &'a Footprint) -> Self {
        Self::of(&footprint.traits, Cow::Borrowed(&footprint.resources))
    }

    /// What is here beyond what is there.
    pub(crate) fn beyond(mut self, other: &Self) -> Self {
        self.direct.to_mut().subtract(&other.direct);
        self.shift.subtract(&other.shift);
        self
    }
}

pub(crate) fn change(sum: &mut ResourceList, amounts: &ResourceList, change: Change) {
    match change {
        Change::Add => sum.add(amounts),
        Change::Remove => sum.subtract(amounts),
    }
}

impl Sums {
    /// Those of nothing.
    pub(crate) const NONE: Self = Self {
        used: ResourceList::new(),
        reserved: ResourceList::new(),
        balance: Balance {
            used: ResourceList::new(),
            reserved: ResourceList::new(),
        },
    };

    /// The beginning of sums of some of these names.
    pub(crate) fn part(&self) -> Self {
        Self {
            balance: self.balance.clone(),
            ..Self::NONE
        }
    }

    /// Makes sure that these names are as they are in `whole`, unless they are here already.
    pub(crate) fn take_over(&mut self, whole: &Self, names: &ResourceList) {
        let take = |mine: &mut ResourceList, whole: &ResourceList| {
            for name in names.names() {
                if mine.get(name).is_none()
                    && let Some(amount) = whole.get(name)
                {
                    mine.insert(name.clone(), amount.clone());
                }
            }
        };
        take(&mut self.used, &whole.used);
        take(&mut self.reserved, &whole.reserved);
    }

    /// Counts an object or what is claimed for one, or ceases to. Answers what changed besides the direct amounts.
    pub(crate) fn count(&mut self, sum: Sum, parts: &Parts<'_>, direction: Change) -> Excess {
        let list = match sum {
            Sum::Used => &mut self.used,
            Sum::Reserved => &mut self.reserved,
        };
        change(list, &parts.direct, direction);
        if parts.shift.is_empty() {
            return Excess::default();
        }
        let excess = self.balance.shift(sum, &parts.shift, direction);
        self.used.add(&excess.used);
        self.reserved.add(&excess.reserved);
        excess
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
        change(list, by, direction);
        list.retain(|_, amount| !amount.is_zero());
        let mut used = self.excess(by, true);
        used.subtract(&used_before);
        let mut reserved = self.excess(by, false);
        reserved.subtract(&all_before);
        reserved.subtract(&used);
        Excess {
            used: used.without_zeros(),
            reserved: reserved.without_zeros(),
        }
    }

    /// How much of the balance of these names counts: of what is used only, or of all.
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

    /// By how much what counts grows with these parts: no zeros, and nothing that shrinks. `used_only`: as if nothing
    /// were promised.
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

/// In which suffixes amounts of a resource are usually written. The balances' own spelling would tell in which order they
/// came to be.
fn usual_format(name: &str) -> Format {
    let is_in_bytes = ["memory", "storage", "hugepages-"]
        .iter()
        .any(|part| name.contains(part));
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
