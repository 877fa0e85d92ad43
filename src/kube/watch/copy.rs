//! Copies from the state what changes are about, a little at a time: the state is locked meanwhile.

use std::collections::BTreeMap;

use quota_core::{
    event::Sequence,
    state::{QuotasView, State},
};
use quota_semantics::Name;

use super::{
    super::{
        Kube,
        changes::Change,
        copied::Copied,
        kind::Kind,
        resource::{CopiedView, Key, Record},
        status::Result,
    },
    events::Purpose,
};
use crate::{auth::Reader, fairness::BYTES_PER_AMOUNT};

/// Changes, and amounts, that are read while the state is locked once.
const CHANGES_AT_ONCE: usize = 100;
const AMOUNTS: usize = 10_000;

/// The sums of the namespace of a single quota are copied for it alone.
const SUMS: usize = 500;

/// A member of a group costs as much as this many amounts to copy.
const MEMBER: usize = 5;

/// What some changes are about.
pub(super) struct CopiedChanges {
    /// One part for each change, in the same order.
    pub(super) parts: Vec<(Purpose, Copied)>,
    /// How many of the changes are complete.
    pub(super) count: usize,
    /// The last copied object of the next change, if it has objects among the parts.
    pub(super) last: Name,
}

/// The objects of the first of these changes, of the first one those after a name; at most `limit` of one change.
pub(super) fn some_of(
    state: &State,
    changes: &[(Sequence, Change)],
    after: &Name,
    limit: usize,
    reader: &Reader,
) -> CopiedChanges {
    let (mut parts, mut amounts) = (Vec::new(), 0);
    for (count, (sequence, change)) in changes.iter().enumerate() {
        if count >= CHANGES_AT_ONCE || amounts > AMOUNTS {
            break;
        }
        let purpose = Purpose::Change(*sequence);
        match change {
            Change::Figures(namespace) => {
                let from = if count == 0 { &**after } else { "" };
                let after = Some((&**namespace, from));
                let (quotas, more) = state.quotas_page(Some(namespace), after, limit);
                amounts += 1 + quotas.amounts() + quotas.metadata_bytes() / BYTES_PER_AMOUNT;
                let last = quotas.records().next_back().filter(|_| more);
                let last = last.map(|quota| quota.name.clone());
                parts.push((purpose, Copied::Quotas(quotas)));
                if let Some(last) = last {
                    return CopiedChanges { parts, count, last };
                }
            }
            Change::Object(key) => {
                let (copied, work) = one(state, key, reader);
                amounts += work;
                parts.push((purpose, copied));
            }
            Change::Deleted | Change::All => break,
        }
    }
    CopiedChanges { count: parts.len(), parts, last: Name::default() }
}

/// An object, if it is there and the caller may read it, and as many amounts as it costs to copy it.
fn one(state: &State, key: &Key, reader: &Reader) -> (Copied, usize) {
    match key.readable(state, reader) {
        None => (Copied::Quotas(QuotasView::default()), 1),
        Some(CopiedView::Quota(quota)) => {
            let quotas = QuotasView::from(quota);
            let work = SUMS + quotas.amounts() + quotas.metadata_bytes() / BYTES_PER_AMOUNT;
            (Copied::Quotas(quotas), work)
        }
        Some(CopiedView::Group(group)) => {
            let work = group.amounts().max(MEMBER * group.places());
            (Copied::Groups(vec![group]), work)
        }
    }
}

/// Those of these groups that are there, but have no member that the caller may read.
pub(super) fn hidden(state: &State, groups: &[Key], reader: &Reader) -> Vec<Record> {
    let is_hidden = |key: &&Key| {
        let members = state.wanted_members(&key.name, |name| reader.reads(name), 1);
        members.is_some_and(|members| members.is_empty())
    };
    let records = groups.iter().filter(is_hidden);
    let records = records.filter_map(|key| Some(state.group_record(&key.name)?.0.clone()));
    records.map(Record::Group).collect()
}

/// The changes of groups that follow from these changes: instead of figures of namespaces, the groups that count them,
/// each with the last of its changes.
pub(super) async fn of_groups(
    kube: &Kube,
    changes: Vec<(Sequence, Change)>,
) -> Result<Vec<(Sequence, Change)>> {
    let (mut found, mut figures) = (Vec::new(), Vec::new());
    for (sequence, change) in changes {
        match change {
            Change::Figures(namespace) => figures.push((sequence, namespace)),
            change => found.push((sequence, change)),
        }
    }
    let mut last: BTreeMap<Name, Sequence> = BTreeMap::new();
    for some in figures.chunks(CHANGES_AT_ONCE) {
        let groups = |state: &State| -> Vec<(Name, Sequence)> {
            let of = |(sequence, namespace): &(Sequence, Name)| {
                let groups = state.groups_of(namespace).into_iter();
                groups.map(|group| (group, *sequence)).collect::<Vec<_>>()
            };
            some.iter().flat_map(of).collect()
        };
        last.extend(kube.read(groups).await?.0);
    }
    found.extend(last.into_iter().map(|(name, sequence)| {
        let key = Key { kind: Kind::Group, namespace: Name::default(), name };
        (sequence, Change::Object(key))
    }));
    found.sort_by_key(|(sequence, _)| *sequence);
    Ok(found)
}
