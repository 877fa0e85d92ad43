//! The changes of a decision before they are recorded.

use std::{borrow::Borrow, collections::BTreeMap, sync::Arc};

use hashbrown::{HashMap, HashTable, hash_table::Entry};

use super::{
    State,
    groups::{Groups, count_changed},
    namespaces::{Namespace, QuotaState, growth, hold},
    sums::{Change, Parts, Sums},
    tracked_reservation::Target,
};
use crate::{
    event::{Event, Reservation},
    size,
};
use quota_semantics::{
    Name,
    group::{Load, Loads, LoadsMut, Sum},
    resource::ResourceList,
    uid::Uid,
};

/// The changes of a decision under way, before they are entries. Most decisions have none, and then it takes nothing.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay(Option<Box<Changes>>);

#[derive(Clone, Debug, Default)]
struct Changes {
    namespaces: HashMap<Name, Box<Changed>>,
    groups: Copies,
    /// The places of pending reservations of the state that have ended or grown, sorted; of those that have grown, with
    /// the index in `granted`.
    ended: Vec<(u32, Option<usize>)>,
    /// The granted reservations, and whether they have ended again.
    granted: Vec<(Arc<Reservation>, bool)>,
    /// The newest granted one of each target, as an index into `granted`.
    newest: HashTable<usize>,
    /// The difference to what the pending reservations in the state count as against the bounds on their number.
    pending: isize,
}

/// A pending reservation of the state, by its place there, or one that the decision itself grants.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pending {
    Recorded(u32),
    Granted(usize),
}

/// The changes in a namespace.
#[derive(Clone, Debug, Default)]
struct Changed {
    /// The difference to what its pending reservations count as.
    pending: isize,
    /// The changes to the sums of the namespace.
    sums: Option<Sums>,
    /// The same for quotas with scopes, by name.
    of_quotas: BTreeMap<Name, Sums>,
    /// The same for groups, by their places.
    of_groups: BTreeMap<u32, Sums>,
}

impl Overlay {
    /// No changes, with room for this many reservations that are granted together.
    pub(crate) fn with_room(reservations: usize) -> Self {
        Self(Some(Box::new(Changes {
            ended: Vec::with_capacity(reservations),
            granted: Vec::with_capacity(reservations),
            newest: HashTable::with_capacity(reservations),
            ..Changes::default()
        })))
    }

    /// The number of amounts that were copied from the state so far, since those of a group are copied together.
    pub(crate) fn copied(&self) -> usize {
        self.0.as_ref().map_or(0, |changes| changes.groups.amounts)
    }

    fn in_namespace(&self, namespace: &str) -> Option<&Changed> {
        self.0.as_ref()?.namespaces.get(namespace).map(|changed| &**changed)
    }

    /// The changes to the sums of a quota.
    pub(super) fn of(&self, namespace: &Namespace, quota: &QuotaState) -> Option<&Sums> {
        let changed = self.in_namespace(&namespace.name)?;
        match quota.is_scoped() {
            true => changed.of_quotas.get(&quota.record.name),
            false => changed.sums.as_ref(),
        }
    }

    /// The changes to the reserved amounts of a namespace, with all names that the decision adds to them.
    pub(crate) fn reserved_in(&self, namespace: &str) -> &ResourceList {
        const NONE: &ResourceList = &ResourceList::new();
        let changed = self.in_namespace(namespace);
        changed.and_then(|changed| changed.sums.as_ref()).map_or(NONE, |sums| &sums.reserved)
    }

    /// Whether the decision ends or changes the reservation at this place of the state.
    pub(crate) fn has_ended(&self, place: u32) -> bool {
        self.0.as_ref().is_some_and(|changes| changes.find_ended(place).is_ok())
    }

    /// The changes to the sums of a namespace in a group.
    pub(super) fn of_group(&self, namespace: &str, group: u32) -> Option<&Sums> {
        self.in_namespace(namespace)?.of_groups.get(&group)
    }

    /// The sums of a group.
    pub(super) fn load<'a>(&'a self, groups: &'a Groups, group: u32) -> &'a Load {
        self.copies().load(groups, group)
    }

    /// The sums of all groups.
    pub(super) fn loads<'a>(&'a self, groups: &'a Groups) -> Overlaid<'a, &'a Copies> {
        Overlaid { groups, copies: self.copies() }
    }

    fn copies(&self) -> &Copies {
        const NONE: &Copies = &Copies { loads: BTreeMap::new(), amounts: 0 };
        self.0.as_ref().map_or(NONE, |changes| &changes.groups)
    }

    /// Applies the end of a pending reservation. Returns what it counted as against the bounds on their number.
    pub(crate) fn end(&mut self, state: &State, pending: Pending) -> usize {
        self.0.get_or_insert_default().end(state, pending)
    }

    /// Hands over the pending reservations for objects of this name, in no order, with their owners; none: the decision
    /// itself grants it.
    pub(crate) fn each_pending_for(
        &self,
        state: &State,
        target: Target<'_>,
        mut each: impl FnMut(&Uid, Option<&Name>, Pending),
    ) {
        let hash = state.reservations.hash_of_target(target);
        for (place, tracked) in state.reservations.pending_for(hash, target) {
            if !self.has_ended(place) {
                each(&tracked.reservation.uid, Some(&tracked.owner), Pending::Recorded(place));
            }
        }
        let granted = self.0.as_ref().and_then(|changes| changes.granted_for(hash, target));
        if let Some((index, granted)) = granted {
            each(&granted.uid, None, Pending::Granted(index));
        }
    }

    /// The difference to what the pending reservations in the state count as.
    pub(crate) fn more_pending(&self) -> isize {
        self.0.as_ref().map_or(0, |changes| changes.pending)
    }

    /// The difference to what those of a namespace count as.
    pub(crate) fn more_pending_in(&self, namespace: &str) -> isize {
        self.in_namespace(namespace).map_or(0, |changed| changed.pending)
    }

    /// Applies what a request was granted. The reservations that it superseded have ended already.
    pub(crate) fn follow(&mut self, state: &State, event: &Event) {
        self.0.get_or_insert_default().follow(state, event);
    }
}

impl Changes {
    fn find_ended(&self, place: u32) -> Result<usize, usize> {
        self.ended.binary_search_by_key(&place, |(place, _)| *place)
    }

    /// The newest reservation that the decision grants for a target, unless it has ended.
    fn granted_for(&self, hash: u64, target: Target<'_>) -> Option<(usize, &Reservation)> {
        let is_for = |&index: &usize| Target::of(&self.granted[index].0) == Some(target);
        let index = *self.newest.find(hash, is_for)?;
        let (granted, has_ended) = &self.granted[index];
        (!has_ended).then_some((index, granted))
    }

    /// Applies the grant or the end of a reservation, which counts as this many against the bounds on their number.
    /// Returns that number.
    fn change(
        &mut self,
        state: &State,
        reservation: &Reservation,
        count: usize,
        change: Change,
    ) -> usize {
        const NONE: &Sums = &Sums::NONE;
        let more = match change {
            Change::Add => count.cast_signed(),
            Change::Remove => -count.cast_signed(),
        };
        let changed = self.namespaces.entry_ref(&reservation.namespace).or_default();
        self.pending += more;
        changed.pending += more;
        let observed = state.beside_pending(reservation);
        let namespace = state.namespaces.find(&reservation.namespace);
        let target = &reservation.footprint;
        for link in state.path_of(&reservation.namespace).iter() {
            let counts = |footprint: &_| state.groups.counts(link, footprint);
            let Some(amounts) = hold(counts, target, observed) else {
                continue;
            };
            let parts = Parts::of(&target.traits, amounts);
            let share = namespace.and_then(|namespace| namespace.share_of(link.group));
            let share = share.map_or(NONE, |share| &**share);
            let changed = changed.of_groups.entry(link.group);
            let changed = changed.or_insert_with(|| share.unchanged());
            let excess = changed.count_with_zeros(Sum::Reserved, &parts, change);
            let mut groups = Overlaid { groups: &state.groups, copies: &mut self.groups };
            let sum = Sum::Reserved;
            count_changed(&mut groups, link.group, sum, &parts, &excess, change);
        }
        let parts = Parts::of(&target.traits, growth(target, observed));
        let sums = namespace.map_or(NONE, |namespace| &*namespace.sums);
        let changed_sums = changed.sums.get_or_insert_with(|| sums.unchanged());
        changed_sums.count_with_zeros(Sum::Reserved, &parts, change);
        let quotas = namespace.into_iter().flat_map(|namespace| namespace.quotas.values());
        for quota in quotas.filter(|quota| quota.is_scoped()) {
            let Some(amounts) = quota.hold(target, observed) else {
                continue;
            };
            let sums = &*quota.scoped;
            let changed = changed.of_quotas.entry(quota.record.name.clone());
            let changed = changed.or_insert_with(|| sums.unchanged());
            let parts = Parts::of(&target.traits, amounts);
            changed.count_with_zeros(Sum::Reserved, &parts, change);
        }
        count
    }

    fn end(&mut self, state: &State, pending: Pending) -> usize {
        match pending {
            Pending::Granted(index) => {
                let (granted, has_ended) = &mut self.granted[index];
                if !std::mem::replace(has_ended, true) {
                    let granted = granted.clone();
                    let count = size::count_of_bytes(size::of_reservation(&granted));
                    return self.change(state, &granted, count, Change::Remove);
                }
            }
            Pending::Recorded(place) => match self.find_ended(place) {
                Ok(at) => {
                    if let Some(grown) = self.ended[at].1 {
                        return self.end(state, Pending::Granted(grown));
                    }
                }
                Err(at) => {
                    self.ended.insert(at, (place, None));
                    let ended = state.reservations.get(place);
                    let (reservation, count) = (&ended.reservation, ended.count());
                    return self.change(state, reservation, count, Change::Remove);
                }
            },
        }
        0
    }

    fn follow(&mut self, state: &State, event: &Event) {
        match event {
            Event::ReservationGranted(reservation) => self.grant(state, reservation.clone()),
            Event::ReservationGrown { uid, namespace, footprint, .. } => {
                let Some((place, pending)) = state.reservations.find_pending(namespace, uid) else {
                    return;
                };
                self.end(state, Pending::Recorded(place));
                if let Ok(at) = self.find_ended(place) {
                    self.ended[at].1 = Some(self.granted.len());
                }
                let mut grown = (*pending.reservation).clone();
                grown.grow(footprint.clone(), grown.expiration);
                self.grant(state, Arc::new(grown));
            }
            _ => {}
        }
    }

    fn grant(&mut self, state: &State, reservation: Arc<Reservation>) {
        let count = size::count_of_bytes(size::of_reservation(&reservation));
        self.change(state, &reservation, count, Change::Add);
        let index = self.granted.len();
        self.granted.push((reservation.clone(), false));
        let Some(target) = Target::of(&reservation) else {
            return;
        };
        let hash = state.reservations.hash_of_target(target);
        let granted = &self.granted;
        let target_of = |&index: &usize| Target::of(&granted[index].0);
        let hash_of = |index: &usize| {
            target_of(index).map_or(0, |target| state.reservations.hash_of_target(target))
        };
        match self.newest.entry(hash, |index| target_of(index) == Some(target), hash_of) {
            Entry::Occupied(mut newest) => *newest.get_mut() = index,
            Entry::Vacant(newest) => drop(newest.insert(index)),
        }
    }
}

/// The sums of changed groups and of their ancestors.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    loads: BTreeMap<u32, Load>,
    /// The number of amounts that were copied.
    amounts: usize,
}

impl Copies {
    fn load<'a>(&'a self, groups: &'a Groups, group: u32) -> &'a Load {
        let changed = self.loads.get(&group);
        changed.unwrap_or_else(|| groups.load(group))
    }
}

/// Groups with the changes of the decision: changed sums are copies.
pub(super) struct Overlaid<'a, C> {
    groups: &'a Groups,
    copies: C,
}

impl<C: Borrow<Copies>> Loads for Overlaid<'_, C> {
    type Id = u32;

    fn parent(&self, group: u32) -> Option<u32> {
        self.groups.parent(group)
    }

    fn guaranteed(&self, group: u32) -> &ResourceList {
        self.groups.guaranteed(group)
    }

    fn load(&self, group: u32) -> &Load {
        self.copies.borrow().load(self.groups, group)
    }
}

impl LoadsMut for Overlaid<'_, &mut Copies> {
    fn load_mut(&mut self, group: u32) -> &mut Load {
        let Copies { loads, amounts } = &mut *self.copies;
        loads.entry(group).or_insert_with(|| {
            let load = self.groups.load(group).clone();
            *amounts += load.used.len() + load.reserved.len() + load.set_aside.len();
            load
        })
    }
}
