//! The load of a group, and the admission rule.
//!
//! load(G) = used + reserved + the amount set aside in G for its children, which is the sum over the children c of
//! max(guaranteed(c), load(c)) - used(c) - reserved(c). A request for x is admitted if for every group G that counts
//! the object and limits the name `x <= hard(G) - load(G) + free(G)`, where free(G) is the unused guarantee of those
//! descendants of G that count the object.

use crate::{Name, quantity::Quantity, resource::ResourceList};

/// The amounts that count in a group, of all names, limited or not. No zeros: names of the past would stay for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The amounts of observed objects.
    pub used: ResourceList,
    /// The amounts that pending reservations hold beyond that.
    pub reserved: ResourceList,
    /// The amounts guaranteed to descendants, and not used or reserved by them.
    pub set_aside: ResourceList,
}

/// A sum that objects and reservations change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sum {
    /// The amounts of observed objects.
    Used,
    /// The amounts that pending reservations hold.
    Reserved,
}

/// Groups with their loads.
pub trait Loads {
    /// The identifier of a group.
    type Id: Copy + Eq;

    /// The parent of a group.
    fn parent(&self, group: Self::Id) -> Option<Self::Id>;

    /// The amounts that no sibling of the group can take.
    fn guaranteed(&self, group: Self::Id) -> &ResourceList;

    /// Its load.
    fn load(&self, group: Self::Id) -> &Load;
}

/// Groups with loads that can be changed.
pub trait LoadsMut: Loads {
    /// Its load, to be changed.
    fn load_mut(&mut self, group: Self::Id) -> &mut Load;
}

impl Load {
    /// The sum of used, reserved and set aside.
    pub fn total(&self, name: &str) -> Quantity {
        let mut total = Quantity::ZERO;
        for list in [&self.used, &self.reserved, &self.set_aside] {
            if let Some(amount) = list.get(name) {
                total.add_assign(amount);
            }
        }
        total
    }

    /// The amount that counts against the limit of a group for an object for which `free` of it is set aside.
    pub fn against(&self, free: &ResourceList, name: &str) -> Quantity {
        let mut counted = self.total(name);
        if let Some(free) = free.get(name) {
            counted.sub_assign(free);
        }
        counted
    }

    /// The unused part of a guarantee.
    pub(crate) fn unused(&self, guaranteed: &ResourceList, name: &str) -> Quantity {
        match guaranteed.get(name) {
            None => Quantity::ZERO,
            Some(guaranteed) => guaranteed.subtract_non_negative(&self.total(name)),
        }
    }

    /// The amount that the parent sets aside for the group: the amount set aside in the group, and the unused part of
    /// its own guarantee.
    pub fn need(&self, guaranteed: &ResourceList, name: &str) -> Quantity {
        let mut need = self.set_aside.get(name).cloned().unwrap_or_default();
        need.add_assign(&self.unused(guaranteed, name));
        need
    }
}

/// All amounts that the parent sets aside for the group.
pub fn needs<L: Loads>(loads: &L, group: L::Id) -> ResourceList {
    let (load, guaranteed) = (loads.load(group), loads.guaranteed(group));
    let names = load.set_aside.names().chain(guaranteed.names());
    let need = |name: &Name| (name.clone(), load.need(guaranteed, name));
    names.map(need).collect()
}

/// Adds amounts to one group, or removes them if negative, and changes the amounts set aside in its ancestors
/// accordingly. The amounts themselves are added to each ancestor by a call of its own.
pub fn count<L: LoadsMut>(
    loads: &mut L,
    group: L::Id,
    sum: Sum,
    amounts: &ResourceList,
    adds: bool,
) {
    let guaranteed = !loads.guaranteed(group).is_empty();
    let before = guaranteed.then(|| needs_on(loads, group, amounts));
    let load = loads.load_mut(group);
    let list = match sum {
        Sum::Used => &mut load.used,
        Sum::Reserved => &mut load.reserved,
    };
    let has_zero = match adds {
        true => list.add(amounts),
        false => list.subtract(amounts),
    };
    if has_zero {
        list.drop_zeros_of(amounts);
    }
    if let Some(before) = before {
        let after = needs_on(loads, group, amounts);
        raise(loads, loads.parent(group), difference(&after, &before));
    }
}

/// Changes the amounts set aside in a group and its ancestors, by `change` in the need of one of its children.
pub fn raise<L: LoadsMut>(loads: &mut L, group: Option<L::Id>, change: ResourceList) {
    let (mut at, mut change) = (group, change.without_zeros());
    while let (Some(group), false) = (at, change.is_empty()) {
        let before = needs_on(loads, group, &change);
        let set_aside = &mut loads.load_mut(group).set_aside;
        if set_aside.add(&change) {
            set_aside.drop_zeros_of(&change);
        }
        change = difference(&needs_on(loads, group, &change), &before);
        at = loads.parent(group);
    }
}

fn needs_on<L: Loads>(loads: &L, group: L::Id, names: &ResourceList) -> ResourceList {
    let (load, guaranteed) = (loads.load(group), loads.guaranteed(group));
    let need = |name: &Name| (name.clone(), load.need(guaranteed, name));
    names.names().map(need).collect()
}

fn difference(after: &ResourceList, before: &ResourceList) -> ResourceList {
    let mut change = after.clone();
    change.subtract(before);
    change.without_zeros()
}

/// The amounts that are set aside in a group for others than an object for which `free` of it is set aside.
pub fn aside(load: &Load, free: &ResourceList) -> ResourceList {
    let mut aside = load.set_aside.clone();
    aside.subtract(free);
    aside
}

/// For each group of a chain, the unused guarantees of its descendants in the chain: set aside, but available to the
/// object. In a chain children come before their parents.
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
