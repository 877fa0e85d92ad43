//! Checks that the tables of an image agree with each other.
//!
//! The fold relies on that, and hashes do not show it: whoever can change a snapshot can compute them again. What only
//! the entries show is not checked here: amounts and sums. For these there is `quotactl ledger verify`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    codec::DecodeError,
    event::Sequence,
    state::{
        State,
        groups::{self, Group, mark},
        namespaces::{Namespace, Namespaces},
        objects::Object,
        pool::Pooled,
        relists::Relists,
        slab::Slab,
        tracked_reservation::Tracked,
    },
};
use quota_semantics::{Name, object::Footprint, uid::Uid};

fn wrong(why: &str) -> DecodeError {
    DecodeError(format!("tables that do not agree: {why}"))
}

fn check(holds: bool, why: &str) -> Result<(), DecodeError> {
    match holds {
        true => Ok(()),
        false => Err(wrong(why)),
    }
}

/// The tables of an image as they were read, before anything is derived from them.
pub(super) struct Tables<'a> {
    pub(super) head: Sequence,
    pub(super) namespaces: &'a Namespaces,
    pub(super) resources: &'a Slab<Pooled<Name>, 256>,
    pub(super) footprints: &'a Slab<Pooled<Footprint>, 256>,
    pub(super) objects: &'a Slab<Object, 256>,
    pub(super) reservations: &'a Slab<Tracked, 64>,
    pub(super) groups: &'a Slab<Group, { groups::CHUNK }>,
    pub(super) bearers: &'a BTreeMap<u32, Uid>,
    pub(super) relists: &'a Relists,
}

impl Tables<'_> {
    /// # Errors
    /// The first contradiction.
    pub(super) fn check(&self) -> Result<(), DecodeError> {
        self.check_namespaces()?;
        self.check_objects()?;
        self.check_reservations()?;
        self.check_groups()?;
        self.check_marks()
    }

    /// An entry that the state refers to is not behind its last one.
    fn check_entry(&self, entry: Sequence) -> Result<(), DecodeError> {
        check(entry <= self.head, "an entry behind the last one")
    }

    fn check_namespaces(&self) -> Result<(), DecodeError> {
        let Namespaces { slab, by_name, .. } = self.namespaces;
        check(by_name.len() == slab.len() as usize, "two namespaces of one name")?;
        for (_, namespace) in slab.iter() {
            for (name, quota) in &namespace.quotas {
                let record = &quota.record;
                let is_here = record.name == *name && record.namespace == namespace.name;
                check(is_here, "a quota at another name")?;
                self.check_entry(quota.entry)?;
            }
            if let Some(observed) = &namespace.observed {
                let is_here = observed.record.name == namespace.name;
                check(is_here, "a record of another namespace")?;
                self.check_entry(observed.entry.max(observed.seen))?;
            }
        }
        Ok(())
    }

    /// Each object is in the list of its namespace, and nothing else is; each value is kept for as many objects as it says.
    fn check_objects(&self) -> Result<(), DecodeError> {
        let mut resources = Holders::new(self.resources);
        let mut footprints = Holders::new(self.footprints);
        for (place, object) in self.objects.iter() {
            let namespace = self.namespaces.slab.get(object.namespace);
            let siblings = namespace.map(|namespace| &namespace.objects);
            let listed = siblings.and_then(|siblings| siblings.get(object.position as usize));
            check(listed == Some(&place), "an object that is not listed")?;
            resources.count(object.resource)?;
            footprints.count(object.footprint)?;
            self.check_entry(object.entry)?;
        }
        let listed = |namespace: &Namespace| namespace.objects.len();
        let listed = self.namespaces.slab.iter().map(|(_, it)| listed(it));
        check(
            listed.sum::<usize>() == self.objects.len() as usize,
            "a listed object that does not exist",
        )?;
        resources.check(self.resources)?;
        footprints.check(self.footprints)
    }

    /// Each pending reservation and each commit is in the list of its namespace, and nothing else is. There is at most
    /// one of each kind for an object.
    fn check_reservations(&self) -> Result<(), DecodeError> {
        let (mut pending, mut committed) = (0, 0);
        for (place, tracked) in self.reservations.iter() {
            self.check_entry(tracked.entry)?;
            if let Some(ended) = &tracked.ended {
                self.check_entry(ended.entry)?;
            }
            let namespace = self.namespaces.find(&tracked.reservation.namespace);
            let lists = |list: fn(&Namespace) -> &BTreeSet<u32>| {
                namespace.is_some_and(|namespace| list(namespace).contains(&place))
            };
            let is_listed = match (&tracked.committed, &tracked.ended) {
                (Some(_), Some(_)) => {
                    committed += 1;
                    lists(|namespace| &namespace.committed)
                }
                (Some(_), None) => false,
                (None, None) => {
                    pending += 1;
                    lists(|namespace| &namespace.pending)
                }
                (None, Some(_)) => true,
            };
            check(is_listed, "a reservation that is not listed")?;
        }
        let all = || self.namespaces.slab.iter().map(|(_, namespace)| namespace);
        check(
            all().map(|namespace| namespace.pending.len()).sum::<usize>() == pending
                && all().map(|namespace| namespace.committed.len()).sum::<usize>() == committed,
            "a listed reservation that does not exist",
        )?;
        for (place, bearer) in self.bearers {
            let tracked = self.reservations.get(*place);
            let waits = tracked.is_some_and(|tracked| {
                tracked.claim().is_some() && tracked.reservation.uid != *bearer
            });
            check(waits, "a bearer without a reservation")?;
        }
        Ok(())
    }

    /// Parents exist, have the name that their children say, and are nobody's descendants.
    fn check_groups(&self) -> Result<(), DecodeError> {
        let mut names = BTreeSet::new();
        let mut above_all = BTreeSet::new();
        for (place, group) in self.groups.iter() {
            check(names.insert(&group.record.name), "two groups of one name")?;
            self.check_entry(group.entry)?;
            // Up to a group that is known to have no circle above it.
            let (mut at, mut way) = (place, BTreeSet::new());
            while !above_all.contains(&at) {
                check(way.insert(at), "a group below itself")?;
                let Some(group) = self.groups.get(at) else {
                    return Err(wrong("a parent that does not exist"));
                };
                let Some(parent) = group.parent else {
                    break;
                };
                let name = self.groups.get(parent).map(|parent| &parent.record.name);
                let expected = group.record.spec.extensions.parent.as_ref();
                check(name.is_some() && name == expected, "a parent that does not exist")?;
                at = parent;
            }
            above_all.extend(way);
        }
        Ok(())
    }

    /// Relists mark objects and groups that exist.
    fn check_marks(&self) -> Result<(), DecodeError> {
        for relist in self.relists.open.values() {
            self.check_entry(relist.began)?;
            for place in relist.marks.iter() {
                let is_there =
                    self.objects.get(place).is_some() || self.groups.get(mark(place)).is_some();
                check(is_there, "a mark of nothing")?;
            }
        }
        Ok(())
    }
}

/// The number of objects that hold each value of a pool.
struct Holders(Vec<u32>);

impl Holders {
    fn new<T>(pool: &Slab<Pooled<T>, 256>) -> Self
    where
        Pooled<T>: Clone,
    {
        Self(vec![0; pool.places() as usize])
    }

    fn count(&mut self, place: u32) -> Result<(), DecodeError> {
        let holders = self.0.get_mut(place as usize);
        *holders.ok_or_else(|| wrong("a value that does not exist"))? += 1;
        Ok(())
    }

    fn check<T>(&self, pool: &Slab<Pooled<T>, 256>) -> Result<(), DecodeError>
    where
        Pooled<T>: Clone,
    {
        let held = self.0.iter().filter(|holders| **holders > 0).count();
        check(held == pool.len() as usize, "a value that nothing holds")?;
        for (place, pooled) in pool.iter() {
            let holders = self.0.get(place as usize);
            check(holders == Some(&pooled.holders()), "the number of objects with a value")?;
        }
        Ok(())
    }
}

/// Checks the indexes that were derived from the tables.
///
/// # Errors
/// Two things that must differ are the same.
pub(super) fn check_derived(state: &State) -> Result<(), DecodeError> {
    let State { resources, footprints, objects, reservations, namespaces, .. } = state;
    check(resources.is_distinct() && footprints.is_distinct(), "a value that is stored twice")?;
    if objects.collisions > 0 {
        let mut keys = BTreeSet::new();
        for (_, object) in objects.slab.iter() {
            let is_new = keys.insert((&object.uid, object.namespace));
            check(is_new, "two objects of one uid in a namespace")?;
        }
    }
    check(reservations.is_distinct(), "two reservations for one object")?;
    for (_, namespace) in namespaces.slab.iter() {
        check(!namespace.is_empty(), "a namespace without anything")?;
        let partial = namespace.path.iter().filter(|link| link.partial.is_some());
        let partial: BTreeSet<u32> = partial.map(|link| link.group).collect();
        check(namespace.shares.keys().eq(&partial), "the part of a namespace that a group counts")?;
    }
    Ok(())
}
