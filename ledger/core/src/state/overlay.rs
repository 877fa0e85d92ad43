//! The changes of a decision before they are recorded.

use std::{borrow::Borrow, collections::BTreeMap, sync::Arc};

use hashbrown::{HashMap, HashSet};

use super::{
    State,
    groups::{Groups, count_changed},
    namespaces::{Namespace, QuotaState, growth, hold},
    sums::{Change, Parts, Sums},
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

/// The changes of a decision under way, before they are entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    namespaces: HashMap<Name, Changed>,
    groups: Copies,
    /// Pending reservations of the state that have ended or changed.
    ended: HashSet<(Name, Uid)>,
    granted: HashMap<(Name, Uid), Arc<Reservation>>,
    /// The uid of the newest granted one of each name.
    newest: HashMap<(Name, Name, Box<str>), Uid>,
    /// The difference to what the pending reservations in the state count as against the bounds on their number.
    pending: isize,
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
    /// The number of amounts that were copied from the state so far, since those of a group are copied together.
    pub(crate) const fn copied(&self) -> usize {
        self.groups.amounts
    }

    /// The changes to the sums of a quota.
    pub(super) fn of(&self, namespace: &Namespace, quota: &QuotaState) -> Option<&Sums> {
        if self.namespaces.is_empty() {
            return None;
        }
        let changed = self.namespaces.get(&namespace.name)?;
        match quota.is_scoped() {
            true => changed.of_quotas.get(&quota.record.name),
            false => changed.sums.as_ref(),
        }
    }

    /// The changes to the reserved amounts of a namespace, with all names that the decision adds to them.
    pub(crate) fn reserved_in(&self, namespace: &str) -> &ResourceList {
        const NONE: &ResourceList = &ResourceList::new();
        let changed = self.namespaces.get(namespace);
        changed.and_then(|changed| changed.sums.as_ref()).map_or(NONE, |sums| &sums.reserved)
    }

    /// Whether the decision ends this reservation of the state.
    pub(crate) fn has_ended(&self, namespace: &Name, uid: &Uid) -> bool {
        !self.ended.is_empty() && self.ended.contains(&(namespace.clone(), uid.clone()))
    }

    /// The changes to the sums of a namespace in a group.
    pub(super) fn of_group(&self, namespace: &str, group: u32) -> Option<&Sums> {
        self.namespaces.get(namespace)?.of_groups.get(&group)
    }

    /// The sums of a group.
    pub(super) fn load<'a>(&'a self, groups: &'a Groups, group: u32) -> &'a Load {
        self.groups.load(groups, group)
    }

    /// The sums of all groups.
    pub(super) const fn loads<'a>(&'a self, groups: &'a Groups) -> Overlaid<'a, &'a Copies> {
        Overlaid { groups, copies: &self.groups }
    }

    /// Applies the grant or the end of a reservation.
    fn change(&mut self, state: &State, reservation: &Reservation, change: Change) {
        const NONE: &Sums = &Sums::NONE;
        let count = size::count_of_reserved(&reservation.footprint).cast_signed();
        let more = match change {
            Change::Add => count,
            Change::Remove => -count,
        };
        let changed = self.namespaces.entry_ref(&reservation.namespace).or_default();
        self.pending += more;
        changed.pending += more;
        let observed = state.beside_pending(reservation);
        let namespace = state.namespaces.find(&reservation.namespace);
        let target = &reservation.footprint;
        for link in state.chain_of(&reservation.namespace).iter() {
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
    }

    /// Applies the end of a pending reservation.
    pub(crate) fn end(&mut self, state: &State, namespace: &Name, uid: &Uid) {
        let key = (namespace.clone(), uid.clone());
        let reservation = match self.granted.remove(&key) {
            Some(granted) => granted,
            None => match state.pending_of(namespace, uid) {
                Some(pending) if self.ended.insert(key) => pending.reservation.clone(),
                _ => return,
            },
        };
        self.change(state, &reservation, Change::Remove);
    }

    /// The pending reservations for objects of this name, by uid, with their owners; none: the decision itself grants
    /// it.
    pub(crate) fn pending_for<'s>(
        &self,
        state: &'s State,
        namespace: &'s Name,
        resource: &'s Name,
        name: &'s str,
    ) -> Vec<(Uid, Option<&'s Name>)> {
        let of_state = state.named(namespace, resource, name).map(|tracked| {
            let uid = tracked.reservation.uid.clone();
            (uid, Some(&tracked.owner))
        });
        let is_there = |uid: &Uid| !self.has_ended(namespace, uid);
        let mut all: Vec<_> = of_state.filter(|(uid, _)| is_there(uid)).collect();
        if !self.granted.is_empty() {
            let target = (namespace.clone(), resource.clone(), name.into());
            let newest = self.newest.get(&target).cloned();
            let is_granted = |uid: &Uid| {
                let key = (namespace.clone(), uid.clone());
                self.granted.contains_key(&key)
            };
            all.extend(newest.filter(is_granted).map(|uid| (uid, None)));
        }
        all.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        all
    }

    /// The differences to what the pending reservations in the state count as: in all, and in a namespace.
    pub(crate) fn more_pending(&self, namespace: &str) -> [isize; 2] {
        let here = self.namespaces.get(namespace);
        [self.pending, here.map_or(0, |changed| changed.pending)]
    }

    /// Applies an event.
    pub(crate) fn follow(&mut self, state: &State, event: &Event) {
        match event {
            Event::ReservationGranted(reservation) => self.grant(state, reservation.clone()),
            Event::ReservationSuperseded { uid, namespace, .. } => {
                self.end(state, namespace, uid);
            }
            Event::ReservationGrown { uid, namespace, footprint, .. } => {
                let Some(pending) = state.pending_of(namespace, uid) else {
                    return;
                };
                self.end(state, namespace, uid);
                let grown =
                    Reservation { footprint: footprint.clone(), ..(*pending.reservation).clone() };
                self.grant(state, Arc::new(grown));
            }
            _ => {}
        }
    }

    fn grant(&mut self, state: &State, reservation: Arc<Reservation>) {
        self.change(state, &reservation, Change::Add);
        let Reservation { uid, namespace, resource, name, .. } = &*reservation;
        let target = (namespace.clone(), resource.clone(), name.clone());
        self.newest.insert(target, uid.clone());
        let key = (namespace.clone(), uid.clone());
        self.granted.insert(key, reservation);
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
