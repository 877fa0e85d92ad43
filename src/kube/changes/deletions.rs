//! The quotas and groups that were deleted, as far back as their memory bound allows.

use std::collections::{BTreeMap, HashMap};

use quota_core::{event::Sequence, shares::Shares, size};
use quota_semantics::Name;

use super::{
    super::{kind::Kind, resource::Record},
    CHANGES_AT_ONCE, WINDOW,
};
use crate::metrics;

/// Bytes of the metadata of deleted quotas and groups that are read at once.
const DELETED_BYTES: usize = 1 << 20;

/// The deletion of a quota or group.
#[derive(Clone, Debug)]
pub(in crate::kube) struct Deletion {
    pub(in crate::kube) sequence: Sequence,
    /// The principal that deleted it.
    pub(in crate::kube) principal: Name,
    /// What was deleted.
    pub(in crate::kube) record: Record,
    /// The entry that created it; 0 if it was there before the window.
    pub(in crate::kube) created_at: Sequence,
    /// The last entry that set it; 0 if that was before the window.
    pub(in crate::kube) set: Sequence,
}

/// Quotas and groups that were deleted.
#[derive(Default)]
pub(super) struct Deletions {
    pub(super) by_time: BTreeMap<Sequence, Deletion>,
    shares: Shares<Sequence>,
    /// Most bytes of them.
    pub(super) most: usize,
    /// The last dropped entry, by namespace, and of any namespace.
    forgotten: HashMap<Name, Sequence>,
    pub(super) forgotten_anywhere: Sequence,
}

impl Deletions {
    /// The deletions of a kind after one version and up to another, in one namespace or in all: the first ones of them,
    /// in order; and the version up to which they are complete.
    pub(super) fn of(
        &self,
        kind: Kind,
        (after, upto): (Sequence, Sequence),
        namespace: Option<&Name>,
    ) -> (Vec<Deletion>, Sequence) {
        let some = self.after(after, kind, namespace);
        let (mut found, mut bytes) = (Vec::new(), 0);
        let some = some.take_while(|deletion| deletion.sequence <= upto);
        for (looked, deletion) in some.enumerate() {
            bytes += deletion.record.metadata_bytes();
            let is_much = looked >= CHANGES_AT_ONCE || bytes > DELETED_BYTES;
            if is_much && looked > 0 {
                return (found, deletion.sequence - 1);
            }
            if deletion.record.kind() == kind {
                found.push(deletion.clone());
            }
        }
        (found, upto)
    }

    /// The deletions after a version, in order, in one namespace or in all. Those in all may be of other kinds, too.
    pub(super) fn after<'a>(
        &'a self,
        version: Sequence,
        kind: Kind,
        namespace: Option<&'a Name>,
    ) -> Box<dyn Iterator<Item = &'a Deletion> + 'a> {
        let within = match kind {
            Kind::Quota => namespace.map(|name| &**name),
            Kind::Group => Some(""),
        };
        match within {
            Some(name) => {
                let places = self.shares.of(name, version);
                Box::new(places.filter_map(|place| self.by_time.get(&place)))
            }
            None => {
                let range = self.by_time.range(version.saturating_add(1)..);
                Box::new(range.map(|(_, deletion)| deletion))
            }
        }
    }

    /// The last dropped entry, in one namespace or in any.
    pub(super) fn forgotten(&self, namespace: Option<&Name>) -> Sequence {
        match namespace {
            Some(name) => self.forgotten.get(name).copied().unwrap_or_default(),
            None => self.forgotten_anywhere,
        }
    }

    /// If entries of very many namespaces were dropped, forgets of which ones, and returns the last dropped entry.
    pub(super) fn forget_namespaces(&mut self) -> Option<Sequence> {
        let is_much = self.forgotten.len() > WINDOW;
        is_much.then(|| {
            self.forgotten.clear();
            self.forgotten_anywhere
        })
    }

    /// Adds a deletion; if there are too many, drops the oldest of the principal, and of its namespace, that takes the
    /// most room.
    pub(super) fn add(&mut self, deletion: Deletion) {
        let bytes = size::ENTRY
            + match &deletion.record {
                Record::Quota(record) => size::of_quota(record),
                Record::Group(record) => record.metadata.len() + size::of_group(&record.spec),
            };
        let (namespace, sequence) = (deletion.record.key().namespace, deletion.sequence);
        self.shares.add(&deletion.principal, &namespace, sequence, bytes);
        self.by_time.insert(sequence, deletion);
        while (self.shares.len() > WINDOW || self.shares.bytes() > self.most)
            && let Some(oldest) = self.shares.first_to_go()
            && let Some(dropped) = self.by_time.remove(&oldest)
        {
            metrics::limit_reached(metrics::Limit::QuotaChangesBytes);
            let namespace = dropped.record.key().namespace;
            self.shares.remove(&dropped.principal, &namespace, oldest);
            // Another principal may have lost a later one.
            let forgotten = self.forgotten.entry(namespace).or_default();
            *forgotten = oldest.max(*forgotten);
            self.forgotten_anywhere = self.forgotten_anywhere.max(oldest);
        }
    }
}
