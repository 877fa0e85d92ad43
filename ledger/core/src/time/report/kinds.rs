//! The parts of namespaces by kinds and workloads.
//!
//! An object counts in the row of its kind; one that is charged for its pods may have a row of its own. A reservation
//! and a commit count in the row of their object. What the pods of charged workloads need beyond the charge counts in the
//! row of pods. So the rows add up to the sums of the namespaces.
//!
//! Everything counts in the row of pods unless it is part of another one: the sums of a namespace go there, and each
//! part is moved to its own row.

use super::rows::{RowKey, Rows};
use crate::{
    event::{Entry, Event},
    state::{ClaimPart, ObjectPart, State},
};
use quota_semantics::{
    Name,
    object::{Footprint, Traits},
    uid::Uid,
};

/// The kind of the objects that are set against charges.
pub(super) const PODS: &str = "pods";

/// The row of an object, if workloads have rows of their own.
pub(super) fn workload(namespace: &Name, kind: &Name, name: &str, footprint: &Footprint) -> RowKey {
    match footprint.traits {
        Traits::Template { .. } => {
            RowKey::Workload { namespace: namespace.clone(), kind: kind.clone(), name: name.into() }
        }
        _ => RowKey::Kind(kind.clone()),
    }
}

/// Whether an event may change the object itself.
const fn is_of_object(event: &Event) -> bool {
    matches!(
        event,
        Event::ObjectObserved(_)
            | Event::ObjectReplaced(_)
            | Event::ObjectCorrected(_)
            | Event::ObjectLapsed { .. }
            | Event::ObjectDeleted { .. }
            | Event::ObjectEnded(_)
    )
}

/// Moves the parts of namespaces to their rows.
pub(super) struct Kinds {
    by_workload: bool,
    touched: Touched,
}

/// What an entry may change.
#[derive(Default)]
enum Touched {
    #[default]
    Nothing,
    /// The parts that depend on an object: its own, if it may be another one, and those of reservations.
    One(Name, Uid, bool),
    /// All parts of all namespaces that count.
    All,
}

impl Kinds {
    pub(super) fn begin(state: &State, rows: &mut Rows, by_workload: bool) -> Self {
        let mut kinds = Self { by_workload, touched: Touched::All };
        kinds.after(state, rows);
        rows.settle();
        kinds
    }

    /// Takes what an entry may change out of its rows, given the state before it. `counts`: whether its namespace
    /// does.
    pub(super) fn before(&mut self, state: &State, entry: &Entry, rows: &mut Rows, counts: bool) {
        self.touched = match (&entry.event, entry.event.object()) {
            (Event::WorkloadsCharged { .. }, _) => Touched::All,
            (event, Some((namespace, uid))) if counts => {
                Touched::One(namespace.clone(), uid.clone(), is_of_object(event))
            }
            _ => Touched::Nothing,
        };
        self.touch(state, rows, false);
    }

    /// Puts it into its rows, given the state behind the entry.
    pub(super) fn after(&mut self, state: &State, rows: &mut Rows) {
        self.touch(state, rows, true);
        self.touched = Touched::Nothing;
    }

    fn touch(&self, state: &State, rows: &mut Rows, is_added: bool) {
        match &self.touched {
            Touched::Nothing => {}
            Touched::One(namespace, uid, is_of_object) => {
                if *is_of_object && let Some(part) = state.object_part(namespace, uid) {
                    self.object(namespace, &part, rows, is_added);
                }
                for claim in state.claim_parts_of(namespace, uid) {
                    self.claim(namespace, &claim, rows, is_added);
                }
            }
            Touched::All => {
                for namespace in rows.counting() {
                    self.all_of(state, &namespace, rows, is_added);
                }
            }
        }
    }

    /// Moves all parts of a namespace.
    pub(super) fn all_of(&self, state: &State, namespace: &Name, rows: &mut Rows, is_added: bool) {
        for part in state.object_parts(namespace) {
            self.object(namespace, &part, rows, is_added);
        }
        for claim in state.claim_parts(namespace) {
            self.claim(namespace, &claim, rows, is_added);
        }
    }

    fn object(&self, namespace: &Name, part: &ObjectPart<'_>, rows: &mut Rows, is_added: bool) {
        let key = self.key(namespace, part.resource, part.name, part.footprint);
        if let Some(key) = key {
            rows.part(key, &part.amounts(), false, is_added);
        }
    }

    fn claim(&self, namespace: &Name, claim: &ClaimPart<'_>, rows: &mut Rows, is_added: bool) {
        let ClaimPart { reservation, is_pending, target, .. } = claim;
        let key = self.key(namespace, &reservation.resource, &reservation.name, target);
        if let Some(key) = key {
            rows.part(key, &claim.amounts(), *is_pending, is_added);
        }
    }

    /// The row of a part; none: that of the rest.
    fn key(&self, namespace: &Name, kind: &Name, name: &str, of: &Footprint) -> Option<RowKey> {
        match self.by_workload && matches!(of.traits, Traits::Template { .. }) {
            true => Some(workload(namespace, kind, name, of)),
            false => (*kind != *PODS).then(|| RowKey::Kind(kind.clone())),
        }
    }
}
