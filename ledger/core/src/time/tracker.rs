//! Follows the numbers of a state from entry to entry.

use std::{borrow::Borrow, cmp::Ordering, collections::BTreeMap, mem};

use hashbrown::HashMap;

use super::{Level, Moment};
use crate::{
    event::Entry,
    state::{State, SumsOf},
};
use quota_semantics::Name;

/// What a number is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// The sum of a namespace, with the least of the limits that count all of it.
    Namespace(Name),
    /// A quota.
    Quota {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        name: Name,
    },
    /// A group.
    Group(Name),
}

/// A number: a resource of a subject.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// What it is about.
    pub subject: Subject,
    /// The resource.
    pub resource: Name,
}

/// Takes the changes of numbers.
pub trait Changes {
    /// A number has another level from a moment on; none: there is no such number. Each number has a `slot`: they are
    /// given in the order in which numbers first appear, without gaps, and stay the same.
    fn change(
        &mut self,
        slot: usize,
        key: &Key,
        at: Moment,
        before: Option<&Level>,
        after: Option<&Level>,
    );
}

/// Selects names.
pub type Names = Box<dyn Fn(&str) -> bool + Send>;

/// The numbers that are followed.
pub struct Wanted {
    /// The sums of namespaces.
    pub sums: bool,
    /// The limits of quotas.
    pub quotas: bool,
    /// Of these namespaces.
    pub namespaces: Names,
    /// The limits of these groups; none: of no group.
    pub groups: Option<Names>,
}

/// Follows the numbers of a state. For each entry call [`before`](Self::before) with the state before it, and
/// [`after`](Self::after) with the state behind it.
pub struct Tracker {
    wanted: Wanted,
    namespaces: HashMap<Name, OfNamespace>,
    groups: HashMap<Name, Figures>,
    slots: usize,
    touched: Marked,
    at: Moment,
}

/// What the last entry may have changed.
#[derive(Default)]
struct Marked {
    namespace: Option<Name>,
    groups: Vec<Name>,
    all_groups: bool,
    all_namespaces: bool,
}

#[derive(Default)]
struct OfNamespace {
    sums: Figures,
    quotas: BTreeMap<Name, Figures>,
}

/// The numbers of a subject, by resource.
#[derive(Default)]
struct Figures(Vec<Figure>);

struct Figure {
    slot: usize,
    key: Key,
    level: Option<Level>,
}

impl Tracker {
    /// Follows the wanted numbers from this state on: each that exists is reported with the moment of the last entry.
    pub fn begin(wanted: Wanted, state: &State, changes: &mut impl Changes) -> Self {
        let head = state.head();
        let mut tracker = Self {
            wanted,
            namespaces: HashMap::default(),
            groups: HashMap::default(),
            slots: 0,
            touched: Marked { all_groups: true, all_namespaces: true, ..Marked::default() },
            at: Moment { time: head.time, sequence: head.sequence },
        };
        tracker.after(state, changes);
        tracker
    }

    /// Notes what an entry may change, given the state before it.
    pub fn before(&mut self, state: &State, entry: &Entry) {
        let touched = state.touched(&entry.event);
        let marked = &mut self.touched;
        marked.namespace = touched.namespace.cloned();
        marked.all_groups = touched.all_groups;
        marked.all_namespaces = touched.all_namespaces;
        marked.groups.clear();
        // An object does not change which groups count its namespace.
        if let Some(namespace) = touched.namespace.filter(|_| touched.limits)
            && self.wanted.groups.is_some()
        {
            marked.groups.extend(state.counting_groups(namespace));
        }
        marked.groups.extend(touched.group.cloned());
        self.at = Moment { time: entry.time, sequence: entry.sequence };
    }

    /// Reports what the entry has changed, given the state behind it. Only the first call after
    /// [`before`](Self::before) has an effect.
    pub fn after(&mut self, state: &State, changes: &mut impl Changes) {
        let Marked { namespace, mut groups, all_groups, all_namespaces } =
            mem::take(&mut self.touched);
        if let Some(namespace) = namespace.filter(|_| !all_namespaces) {
            if self.wanted.groups.is_some() {
                groups.extend(state.counting_groups(&namespace));
            }
            self.renew_namespace(state, &namespace, changes);
        }
        if all_namespaces || all_groups {
            let (names, names_of_groups) = state.all_names();
            if all_namespaces {
                let gone = self.namespaces.keys().cloned();
                let mut all: Vec<Name> = names.into_iter().chain(gone).collect();
                all.sort_unstable();
                all.dedup();
                for namespace in all {
                    self.renew_namespace(state, &namespace, changes);
                }
            }
            groups.extend(names_of_groups);
            groups.extend(self.groups.keys().cloned());
        }
        groups.sort_unstable();
        groups.dedup();
        for group in &groups {
            self.renew_group(state, group, changes);
        }
        groups.clear();
        self.touched.groups = groups;
    }

    fn renew_namespace(&mut self, state: &State, name: &Name, changes: &mut impl Changes) {
        if !(self.wanted.sums || self.wanted.quotas) || !(self.wanted.namespaces)(name) {
            return;
        }
        let known = self.namespaces.entry_ref(name).or_default();
        let mut renewal = Renewal { slots: &mut self.slots, at: self.at, changes };
        if self.wanted.sums {
            let levels = state.sums_of(name).into_iter().flat_map(SumsOf::levels);
            let subject = || Subject::Namespace(name.clone());
            renewal.renew(&mut known.sums, levels, subject);
        }
        if self.wanted.quotas {
            let mut found = 0;
            for (quota, levels) in state.levels_of_quotas(name) {
                found += 1;
                if !known.quotas.contains_key(quota) {
                    known.quotas.insert(quota.clone(), Figures::default());
                }
                let subject = || Subject::Quota { namespace: name.clone(), name: quota.clone() };
                if let Some(figures) = known.quotas.get_mut(quota) {
                    renewal.renew(figures, levels, subject);
                }
            }
            if known.quotas.len() > found {
                for (quota, figures) in &mut known.quotas {
                    if state.quota_record(name, quota).is_none() {
                        figures.0.iter_mut().for_each(|figure| renewal.set(figure, None));
                    }
                }
            }
        }
    }

    fn renew_group(&mut self, state: &State, name: &Name, changes: &mut impl Changes) {
        let is_wanted = self.wanted.groups.as_ref();
        if !is_wanted.is_some_and(|is_wanted| is_wanted(name)) {
            return;
        }
        if !self.groups.contains_key(name) {
            self.groups.insert(name.clone(), Figures::default());
        }
        let mut renewal = Renewal { slots: &mut self.slots, at: self.at, changes };
        if let Some(figures) = self.groups.get_mut(name) {
            let levels = state.levels_of_group(name);
            renewal.renew(figures, levels, || Subject::Group(name.clone()));
        }
    }
}

/// Compares numbers with what they were.
struct Renewal<'a, C> {
    slots: &'a mut usize,
    at: Moment,
    changes: &'a mut C,
}

impl<C: Changes> Renewal<'_, C> {
    /// Reports the differences to the present levels, which are ordered by resource.
    fn renew(
        &mut self,
        figures: &mut Figures,
        levels: impl Iterator<Item = (impl Borrow<Name>, Level)>,
        subject: impl Fn() -> Subject,
    ) {
        let known = &mut figures.0;
        let mut at = 0;
        for (resource, level) in levels {
            let resource: &Name = resource.borrow();
            while let Some(figure) = known.get_mut(at)
                && figure.key.resource < *resource
            {
                self.set(figure, None);
                at += 1;
            }
            let order = known.get(at).map(|figure| figure.key.resource.cmp(resource));
            if order != Some(Ordering::Equal) {
                let key = Key { subject: subject(), resource: resource.clone() };
                let slot = *self.slots;
                *self.slots += 1;
                let level = None;
                known.reserve_exact(1);
                known.insert(at, Figure { slot, key, level });
            }
            if let Some(figure) = known.get_mut(at) {
                self.set(figure, Some(level));
            }
            at += 1;
        }
        for figure in known.iter_mut().skip(at) {
            self.set(figure, None);
        }
    }

    fn set(&mut self, figure: &mut Figure, level: Option<Level>) {
        if figure.level == level {
            return;
        }
        let before = mem::replace(&mut figure.level, level);
        let after = figure.level.as_ref();
        self.changes.change(figure.slot, &figure.key, self.at, before.as_ref(), after);
    }
}
