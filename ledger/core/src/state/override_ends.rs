//! The ends of overrides of quotas and groups.

use std::collections::{BTreeMap, BTreeSet};

use super::State;
use quota_semantics::{Name, Timestamp};

/// A quota by its namespace and name, or a group by its name without a namespace.
pub(crate) type Limited = (Option<Name>, Name);

/// The ends of all overrides that apply.
#[derive(Clone, Debug, Default)]
pub(crate) struct Deadlines {
    by_subject: BTreeMap<Limited, Timestamp>,
    by_time: BTreeSet<(Timestamp, Limited)>,
}

impl Deadlines {
    /// Sets the end of an override. None: no override applies.
    pub(crate) fn set(&mut self, subject: Limited, end: Option<Timestamp>) {
        if let Some(before) = self.by_subject.remove(&subject) {
            self.by_time.remove(&(before, subject.clone()));
        }
        if let Some(end) = end {
            self.by_time.insert((end, subject.clone()));
            self.by_subject.insert(subject, end);
        }
    }
}

impl State {
    /// The overrides that have ended at `now`, soonest first: the namespace (none: a group) and the name.
    pub(crate) fn overrides_over(&self, now: Timestamp) -> impl Iterator<Item = &Limited> {
        let over = self.deadlines.by_time.iter();
        over.take_while(move |(end, _)| *end <= now).map(|(_, subject)| subject)
    }

    /// When the next override ends.
    #[must_use]
    pub fn next_override_end(&self) -> Option<Timestamp> {
        self.deadlines.by_time.first().map(|(end, _)| *end)
    }
}
