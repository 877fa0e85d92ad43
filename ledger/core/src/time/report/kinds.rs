//! The parts of namespaces by kinds and workloads.
//!
//! An object counts in the row of its kind; one that is charged for its pods may have a row of its own. A reservation
//! and a commit count in the row of their object. What the pods of charged workloads need beyond the charge counts in the
//! row of pods. So the rows add up to the sums of the namespaces.

use std::collections::BTreeMap;

use hashbrown::HashMap;

use super::{super::Level, rows::Rows};
use crate::{
    event::{Entry, Event},
    state::{ClaimPart, ObjectPart, State},
    time::report::RowKey,
};
use quota_semantics::{
    Name,
    object::{Footprint, Traits},
    resource::ResourceList,
    uid::Uid,
};

/// The kind of the objects that are set against charges.
const PODS: &str = "pods";

/// The row of an object, if workloads have rows of their own.
pub(super) fn workload(namespace: &Name, kind: &Name, name: &str, footprint: &Footprint) -> RowKey {
    match footprint.traits {
        Traits::Template { .. } => {
            RowKey::Workload { namespace: namespace.clone(), kind: kind.clone(), name: name.into() }
        }
        _ => RowKey::Kind(kind.clone()),
    }
}

/// The parts of all namespaces.
pub(super) struct Kinds {
    by_workload: bool,
    /// Whether it follows from groups which namespaces count.
    follows_groups: bool,
    namespaces: HashMap<Name, Parts>,
    touched: Touched,
}

/// The parts of a namespace.
#[derive(Default)]
struct Parts {
    /// The amounts of its objects.
    objects: BTreeMap<RowKey, ResourceList>,
    /// What its rows hold of it.
    shown: BTreeMap<RowKey, BTreeMap<Name, Level>>,
}

#[derive(Default)]
enum Touched {
    #[default]
    Nothing,
    /// A namespace, and an object of it.
    One(Name, Option<Uid>),
    All,
}

impl Kinds {
    pub(super) fn begin(
        state: &State,
        rows: &mut Rows,
        by_workload: bool,
        follows_groups: bool,
    ) -> Self {
        let mut kinds = Self {
            by_workload,
            follows_groups,
            namespaces: HashMap::default(),
            touched: Touched::All,
        };
        kinds.after(state, rows);
        kinds
    }

    pub(super) fn before(&mut self, state: &State, entry: &Entry) {
        self.touched = match &entry.event {
            Event::WorkloadsCharged { .. } => Touched::All,
            Event::GroupSet(_) | Event::GroupDeleted { .. } if self.follows_groups => Touched::All,
            event => match event.namespace() {
                Some(namespace) => Touched::One(namespace.clone(), object_of(event).cloned()),
                None => Touched::Nothing,
            },
        };
        if let Touched::One(namespace, Some(uid)) = &self.touched {
            let part = state.object_part(namespace, uid);
            let by_workload = self.by_workload;
            if let (Some(part), Some(parts)) = (part, self.namespaces.get_mut(namespace)) {
                let key = key(namespace, &part, by_workload);
                if let Some(amounts) = parts.objects.get_mut(&key) {
                    amounts.subtract(&part.amounts());
                    amounts.retain(|_, amount| !amount.is_zero());
                    if amounts.is_empty() {
                        parts.objects.remove(&key);
                    }
                }
            }
        }
    }

    pub(super) fn after(&mut self, state: &State, rows: &mut Rows) {
        match std::mem::take(&mut self.touched) {
            Touched::Nothing => {}
            Touched::One(namespace, uid) => {
                let part = uid.and_then(|uid| state.object_part(&namespace, &uid));
                if let Some(part) = part {
                    let key = key(&namespace, &part, self.by_workload);
                    let parts = self.namespaces.entry(namespace.clone()).or_default();
                    parts.objects.entry(key).or_default().add(&part.amounts());
                }
                self.show(state, &namespace, rows);
            }
            Touched::All => {
                let (mut names, _) = state.all_names();
                names.extend(self.namespaces.keys().cloned());
                names.sort_unstable();
                names.dedup();
                for namespace in names {
                    let parts = self.namespaces.entry(namespace.clone()).or_default();
                    parts.objects.clear();
                    for part in state.object_parts(&namespace) {
                        let key = key(&namespace, &part, self.by_workload);
                        parts.objects.entry(key).or_default().add(&part.amounts());
                    }
                    self.show(state, &namespace, rows);
                }
            }
        }
    }

    /// Shows the parts of a namespace as they are now; none, if the namespace does not count.
    fn show(&mut self, state: &State, namespace: &Name, rows: &mut Rows) {
        let parts = self.namespaces.entry(namespace.clone()).or_default();
        let mut now: BTreeMap<RowKey, BTreeMap<Name, Level>> = BTreeMap::new();
        if rows.counts(namespace) {
            let mut rest = Rest::of(state, namespace);
            let mut add = |key: &RowKey, amounts: &ResourceList, is_pending: bool| {
                rest.take(amounts, is_pending);
                let row = now.entry(key.clone()).or_default();
                for (name, amount) in amounts.iter() {
                    let level = row.entry(name.clone()).or_default();
                    match is_pending {
                        true => level.reserved.add_assign(amount),
                        false => level.used.add_assign(amount),
                    }
                }
            };
            for (key, amounts) in &parts.objects {
                add(key, amounts, false);
            }
            for claim in state.claim_parts(namespace) {
                let ClaimPart { reservation, is_pending, target, amounts } = claim;
                let key = match self.by_workload {
                    true => workload(namespace, &reservation.resource, &reservation.name, target),
                    false => RowKey::Kind(reservation.resource.clone()),
                };
                add(&key, &amounts, is_pending);
            }
            let pods = RowKey::Kind(PODS.into());
            let Rest { used, reserved } = rest;
            for (amounts, is_pending) in [(used, false), (reserved, true)] {
                let amounts = amounts.without_zeros();
                if !amounts.is_empty() {
                    let row = now.entry(pods.clone()).or_default();
                    for (name, amount) in amounts.iter() {
                        let level = row.entry(name.clone()).or_default();
                        match is_pending {
                            true => level.reserved.add_assign(amount),
                            false => level.used.add_assign(amount),
                        }
                    }
                }
            }
        }
        let before = std::mem::take(&mut parts.shown);
        for (key, levels) in &before {
            for (resource, level) in levels {
                if now.get(key).and_then(|now| now.get(resource)).is_none() {
                    rows.shift(key, resource, Some(level), None);
                }
            }
        }
        for (key, levels) in &now {
            let before = before.get(key);
            for (resource, level) in levels {
                let before = before.and_then(|before| before.get(resource));
                if before != Some(level) {
                    rows.shift(key, resource, before, Some(level));
                }
            }
        }
        parts.shown = now;
    }
}

/// What remains of the sums of a namespace without the amounts that count by themselves.
struct Rest {
    used: ResourceList,
    reserved: ResourceList,
}

impl Rest {
    fn of(state: &State, namespace: &str) -> Self {
        let [used, reserved] = state.sums_in(namespace);
        Self { used: used.clone(), reserved: reserved.clone() }
    }

    fn take(&mut self, amounts: &ResourceList, is_pending: bool) {
        match is_pending {
            true => self.reserved.subtract(amounts),
            false => self.used.subtract(amounts),
        }
    }
}

fn key(namespace: &Name, part: &ObjectPart<'_>, by_workload: bool) -> RowKey {
    match by_workload {
        true => workload(namespace, part.resource, part.name, part.footprint),
        false => RowKey::Kind(part.resource.clone()),
    }
}

/// The object whose footprint an event may change.
fn object_of(event: &Event) -> Option<&Uid> {
    match event {
        Event::ObjectObserved(object) | Event::ObjectReplaced(object) => Some(&object.uid),
        Event::ObjectCorrected(correction) => Some(&correction.object.uid),
        Event::ObjectEnded(ending) => Some(&ending.uid),
        Event::ObjectLapsed { uid, .. } | Event::ObjectDeleted { uid, .. } => Some(uid),
        _ => None,
    }
}
