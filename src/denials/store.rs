//! The kept denials in memory: bounded in number, bytes and age, with a fair share for each principal, and
//! of that for each of its namespaces.

use std::collections::BTreeMap;

use quota_core::shares::Shares;
use quota_semantics::{Span, Timestamp};

use super::{Bounds, Query, StoredDenial};
use crate::metrics;

/// Denials by number.
#[derive(Default)]
pub(super) struct Store {
    denials: BTreeMap<u64, StoredDenial>,
    shares: Shares<u64>,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.denials.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.shares.bytes()
    }

    /// The number of the latest denial.
    pub(super) fn last(&self) -> Option<u64> {
        self.denials.last_key_value().map(|(id, _)| *id)
    }

    /// The kept denials, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &StoredDenial> {
        self.denials.values()
    }

    pub(super) fn list(&self, query: &Query) -> Vec<StoredDenial> {
        let before = query.before.unwrap_or(u64::MAX);
        let earlier = self.denials.range(..before).rev();
        let namespace = query.namespace.as_ref();
        earlier
            .map(|(_, denial)| denial)
            .filter(|denial| namespace.is_none_or(|namespace| denial.namespace == *namespace))
            .filter(|denial| query.reader.reads(&denial.namespace))
            .take(query.limit)
            .cloned()
            .collect()
    }

    /// Adds a denial; if there are too many, removes the oldest of the principal, and of its namespace, that takes the
    /// most room.
    pub(super) fn keep(&mut self, denial: StoredDenial, bounds: &Bounds) {
        let id = denial.id;
        self.remove(id);
        let bytes = denial.json.get().len();
        self.shares
            .add(&denial.principal, &denial.namespace, id, bytes);
        self.denials.insert(id, denial);
        while self.len() > bounds.records || self.bytes() > bounds.bytes {
            if self.len() <= bounds.records {
                metrics::limit_reached(metrics::Limit::DenialBytes);
            }
            let Some(oldest) = self.shares.first_to_go() else {
                return;
            };
            self.remove(oldest);
        }
    }

    /// Removes denials that are too old.
    pub(super) fn forget(&mut self, bounds: &Bounds, now: Timestamp) {
        let age = i64::try_from(bounds.age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = now.minus(Span::from_nanoseconds(age));
        while let Some((&id, first)) = self.denials.first_key_value()
            && first.time < oldest
        {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(denial) = self.denials.remove(&id) {
            self.shares.remove(&denial.principal, &denial.namespace, id);
        }
    }
}
