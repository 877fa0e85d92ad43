//! The changes since a version, in their order.
//!
//! A watch sends them in this order, and each object with the sequence of its change as version. So a client that has
//! received a version has received all changes before it; what it has not received yet has a higher version. Only the
//! last entry may have reached the client in part, if it changed several objects: so a client that goes on from its
//! sequence gets the changes of this entry again.

use quota_core::event::Sequence;
use quota_semantics::Name;

use super::{
    super::{kind::Kind, resource::Key},
    CHANGES_AT_ONCE, Window,
};

/// A change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::kube) enum Change {
    /// Objects were deleted, the last of them with this entry.
    Deleted,
    /// An object was set, or has changed.
    Object(Key),
    /// Any object may have changed.
    All,
    /// Figures of a namespace have changed.
    Figures(Name),
}

/// The version since which changes are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::kube) struct Since {
    pub(in crate::kube) version: Sequence,
    /// Whether the changes of this very entry are wanted, too, if there may be several.
    pub(in crate::kube) again: bool,
}

/// Some changes, in order.
#[derive(Debug)]
pub(in crate::kube) struct Portion {
    pub(in crate::kube) changes: Vec<(Sequence, Change)>,
    /// The version up to which they are complete.
    pub(in crate::kube) upto: Sequence,
    /// Whether there are no more of them.
    pub(in crate::kube) is_all: bool,
}

impl Portion {
    /// Adds changes, which come in order. Not all of them may be wanted, but all are looked at.
    fn add(&mut self, changes: impl Iterator<Item = (Sequence, Option<Change>)>) {
        for (looked, (sequence, change)) in changes.enumerate() {
            if looked >= CHANGES_AT_ONCE {
                self.upto = self.upto.min(sequence - 1);
                self.is_all = false;
                return;
            }
            let change = change.map(|change| (sequence, change));
            self.changes.extend(change);
        }
    }

    /// Puts the changes in order.
    fn in_order(mut self) -> Self {
        let Self { changes, upto, .. } = &mut self;
        changes.retain(|(sequence, _)| sequence <= upto);
        // Of those with the same sequence, the ones that change a single object come first: they were added first.
        changes.sort_by_key(|(sequence, _)| *sequence);
        changes.dedup_by(|(sequence, next), (last, change)| {
            let is_same = *change == Change::Deleted && *next == Change::Deleted;
            if is_same {
                *last = *sequence;
            }
            is_same
        });
        self
    }
}

impl Window {
    /// The last entry with which any object of a kind may have changed.
    pub(super) fn last_of_all(&self, kind: Kind) -> Sequence {
        match kind {
            Kind::Quota => self.everything,
            Kind::Group => self.everything.max(self.groups),
        }
    }

    /// The changes of a kind since a version, in one namespace or in all: the first ones of them.
    pub(super) fn next(&self, kind: Kind, since: Since, namespace: Option<&Name>) -> Portion {
        let Since { version, again } = since;
        let mut portion =
            Portion { changes: Vec::new(), upto: self.head.max(version), is_all: true };
        let deletions = self.deletions.after(version, kind, namespace);
        portion.add(deletions.map(|deletion| {
            let is_of_kind = deletion.record.kind() == kind;
            (deletion.sequence, is_of_kind.then_some(Change::Deleted))
        }));
        let sets = self.sets.range(version.saturating_add(1)..);
        portion.add(sets.map(|(sequence, key)| {
            let is_there = namespace.is_none_or(|own| *own == key.namespace);
            let is_wanted = key.kind == kind && is_there;
            (*sequence, is_wanted.then(|| Change::Object(key.clone())))
        }));
        let first = if again { version } else { version.saturating_add(1) };
        let all = Some(self.last_of_all(kind)).filter(|all| *all >= first);
        // What the entry at the floor has changed is not recorded.
        let floor = Some(version).filter(|version| again && *version == self.floor);
        let all = all.max(floor);
        portion.add(all.map(|all| (all, Some(Change::All))).into_iter());
        // Changes of figures before that are covered by it.
        let first = all.map_or(first, |all| first.max(all + 1));
        match namespace {
            Some(name) => {
                let changed = self.figures.get(name).filter(|changed| **changed >= first);
                let changed = changed.map(|changed| (*changed, name));
                portion.add(changed.into_iter().map(figures));
            }
            None => {
                let changed = self.by_time.range(first..);
                let changed = changed.map(|(changed, name)| (*changed, name));
                portion.add(changed.map(figures));
            }
        }
        portion.in_order()
    }
}

fn figures((sequence, namespace): (Sequence, &Name)) -> (Sequence, Option<Change>) {
    (sequence, Some(Change::Figures(namespace.clone())))
}
