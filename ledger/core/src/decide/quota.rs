//! Setting and deleting quotas.

use std::sync::Arc;

use super::{Policy, Refusal};
use crate::{
    event::{Event, QuotaRecord, Sequence},
    state::State,
};
use quota_semantics::{Name, Timestamp, quota::spec::Spec, resource::ResourceList, uid::Uid};

/// The desired state of a quota. Its spec has been validated.
#[derive(Clone, Debug)]
pub struct QuotaChange {
    /// Its namespace.
    pub namespace: Name,
    /// Its name.
    pub name: Name,
    /// The identity it gets if it is new.
    pub fresh_uid: Uid,
    /// Limits and scopes.
    pub spec: Spec,
    /// The rest of its metadata as JSON text; empty: none.
    pub metadata: Box<str>,
    /// The condition for the change.
    pub precondition: Option<Precondition>,
}

/// A condition on the present state of a quota.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precondition {
    /// It must not exist (`If-None-Match: *`).
    Absent,
    /// It must exist (`If-Match: *`).
    Present,
    /// It must have been set by this entry (`If-Match`, `resourceVersion`).
    Version(Sequence),
}

impl Precondition {
    /// Checks the condition against the entry that set the current record, if there is one.
    ///
    /// # Errors
    /// `Conflict` if the condition does not hold.
    pub fn check(self, what: String, current: Option<Sequence>) -> Result<(), Refusal> {
        let (holds, expected) = match self {
            Self::Absent => (current.is_none(), 0),
            Self::Present => (current.is_some(), current.unwrap_or(0)),
            Self::Version(version) => (current == Some(version), version),
        };
        if holds {
            return Ok(());
        }
        Err(Refusal::Conflict { what, current: current.unwrap_or(0), expected })
    }
}

/// The uid and the creation time of a record: those of the existing record (with the entry that set it), or new ones.
///
/// # Errors
/// `Conflict` if the precondition does not hold.
pub(super) fn identity(
    what: String,
    stored: Option<(&Uid, Timestamp, Sequence)>,
    precondition: Option<Precondition>,
    fresh: &Uid,
    now: Timestamp,
) -> Result<(Uid, Timestamp), Refusal> {
    if let Some(precondition) = precondition {
        precondition.check(what, stored.map(|(_, _, entry)| entry))?;
    }
    Ok(match stored {
        Some((uid, created, _)) => (uid.clone(), created),
        None => (fresh.clone(), now.whole_seconds()),
    })
}

/// Checks whether the record that this entry set may be deleted.
///
/// # Errors
/// `NotFound`; `Conflict` if the precondition does not hold.
pub(super) fn check_deletion(
    what: String,
    entry: Option<Sequence>,
    precondition: Option<Precondition>,
) -> Result<(), Refusal> {
    match (entry, precondition) {
        (None, _) => Err(Refusal::NotFound(what)),
        (Some(_), None) => Ok(()),
        (entry, Some(precondition)) => precondition.check(what, entry),
    }
}

/// Creates or changes a quota. An unchanged quota leaves no entry.
///
/// # Errors
/// `Conflict` if the precondition does not hold.
pub fn set_quota(
    state: &State,
    now: Timestamp,
    change: &QuotaChange,
) -> Result<Vec<Event>, Refusal> {
    let current = state.quota_record(&change.namespace, &change.name);
    let (uid, created) = identity(
        format!("quota {}/{}", change.namespace, change.name),
        current.map(|(record, entry)| (&record.uid, record.created, entry)),
        change.precondition,
        &change.fresh_uid,
        now,
    )?;
    let record = QuotaRecord {
        namespace: change.namespace.clone(),
        name: change.name.clone(),
        uid,
        created,
        spec: change.spec.clone(),
        metadata: change.metadata.clone(),
    };
    if current.is_some_and(|(current, _)| same(current, &record)) {
        return Ok(Vec::new());
    }
    Ok(vec![Event::QuotaSet(Arc::new(record))])
}

/// Whether two records are equal, including the families of quantities.
fn same(a: &QuotaRecord, b: &QuotaRecord) -> bool {
    a == b && written([&a.spec.hard]).eq(written([&b.spec.hard]))
}

/// The quantities as they are printed: administrators expect to read `1Gi` if they wrote that.
pub(super) fn written<'a>(
    lists: impl IntoIterator<Item = &'a ResourceList>,
) -> impl Iterator<Item = String> {
    let amounts = lists.into_iter().flat_map(ResourceList::iter);
    amounts.map(|(_, amount)| amount.to_string())
}

/// Deletes a quota.
///
/// # Errors
/// `NotFound`; `Conflict` if the precondition does not hold.
pub fn delete_quota(
    state: &State,
    namespace: &Name,
    name: &Name,
    precondition: Option<Precondition>,
) -> Result<Vec<Event>, Refusal> {
    let stored = state.quota_record(namespace, name);
    let what = format!("quota {namespace}/{name}");
    check_deletion(what, stored.map(|(_, entry)| entry), precondition)?;
    Ok(vec![Event::QuotaDeleted { namespace: namespace.clone(), name: name.clone() }])
}

/// Allows a change of quotas and groups, unless one of them belongs to a source, which would undo the change.
///
/// # Errors
/// `Adopted`.
pub fn unless_adopted(
    state: &State,
    policy: &Policy,
    events: Vec<Event>,
) -> Result<Vec<Event>, Refusal> {
    let adopted = events.iter().find_map(|event| match event {
        Event::QuotaSet(quota) => adopted_quota(state, &quota.namespace, &quota.name),
        Event::QuotaDeleted { namespace, name } => adopted_quota(state, namespace, name),
        Event::GroupSet(group) => adopted_group(state, &group.name),
        Event::GroupDeleted { name } => adopted_group(state, name),
        _ => None,
    });
    match adopted.filter(|_| policy.adopts_quotas) {
        Some(refusal) => Err(refusal),
        None => Ok(events),
    }
}

/// Whether a quota, or without a namespace a group, belongs to a source, which would undo a change.
#[must_use]
pub fn belongs_to_source(
    state: &State,
    policy: &Policy,
    namespace: Option<&Name>,
    name: &Name,
) -> bool {
    let adopted = match namespace {
        Some(namespace) => adopted_quota(state, namespace, name),
        None => adopted_group(state, name),
    };
    policy.adopts_quotas && adopted.is_some()
}

fn adopted_quota(state: &State, namespace: &Name, name: &Name) -> Option<Refusal> {
    let (record, _) = state.quota_record(namespace, name)?;
    adopted_version(state, record).map(|_| Refusal::Adopted {
        what: format!("quota {namespace}/{name}"),
        edit: format!("kubectl -n {namespace} edit resourcequota {name}"),
    })
}

fn adopted_group(state: &State, name: &Name) -> Option<Refusal> {
    state.adopted_group(name).map(|_| Refusal::Adopted {
        what: format!("group {name}"),
        edit: format!("kubectl edit clusterresourcequota {name}"),
    })
}

/// Whether a source has reported this quota, so that it exists in a cluster, too.
#[must_use]
pub fn is_adopted(state: &State, quota: &QuotaRecord) -> bool {
    adopted_version(state, quota).is_some()
}

/// The version in which a source has reported a quota; none: no source has. A reported quota has a live object under
/// the same uid.
pub(super) fn adopted_version(state: &State, quota: &QuotaRecord) -> Option<u64> {
    let object = state.object(&quota.namespace, &quota.uid)?;
    (*object.resource == *"resourcequotas").then_some(object.version)
}
