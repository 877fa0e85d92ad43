//! What counts in a group, and the rule of admission.
//!
//! load(G) = used + reserved + what is set aside in G for its children, which is the sum over the children c of
//! max(guaranteed(c), load(c)) - used(c) - reserved(c). A request for x is admitted if for every group G that counts
//! the object and limits the name `x <= hard(G) - load(G) + free(G)`, where free(G) is the guarantee not used yet of
//! the groups below G that count the object.

use crate::{Name, quantity::Quantity, resource::ResourceList};

/// What counts in a group, all names, limited or not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// By observed objects.
    pub used: ResourceList,
    /// By pending reservations, beside that.
    pub reserved: ResourceList,
    /// Guaranteed to the groups below it, and not used or reserved by them.
    pub set_aside: ResourceList,
}

/// A sum that objects and reservations change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// What observed objects count for.
    Used,
    /// What pending reservations hold.
    Reserved,
}

/// Groups with their loads.
pub trait Loads {
    /// The place of a group.
    type Id: Copy + Eq;

    /// The group that this one is a part of.
    fn parent(&self, group: Self::Id) -> Option<Self::Id>;

    /// What no sibling of the group can take.
    fn guaranteed(&self, group: Self::Id) -> &ResourceList;

    /// What counts in it.
    fn load(&self, group: Self::Id) -> &Load;
}

/// Groups with loads that can be changed.
pub trait LoadsMut: Loads {
    /// What counts in it, to be changed.
    fn load_mut(&mut self, group: Self::Id) -> &mut Load;
}

impl Load {
    /// Used, reserved and set aside.
    #[must_use]
    pub fn total(&self, name: &str) -> Quantity {
        let mut total = Quantity::ZERO;
        for list in [&self.used, &self.reserved, &self.set_aside] {
            if let Some(amount) = list.get(name) {
                total.add_assign(amount);
            }
        }
        total
    }

    /// What counts against the limit of a group for an object for which `free` of it is set aside.
    #[must_use]
    pub fn against(&self, free: &ResourceList, name: &str) -> Quantity {
        let mut counted = self.total(name);
        if let Some(free) = free.get(name) {
            counted.sub_assign(free);
        }
        counted
    }

    /// What is left of a guarantee.
    #[must_use]
    pub(crate) fn unused(&self, guaranteed: &ResourceList, name: &str) -> Quantity {
        match guaranteed.get(name) {
            None => Quantity::ZERO,
            Some(guaranteed) => guaranteed.subtract_non_negative(&self.total(name)),
        }
    }

    /// What the group's parent sets aside for it: what is set aside in it, and what is left of its own guarantee.
    #[must_use]
    pub fn claim(&self, guaranteed: &ResourceList, name: &str) -> Quantity {
        let mut claim = self.set_aside.get(name).cloned().unwrap_or_default();
        claim.add_assign(&self.unused(guaranteed, name));
        claim
    }
}

/// All that the group's parent sets aside for it.
pub fn claims<L: Loads>(loads: &L, group: L::Id) -> ResourceList {
    let (load, guaranteed) = (loads.load(group), loads.guaranteed(group));
    let names = load.set_aside.names().chain(guaranteed.names());
    let claim = |name: &Name| (name.clone(), load.claim(guaranteed, name));
    names.map(claim).collect()
}

/// Counts amounts in one group, or, negative ones, ceases to; and changes accordingly what the groups above it set
/// aside. Those count the amounts only by a change of their own.
pub fn count<L: LoadsMut>(
    loads: &mut L,
    group: L::Id,
    sum: Sum,
    amounts: &ResourceList,
    adds: bool,
) {
    let guaranteed = !loads.guaranteed(group).is_empty();
    let before = guaranteed.then(|| claims_on(loads, group, amounts));
    let load = loads.load_mut(group);
    let list = match sum {
        Sum::Used => &mut load.used,
        Sum::Reserved => &mut load.reserved,
    };
    match adds {
        true => list.add(amounts),
        false => list.subtract(amounts),
    }
    if let Some(before) = before {
        let after = claims_on(loads, group, amounts);
        raise(loads, loads.parent(group), difference(&after, &before));
    }
}

/// Changes what a group and those above it set aside, by `change` to what one of its children claims.
pub fn raise<L: LoadsMut>(loads: &mut L, group: Option<L::Id>, change: ResourceList) {
    let (mut at, mut change) = (group, change.without_zeros());
    while let (Some(group), false) = (at, change.is_empty()) {
        let before = claims_on(loads, group, &change);
        loads.load_mut(group).set_aside.add(&change);
        change = difference(&claims_on(loads, group, &change), &before);
        at = loads.parent(group);
    }
}

fn claims_on<L: Loads>(loads: &L, group: L::Id, names: &ResourceList) -> ResourceList {
    let (load, guaranteed) = (loads.load(group), loads.guaranteed(group));
    let claim = |name: &Name| (name.clone(), load.claim(guaranteed, name));
    names.names().map(claim).collect()
}

fn difference(after: &ResourceList, before: &ResourceList) -> ResourceList {
    let mut change = after.clone();
    change.subtract(before);
    change.without_zeros()
}

/// For each group of a chain, what the groups below it that are in the chain are guaranteed and do not use yet:
/// set aside, but not for others than the object. In a chain children come before their parents.
pub fn free<L: Loads>(loads: &L, chain: &[L::Id]) -> Vec<ResourceList> {
    let mut free = vec![ResourceList::new(); chain.len()];
    for (place, &group) in chain.iter().enumerate() {
        let guaranteed = loads.guaranteed(group);
        let Some(parent) = loads.parent(group) else {
            continue;
        };
        if guaranteed.is_empty() && free[place].is_empty() {
            continue;
        }
        let Some(above) = chain.iter().position(|&other| other == parent) else {
            continue;
        };
        let load = loads.load(group);
        let unused = |name: &Name| (name.clone(), load.unused(guaranteed, name));
        let mut below: ResourceList = guaranteed.names().map(unused).collect();
        below.add(&free[place]);
        free[above].add(&below);
    }
    free
}

#[cfg(test)]
mod laws;
