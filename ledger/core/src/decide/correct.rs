//! Drift: differences between the ledger and a listing, and their repair.

use super::{
    name_conflicts,
    observe::{Adopted, adopt, as_before, ends_reservation},
};
use crate::{
    event::{Cause, Correction, Ending, Event, Observed, Sequence},
    state::{ObjectView, State, lapsed_footprint},
};
use quota_semantics::{
    Name, Timestamp,
    group::{Extensions, extension::Carrier},
    object::Footprint,
    uid::Uid,
};

/// How a listed object compares with the recorded one.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// The object is recorded with the same footprint.
    Same,
    /// The ledger is newer than the listing: it has a later version, or the deletion.
    Newer,
    /// The object is not recorded.
    Missing,
    /// The object is not recorded, but another one with its name is.
    Recreated(ObjectView),
    /// The object is recorded with another footprint.
    Changed(ObjectView),
}

/// The record of an object at the time of the comparison. A repair applies to this record only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComparedRecord {
    /// The entry that last changed the footprint.
    pub entry: Sequence,
    /// Its version; 0: unknown.
    pub version: u64,
}

impl From<&ObjectView> for ComparedRecord {
    fn from(recorded: &ObjectView) -> Self {
        Self { entry: recorded.entry, version: recorded.version }
    }
}

/// A request to repair a difference.
#[derive(Clone, Debug)]
pub enum Repair {
    /// The object exists, as it was listed.
    Set {
        /// The object.
        object: Box<Observed>,
        /// The quota that the object is, if quotas are adopted.
        quota: Option<Box<Adopted>>,
        /// The record of the object; none: it was not recorded.
        seen: Option<ComparedRecord>,
        /// The entry that had set the quota of its name; none: there was none. Used only if the object is a quota.
        quota_seen: Option<Sequence>,
    },
    /// The object no longer exists.
    End {
        /// Its namespace; none: that of the only object with this uid.
        namespace: Option<Name>,
        /// The object.
        uid: Uid,
        /// The record of the object.
        seen: ComparedRecord,
    },
}

/// The result of a [`Repair`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// These events repair the difference.
    Done(Vec<Event>),
    /// There is no difference any more.
    Right,
    /// The object has changed since the comparison, or the listing is older than the record.
    Changed,
}

/// Compares a listed object, and the quota that it is if quotas are adopted, with the record. `now` is the time of the
/// listing: an object that has ceased to count by then is compared as lapsed.
#[must_use]
pub fn compare(
    state: &State,
    listed: &Observed,
    quota: Option<&Adopted>,
    now: Timestamp,
) -> Comparison {
    let Some(recorded) = state.object(&listed.namespace, &listed.uid) else {
        if state.is_deleted(&listed.namespace, &listed.uid) {
            return Comparison::Newer;
        }
        let namesake = state.object_named(&listed.namespace, &listed.resource, &listed.name);
        return namesake.map_or(Comparison::Missing, Comparison::Recreated);
    };
    if is_newer(&recorded, listed) {
        return Comparison::Newer;
    }
    match is_as_listed(state, &recorded, listed, now) && limits_are_as_listed(state, listed, quota)
    {
        true => Comparison::Same,
        false => Comparison::Changed(recorded),
    }
}

fn is_newer(recorded: &ObjectView, listed: &Observed) -> bool {
    listed.version > 0 && recorded.version > listed.version
}

fn is_as_listed(state: &State, recorded: &ObjectView, listed: &Observed, now: Timestamp) -> bool {
    let has_lapsed = recorded.lapse.is_some_and(|lapse| lapse < now);
    let recorded_footprint = Some(&*recorded.footprint);
    let footprint = as_before(state, listed, listed.footprint.clone(), recorded_footprint);
    let counts_for_the_same = match has_lapsed {
        true => lapsed_footprint(&recorded.footprint) == footprint,
        false => *recorded.footprint == footprint,
    };
    counts_for_the_same
        && recorded.lapse.filter(|_| !has_lapsed) == listed.lapse
        && recorded.namespace == listed.namespace
        && recorded.resource == listed.resource
        && recorded.name == listed.name
}

/// Compares a listed quota with the recorded one. Of its metadata the identity and the extensions in its annotations
/// count: the rest limits nothing.
fn limits_are_as_listed(state: &State, listed: &Observed, quota: Option<&Adopted>) -> bool {
    let Some(quota) = quota else { return true };
    let current = state.quota_record(&listed.namespace, &listed.name);
    let extensions = |metadata: &str| Extensions::from_metadata(metadata, Carrier::Quota);
    current.is_some_and(|(record, _)| {
        record.uid == listed.uid
            && record.spec == quota.spec
            && extensions(&record.metadata) == extensions(&quota.metadata)
    })
}

/// Repairs a difference at `now`, unless the object has changed since the comparison.
#[must_use]
pub fn repair(state: &State, repair: &Repair, now: Timestamp) -> Repaired {
    match repair {
        Repair::Set { object, quota, seen, quota_seen } => {
            let listed = (&**object, quota.as_deref());
            set(state, listed, *seen, *quota_seen, now)
        }
        Repair::End { namespace, uid, seen } => match find(state, namespace.as_deref(), uid) {
            None => Repaired::Right,
            Some(recorded) if ComparedRecord::from(&recorded) != *seen => Repaired::Changed,
            Some(recorded) => Repaired::Done(end(state, recorded, Cause::Drift)),
        },
    }
}

fn find(state: &State, namespace: Option<&str>, uid: &Uid) -> Option<ObjectView> {
    if let Some(namespace) = namespace {
        return state.object(namespace, uid);
    }
    let mut all = state.objects_with(uid);
    let only = all.next()?;
    all.next().is_none().then_some(only)
}

fn set(
    state: &State,
    (listed, quota): (&Observed, Option<&Adopted>),
    seen: Option<ComparedRecord>,
    quota_seen: Option<Sequence>,
    now: Timestamp,
) -> Repaired {
    let recorded = state.object(&listed.namespace, &listed.uid);
    let is_right = |recorded: &ObjectView| {
        is_as_listed(state, recorded, listed, now) && limits_are_as_listed(state, listed, quota)
    };
    match (&recorded, seen) {
        (Some(recorded), _) if is_newer(recorded, listed) => return Repaired::Changed,
        (Some(recorded), _) if is_right(recorded) => return Repaired::Right,
        (Some(recorded), Some(seen)) if ComparedRecord::from(recorded) == seen => {}
        (None, None) if !state.is_deleted(&listed.namespace, &listed.uid) => {}
        _ => return Repaired::Changed,
    }
    let current = state.quota_record(&listed.namespace, &listed.name);
    if quota.is_some() && current.map(|(_, entry)| entry) != quota_seen {
        return Repaired::Changed;
    }
    let ends_reservation = ends_reservation(state, listed);
    let was = recorded.as_ref().map(|recorded| Footprint::clone(&recorded.footprint));
    let before = recorded.as_ref().map(|recorded| &*recorded.footprint);
    let correction = Correction {
        object: Observed {
            ends_reservation,
            footprint: as_before(state, listed, listed.footprint.clone(), before),
            version: listed.version.max(recorded.map_or(0, |recorded| recorded.version)),
            ..listed.clone()
        },
        was,
    };
    let mut events = vec![Event::ObjectCorrected(Box::new(correction))];
    events.extend(name_conflicts::settled(state, listed));
    events.extend(quota.and_then(|quota| adopt(state, listed, quota)));
    Repaired::Done(events)
}

/// Ends an object, and before it the quota that was adopted from it: the events may be recorded in parts, and what is
/// left is found by the object.
pub(super) fn end(state: &State, recorded: ObjectView, cause: Cause) -> Vec<Event> {
    let quota = (recorded.resource == *"resourcequotas")
        .then(|| state.quota_record(&recorded.namespace, &recorded.name))
        .flatten()
        .filter(|(record, _)| record.uid == recorded.uid);
    let quota = quota.map(|(record, _)| Event::QuotaDeleted {
        namespace: record.namespace.clone(),
        name: record.name.clone(),
    });
    let ending = Ending {
        uid: recorded.uid,
        namespace: recorded.namespace,
        resource: recorded.resource,
        name: recorded.name,
        footprint: Footprint::clone(&recorded.footprint),
        cause,
    };
    let ended = Event::ObjectEnded(Box::new(ending));
    quota.into_iter().chain([ended]).collect()
}

#[cfg(test)]
mod tests;
