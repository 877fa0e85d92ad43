//! Follows the numbers of a state from entry to entry.

use std::{cmp::Ordering, collections::BTreeMap, mem};

use hashbrown::HashMap;

use super::{Level, Moment};
use crate::{
    event::Entry,
    state::{State, Touched},
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
    touched: Touched,
    touched_groups: Vec<Name>,
    at: Moment,
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
            touched: Touched { all_groups: true, all_namespaces: true, ..Touched::default() },
            touched_groups: Vec::new(),
            at: Moment { time: head.time, sequence: head.sequence },
        };
        tracker.after(state, changes);
        tracker
    }

    /// Notes what an entry may change, given the state before it.
    pub fn before(&mut self, state: &State, entry: &Entry) {
        self.touched = state.touched(&entry.event);
        self.touched_groups.clear();
        if let (Some(_), Some(namespace)) = (&self.wanted.groups, &self.touched.namespace) {
            self.touched_groups.extend(state.counting_groups(namespace));
        }
        self.touched_groups.extend(self.touched.group.take());
        self.at = Moment { time: entry.time, sequence: entry.sequence };
    }

    /// Reports what the entry has changed, given the state behind it. Only the first call after
    /// [`before`](Self::before) has an effect.
    pub fn after(&mut self, state: &State, changes: &mut impl Changes) {
        let touched = mem::take(&mut self.touched);
        if let Some(namespace) = touched.namespace.filter(|_| !touched.all_namespaces) {
            if self.wanted.groups.is_some() {
                self.touched_groups.extend(state.counting_groups(&namespace));
            }
            self.renew_namespace(state, &namespace, changes);
        }
        let mut groups = mem::take(&mut self.touched_groups);
        if touched.all_namespaces || touched.all_groups {
            let (all_namespaces, all_groups) = state.all_names();
            if touched.all_namespaces {
                let gone = self.namespaces.keys().cloned();
                let mut all: Vec<Name> = all_namespaces.into_iter().chain(gone).collect();
                all.sort_unstable();
                all.dedup();
                for namespace in all {
                    self.renew_namespace(state, &namespace, changes);
                }
            }
            groups.extend(all_groups);
            groups.extend(self.groups.keys().cloned());
        }
        groups.sort_unstable();
        groups.dedup();
        for group in &groups {
            self.renew_group(state, group, changes);
        }
        groups.clear();
        self.touched_groups = groups;
    }

    /// The sums of a namespace as they were reported last, by resource.
    pub(super) fn levels_of(&self, namespace: &str) -> impl Iterator<Item = (&Name, &Level)> {
        let known = self.namespaces.get(namespace).into_iter();
        let figures = known.flat_map(|known| &known.sums.0);
        figures.filter_map(|figure| Some((&figure.key.resource, figure.level.as_ref()?)))
    }

    fn renew_namespace(&mut self, state: &State, name: &Name, changes: &mut impl Changes) {
        if !(self.wanted.sums || self.wanted.quotas) || !(self.wanted.namespaces)(name) {
            return;
        }
        let known = self.namespaces.entry_ref(name).or_default();
        let mut renewal = Renewal { slots: &mut self.slots, at: self.at, changes };
        if self.wanted.sums {
            let levels = state.sums_and_limits(name);
            let subject = || Subject::Namespace(name.clone());
            renewal.renew(&mut known.sums, levels.iter(), subject);
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
    fn renew<'l>(
        &mut self,
        figures: &mut Figures,
        levels: impl Iterator<Item = (&'l Name, Level)>,
        subject: impl Fn() -> Subject,
    ) {
        let known = &mut figures.0;
        let mut at = 0;
        for (resource, level) in levels {
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
