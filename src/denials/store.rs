//! The kept denials in memory: bounded in number, bytes and age, with a fair share for each namespace.

use std::collections::BTreeMap;

use quota_core::shares::Shares;
use quota_semantics::{Name, Span, Timestamp};

use super::{Bounds, Query, StoredDenial};
use crate::metrics;

pub(super) struct Remembered {
    pub(super) namespace: Name,
    pub(super) time: Timestamp,
    pub(super) kept: StoredDenial,
}

impl Remembered {
    fn bytes(&self) -> usize {
        self.kept.json.get().len()
    }
}

/// Denials by number.
#[derive(Default)]
pub(super) struct Store {
    records: BTreeMap<u64, Remembered>,
    shares: Shares<u64>,
}

impl Store {
    pub(super) fn len(&self) -> usize {
        self.records.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.shares.bytes()
    }

    /// The number of the latest denial.
    pub(super) fn last(&self) -> Option<u64> {
        self.records.last_key_value().map(|(id, _)| *id)
    }

    /// The kept denials, oldest first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Remembered> {
        self.records.values()
    }

    pub(super) fn list(&self, query: &Query) -> Vec<StoredDenial> {
        let before = query.before.unwrap_or(u64::MAX);
        let earlier = self.records.range(..before).rev();
        let namespace = query.namespace.as_ref();
        earlier
            .map(|(_, record)| record)
            .filter(|record| namespace.is_none_or(|namespace| record.namespace == *namespace))
            .take(query.limit)
            .map(|record| record.kept.clone())
            .collect()
    }

    /// Adds a denial; if there are too many, removes the oldest of the namespace that takes the most room.
    pub(super) fn keep(&mut self, record: Remembered, bounds: &Bounds) {
        let id = record.kept.id;
        self.remove(id);
        self.shares.add(&record.namespace, id, record.bytes());
        self.records.insert(id, record);
        while self.len() > bounds.records || self.bytes() > bounds.bytes {
            if self.len() <= bounds.records {
                metrics::limit_reached(metrics::Limit::DenialBytes);
            }
            let Some((_, oldest)) = self.shares.first_to_go() else {
                return;
            };
            self.remove(oldest);
        }
    }

    /// Removes denials that are too old.
    pub(super) fn forget(&mut self, bounds: &Bounds, now: Timestamp) {
        let age = i64::try_from(bounds.age.as_nanos()).unwrap_or(i64::MAX);
        let oldest = now.minus(Span::from_nanoseconds(age));
        while let Some((&id, first)) = self.records.first_key_value()
            && first.time < oldest
        {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: u64) {
        if let Some(record) = self.records.remove(&id) {
            self.shares.remove(&record.namespace, id);
        }
    }
}
