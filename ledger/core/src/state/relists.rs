//! Relists that are not over: the objects listed so far.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    codec::record,
    event::{RelistBegin, RelistClose, RelistEnd, RelistOutcome, RelistScope, Sequence},
};
use quota_semantics::Name;

/// All relists that are not over, by scope.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relists {
    pub(crate) open: BTreeMap<RelistScope, Relist>,
    /// The scopes whose versions went back, and of which no relist has completed since.
    pub(crate) resets: BTreeSet<RelistScope>,
}

/// A relist that is not over.
#[derive(Clone, Debug, Default)]
pub(crate) struct Relist {
    /// The entry with which it began.
    pub(crate) began: Sequence,
    pub(crate) id: Option<Name>,
    pub(crate) allow_empty: bool,
    /// Whether a message of its source was lost or not understood since it began.
    pub(crate) spoiled: bool,
    /// All objects are listed, as of this version (0: unknown): objects without a mark are to be ended.
    pub(crate) closed: Option<u64>,
    /// Whether anything was listed, even if it has ended since.
    pub(crate) any: bool,
    /// The number of objects that were ended because they were not listed.
    pub(crate) ended: u64,
    pub(crate) marks: Marks,
}

record!(Relists { open, resets });
record!(Relist { began, id, allow_empty, spoiled, closed, any, ended, marks });

impl Relists {
    pub(crate) fn begin(&mut self, entry: Sequence, begin: &RelistBegin) {
        let relist = Relist {
            began: entry,
            id: begin.id.clone(),
            allow_empty: begin.allow_empty,
            ..Relist::default()
        };
        self.open.insert(begin.scope.clone(), relist);
    }

    pub(crate) fn close(&mut self, close: &RelistClose) {
        if let Some(relist) = self.open.get_mut(&close.scope) {
            relist.closed = Some(close.version);
        }
    }

    pub(crate) fn end(&mut self, end: &RelistEnd) {
        self.open.remove(&end.scope);
        if end.outcome == RelistOutcome::Complete {
            self.resets.remove(&end.scope);
        }
    }

    /// Marks the open relists of a source as incomplete: those of this kind, or all.
    pub(crate) fn spoil(&mut self, source: &Name, resource: Option<&Name>) {
        let is_spoiled = |scope: &RelistScope| {
            scope.source == *source && resource.is_none_or(|only| scope.resource == *only)
        };
        let open = self.open.iter_mut();
        for (_, relist) in open.filter(|(scope, _)| is_spoiled(scope)) {
            relist.spoiled |= relist.closed.is_none();
        }
    }

    /// Marks an object that was observed alive; if a source is given, only in relists of that source.
    pub(crate) fn mark(
        &mut self,
        resource: &Name,
        namespace: &Name,
        place: u32,
        source: Option<&Name>,
    ) {
        self.each(resource, namespace, |scope, relist| {
            if source.is_none_or(|source| scope.source == *source) {
                relist.any = true;
                relist.marks.set(place);
            }
        });
    }

    /// Records that a resource without a place among the objects was observed alive; if a source is given, only in
    /// relists of that source.
    pub(crate) fn see(&mut self, resource: &Name, namespace: &Name, source: Option<&Name>) {
        self.each(resource, namespace, |scope, relist| {
            relist.any |= source.is_none_or(|source| scope.source == *source);
        });
    }

    /// Removes the mark of a place that is free again.
    pub(crate) fn clear(&mut self, resource: &Name, namespace: &Name, place: u32) {
        self.each(resource, namespace, |_, relist| relist.marks.clear(place));
    }

    /// Counts an object that the relist that began with this entry has ended.
    pub(crate) fn count_ended(&mut self, resource: &Name, namespace: &Name, began: Sequence) {
        self.each(resource, namespace, |_, relist| {
            relist.ended += u64::from(relist.began == began);
        });
    }

    /// The relists that cover objects of this kind and namespace.
    fn each(
        &mut self,
        resource: &Name,
        namespace: &Name,
        mut act: impl FnMut(&RelistScope, &mut Relist),
    ) {
        if self.open.is_empty() {
            return;
        }
        for namespace in [None, Some(namespace.clone())] {
            let first = RelistScope {
                resource: resource.clone(),
                namespace: namespace.clone(),
                source: Name::default(),
            };
            self.open
                .range_mut(first..)
                .take_while(|(scope, _)| {
                    scope.resource == *resource && scope.namespace == namespace
                })
                .for_each(|(scope, relist)| act(scope, relist));
        }
    }
}

/// A set of places: one bit for each, in words that are not zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marks {
    words: BTreeMap<u32, u64>,
}

record!(Marks { words });

impl Marks {
    pub(crate) fn contains(&self, place: u32) -> bool {
        let word = self.words.get(&(place / 64)).copied().unwrap_or(0);
        word >> (place % 64) & 1 == 1
    }

    /// The places, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        self.words.iter().flat_map(|(&word, &bits)| {
            let places = (0..u64::BITS).filter(move |bit| bits >> bit & 1 == 1);
            places.map(move |bit| word.wrapping_mul(u64::BITS) + bit)
        })
    }

    pub(crate) fn len(&self) -> u64 {
        self.words.values().map(|word| u64::from(word.count_ones())).sum()
    }

    fn set(&mut self, place: u32) {
        *self.words.entry(place / 64).or_default() |= 1 << (place % 64);
    }

    fn clear(&mut self, place: u32) {
        if let Some(word) = self.words.get_mut(&(place / 64)) {
            *word &= !(1 << (place % 64));
            if *word == 0 {
                self.words.remove(&(place / 64));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_a_set() {
        let mut marks = Marks::default();
        for place in [0, 63, 64, u32::MAX, 64] {
            marks.set(place);
        }
        assert_eq!(marks.len(), 4);
        assert!(marks.contains(63) && marks.contains(u32::MAX) && !marks.contains(1));
        for place in [63, 63, 5, u32::MAX] {
            marks.clear(place);
        }
        assert!(marks.contains(0) && marks.contains(64) && marks.len() == 2);
        marks.clear(0);
        marks.clear(64);
        assert_eq!(marks, Marks::default());
    }
}
