//! Other limits over the same past: a state without objects, reservations and sums of namespaces of its own, whose other
//! sums follow those of the state that has them. So what would count against other limits costs no second fold.
//!
//! Both have the same namespaces at the same places. Therefore none is dropped, even if it is empty.

use std::{mem, sync::Arc};

use super::{
    State,
    namespaces::{Claim, Namespace},
    sums::{Change, Excess, Parts},
};
use crate::event::{Entry, Event, Reservation};
use quota_semantics::{Name, object::Footprint};

/// Whether there are other limits for the same past.
#[derive(Clone, Debug, Default)]
pub(crate) enum Others {
    /// There are none.
    #[default]
    None,
    /// They follow this state, by what the last entry has changed in the sums.
    Follow(Vec<Counting>),
    /// This state has them.
    Here,
}

/// A change of the sums of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct Counting {
    pub(super) namespace: u32,
    pub(super) what: What,
    /// What it changes beyond its direct amounts.
    pub(super) excess: Excess,
    pub(super) direction: Change,
}

/// What is added or removed.
#[derive(Clone, Debug)]
pub(crate) enum What {
    /// An object.
    Object(Arc<Footprint>),
    /// A pending reservation, and what counts beside it.
    Pending(Arc<Reservation>, Option<Arc<Footprint>>),
    /// A commit, and what counts beside it.
    Committed(Arc<Footprint>, Option<Arc<Footprint>>),
}

impl State {
    /// Makes another state for the same past, in which `set` sets other limits. These namespaces may be new to both.
    ///
    /// # Errors
    /// Those of `set`.
    pub(crate) fn with_other_limits<'n, E>(
        &mut self,
        namespaces: impl Iterator<Item = &'n Name>,
        set: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<Self, E> {
        self.others = Others::Follow(Vec::new());
        for namespace in namespaces {
            self.ensure_namespace(namespace);
        }
        let mut other = self.clone();
        other.others = Others::Here;
        set(&mut other)?;
        other.swap_facts(&mut Self::default());
        for place in 0..other.namespaces.slab.places() {
            if let Some(namespace) = other.namespaces.slab.get_mut(place) {
                namespace.swap_counted(&mut Namespace::default());
            }
        }
        Ok(other)
    }

    /// Lets other limits follow the last entry, or only its namespace and time.
    pub(crate) fn lead(&mut self, other: &mut Self, entry: &Entry, follows: bool) {
        if follows && is_about_limits(&entry.event) {
            self.lead_in_limits(other, entry);
        }
        other.head = self.head;
        let namespace = entry.event.namespace();
        if let Some(name) = namespace.filter(|name| self.namespaces.place(name).is_some()) {
            other.ensure_namespace(name);
        }
        let Others::Follow(changes) = &mut self.others else { return };
        let Self { namespaces, groups, .. } = other;
        for Counting { namespace, what, excess, direction } in changes.drain(..) {
            if !follows || namespaces.get(namespace).has_no_other_sums() {
                continue;
            }
            let namespace = namespaces.get_mut(namespace);
            let (claim, target, beside) = match &what {
                What::Object(footprint) => {
                    namespace.count_scoped(footprint, &Parts::all(footprint), direction);
                    groups.count_object(namespace, footprint, &excess, direction);
                    continue;
                }
                What::Pending(it, beside) => (Claim::Pending, &*it.footprint, beside.as_deref()),
                What::Committed(it, beside) => (Claim::Committed, &**it, beside.as_deref()),
            };
            namespace.claim_scoped(claim, target, beside, direction);
            groups.count_claim(namespace, claim, (target, beside), &excess, direction);
        }
    }

    /// Applies an entry about limits or namespaces, which may count all objects of its namespaces.
    fn lead_in_limits(&mut self, other: &mut Self, entry: &Entry) {
        let places: Vec<u32> = match entry.event.namespace() {
            Some(name) => self.namespaces.place(name).into_iter().collect(),
            None => self.namespaces.slab.iter().map(|(place, _)| place).collect(),
        };
        self.lend(other, &places);
        other.apply(entry);
        self.lend(other, &places);
    }

    /// Lends the facts about these namespaces to other limits, or takes them back.
    fn lend(&mut self, other: &mut Self, places: &[u32]) {
        other.swap_facts(self);
        for &place in places {
            let namespace = other.namespaces.slab.get_mut(place);
            if let Some((namespace, own)) = namespace.zip(self.namespaces.slab.get_mut(place)) {
                namespace.swap_counted(own);
            }
        }
    }

    /// Lends the sums of a namespace to other limits, or takes them back.
    pub(crate) fn lend_sums(&mut self, other: &mut Self, namespace: &str) {
        let Some(place) = self.namespaces.place(namespace) else { return };
        let own = self.namespaces.slab.get_mut(place);
        if let Some((own, other)) = own.zip(other.namespaces.slab.get_mut(place)) {
            mem::swap(&mut own.sums, &mut other.sums);
        }
    }

    /// A state of its own with the facts of this one, and other limits that follow it.
    pub(crate) fn apart_with(&self, other: &Self) -> Self {
        let mut apart = Self {
            groups: other.groups.clone(),
            deadlines: other.deadlines.clone(),
            others: Others::None,
            ..self.clone()
        };
        for (place, limits) in other.namespaces.slab.iter() {
            let Some(namespace) = apart.namespaces.slab.get_mut(place) else { continue };
            namespace.quotas = limits.quotas.clone();
            namespace.path = limits.path.clone();
            namespace.shares = limits.shares.clone();
        }
        apart
    }

    /// Whether a namespace would not exist.
    pub(crate) fn is_vacant(&self, namespace: &str) -> bool {
        self.namespaces.find(namespace).is_none_or(Namespace::is_empty)
    }

    fn swap_facts(&mut self, other: &mut Self) {
        mem::swap(&mut self.resources, &mut other.resources);
        mem::swap(&mut self.footprints, &mut other.footprints);
        mem::swap(&mut self.objects, &mut other.objects);
        mem::swap(&mut self.reservations, &mut other.reservations);
        mem::swap(&mut self.bearers, &mut other.bearers);
    }
}

fn is_about_limits(event: &Event) -> bool {
    matches!(
        event,
        Event::QuotaSet(_)
            | Event::QuotaDeleted { .. }
            | Event::GroupSet(_)
            | Event::GroupDeleted { .. }
            | Event::OverrideEnded { .. }
            | Event::NamespaceObserved(_)
            | Event::NamespaceDeleted { .. }
    )
}

impl Namespace {
    fn swap_counted(&mut self, other: &mut Self) {
        mem::swap(&mut self.sums, &mut other.sums);
        mem::swap(&mut self.objects, &mut other.objects);
        mem::swap(&mut self.pending, &mut other.pending);
        mem::swap(&mut self.committed, &mut other.committed);
    }
}
