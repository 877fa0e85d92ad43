//! Setting and deleting quotas.

use std::sync::Arc;

use super::{Policy, Refusal};
use crate::{
    event::{Event, QuotaRecord, Sequence},
    state::State,
};
use quota_semantics::{Name, Timestamp, quota::spec::Spec, uid::Uid};

/// A quota as somebody wants it. Its spec has been validated.
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
    /// What must hold for the change to be made.
    pub precondition: Option<Precondition>,
}

/// What a quota must be like for a command to be carried out.
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
    /// Whether it holds for something that was set by this entry, if it exists.
    ///
    /// # Errors
    /// `Conflict` if it does not.
    pub fn check(self, what: String, current: Option<Sequence>) -> Result<(), Refusal> {
        let (holds, expected) = match self {
            Self::Absent => (current.is_none(), 0),
            Self::Present => (current.is_some(), current.unwrap_or(0)),
            Self::Version(version) => (current == Some(version), version),
        };
        if holds {
            return Ok(());
        }
        Err(Refusal::Conflict {
            what,
            current: current.unwrap_or(0),
            expected,
        })
    }
}

/// The identity of what is set, and when it was created: those of what is stored (with the entry that set it), or new ones.
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

/// Whether what is stored by this entry may be deleted.
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

/// Creates or changes a quota. The same again changes nothing.
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

/// Equal, also in the spelling of quantities: that is what an administrator wrote and wants to read.
fn same(a: &QuotaRecord, b: &QuotaRecord) -> bool {
    let spelled = |record: &QuotaRecord| -> Vec<String> {
        record
            .spec
            .hard
            .iter()
            .map(|(_, quantity)| quantity.to_string())
            .collect()
    };
    a == b && spelled(a) == spelled(b)
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
    Ok(vec![Event::QuotaDeleted {
        namespace: namespace.clone(),
        name: name.clone(),
    }])
}

/// Lets a change of quotas and groups pass, unless one of them belongs to a source, which would undo it.
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

/// Whether a quota, or without a namespace a group, belongs to a source, which would undo a change of it.
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

/// Whether a source has reported this quota: it lives elsewhere, too.
#[must_use]
pub fn is_adopted(state: &State, quota: &QuotaRecord) -> bool {
    adopted_version(state, quota).is_some()
}

/// In which version a source has reported a quota, if it has: its object is alive under the quota's uid.
pub(super) fn adopted_version(state: &State, quota: &QuotaRecord) -> Option<u64> {
    let object = state.object(&quota.namespace, &quota.uid)?;
    (*object.resource == *"resourcequotas").then_some(object.version)
}
