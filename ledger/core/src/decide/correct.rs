//! Drift: where the ledger and a listing disagree, and what puts it right.

use super::{
    names,
    observe::{Adopted, adopt, as_before, ends_reservation},
};
use crate::{
    event::{Cause, Correction, Ending, Event, Observed, Sequence},
    state::{ObjectView, State, lapsed_footprint},
};
use quota_semantics::{Name, Timestamp, object::Footprint, uid::Uid};

/// How a listed object compares with what the ledger holds.
#[derive(Clone, Debug)]
pub enum Comparison {
    /// It is believed to be there, and to count for the same.
    Same,
    /// The ledger has seen more of it than the listing: a later version, or its deletion.
    Newer,
    /// It is unknown.
    Missing,
    /// It is unknown, but another one of its name is believed to be there.
    Recreated(ObjectView),
    /// It is believed to count for something else.
    Changed(ObjectView),
}

/// What was recorded of an object when it was compared. A correction is for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The entry that last changed what it counts for.
    pub entry: Sequence,
    /// Its version; 0: unknown.
    pub version: u64,
}

impl From<&ObjectView> for Seen {
    fn from(known: &ObjectView) -> Self {
        Self {
            entry: known.entry,
            version: known.version,
        }
    }
}

/// A request to put something right.
#[derive(Clone, Debug)]
pub enum Repair {
    /// The object is there, and is as it was listed.
    Set {
        /// The object.
        object: Box<Observed>,
        /// The quota that it is, if quotas are adopted.
        quota: Option<Box<Adopted>>,
        /// What was recorded of it; none: nothing.
        seen: Option<Seen>,
        /// The entry that had set the quota of its name; none: there was none. Looked at only if it is a quota.
        quota_seen: Option<Sequence>,
    },
    /// The object is not there any more.
    End {
        /// Its namespace; none: that of the only one with this uid.
        namespace: Option<Name>,
        /// The object.
        uid: Uid,
        /// What was recorded of it.
        seen: Seen,
    },
}

/// What becomes of a [`Repair`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Repaired {
    /// It is put right by these.
    Done(Vec<Event>),
    /// It is right already.
    Right,
    /// The object has changed since it was compared, or the listing is older than what is known.
    Changed,
    /// Its holder said a short while ago that it exists, and no source has reported it yet: the listing may be older.
    Early,
}

/// Compares a listed object, and the quota that it is if quotas are adopted, with what the ledger believes. `now` is
/// the time as of which the listing was read: what has ceased to count by then is taken as such.
#[must_use]
pub fn compare(
    state: &State,
    listed: &Observed,
    quota: Option<&Adopted>,
    now: Timestamp,
) -> Comparison {
    let Some(known) = state.object(&listed.namespace, &listed.uid) else {
        if state.is_deleted(&listed.namespace, &listed.uid) {
            return Comparison::Newer;
        }
        let namesake = state.object_named(&listed.namespace, &listed.resource, &listed.name);
        return namesake.map_or(Comparison::Missing, Comparison::Recreated);
    };
    if is_newer(&known, listed) {
        return Comparison::Newer;
    }
    match is_as_listed(&known, listed, now) && limits_are_as_listed(state, listed, quota) {
        true => Comparison::Same,
        false => Comparison::Changed(known),
    }
}

fn is_newer(known: &ObjectView, listed: &Observed) -> bool {
    listed.version > 0 && known.version > listed.version
}

fn is_as_listed(known: &ObjectView, listed: &Observed, now: Timestamp) -> bool {
    let has_lapsed = known.lapse.is_some_and(|lapse| lapse < now);
    let footprint = listed.footprint.clone().following(&known.footprint);
    let counts_for_the_same = match has_lapsed {
        true => lapsed_footprint(&known.footprint) == footprint,
        false => *known.footprint == footprint,
    };
    counts_for_the_same
        && known.lapse.filter(|_| !has_lapsed) == listed.lapse
        && known.namespace == listed.namespace
        && known.resource == listed.resource
        && known.name == listed.name
}

/// Of a quota's metadata only the identity counts: the rest limits nothing.
fn limits_are_as_listed(state: &State, listed: &Observed, quota: Option<&Adopted>) -> bool {
    let Some(quota) = quota else { return true };
    let current = state.quota_record(&listed.namespace, &listed.name);
    current.is_some_and(|(record, _)| record.uid == listed.uid && record.spec == quota.spec)
}

/// Puts something right at `now`, unless the object has changed since it was compared.
#[must_use]
pub fn repair(state: &State, repair: &Repair, now: Timestamp) -> Repaired {
    match repair {
        Repair::Set {
            object,
            quota,
            seen,
            quota_seen,
        } => {
            let listed = (&**object, quota.as_deref());
            set(state, listed, *seen, *quota_seen, now)
        }
        Repair::End {
            namespace,
            uid,
            seen,
        } => match find(state, namespace.as_deref(), uid) {
            None => Repaired::Right,
            Some(known) if Seen::from(&known) != *seen => Repaired::Changed,
            Some(known) if state.committed_lately(&known, now).is_some() => Repaired::Early,
            Some(known) => Repaired::Done(end(state, known, Cause::Drift)),
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
    seen: Option<Seen>,
    quota_seen: Option<Sequence>,
    now: Timestamp,
) -> Repaired {
    let known = state.object(&listed.namespace, &listed.uid);
    let is_right = |known: &ObjectView| {
        is_as_listed(known, listed, now) && limits_are_as_listed(state, listed, quota)
    };
    match (&known, seen) {
        (Some(known), _) if is_newer(known, listed) => return Repaired::Changed,
        (Some(known), _) if is_right(known) => return Repaired::Right,
        (Some(known), Some(seen)) if Seen::from(known) == seen => {}
        (None, None) if !state.is_deleted(&listed.namespace, &listed.uid) => {}
        _ => return Repaired::Changed,
    }
    let current = state.quota_record(&listed.namespace, &listed.name);
    if quota.is_some() && current.map(|(_, entry)| entry) != quota_seen {
        return Repaired::Changed;
    }
    let ends_reservation = ends_reservation(state, listed);
    let was = known
        .as_ref()
        .map(|known| Footprint::clone(&known.footprint));
    let correction = Correction {
        object: Observed {
            ends_reservation,
            footprint: as_before(state, listed),
            version: listed.version.max(known.map_or(0, |known| known.version)),
            ..listed.clone()
        },
        was,
    };
    let mut events = vec![Event::ObjectCorrected(Box::new(correction))];
    events.extend(names::settled(state, listed));
    events.extend(quota.and_then(|quota| adopt(state, listed, quota)));
    Repaired::Done(events)
}

/// Ends an object, and the quota that was adopted from it.
pub(super) fn end(state: &State, known: ObjectView, cause: Cause) -> Vec<Event> {
    let quota = (known.resource == *"resourcequotas")
        .then(|| state.quota_record(&known.namespace, &known.name))
        .flatten()
        .filter(|(record, _)| record.uid == known.uid);
    let quota = quota.map(|(record, _)| Event::QuotaDeleted {
        namespace: record.namespace.clone(),
        name: record.name.clone(),
    });
    let ending = Ending {
        uid: known.uid,
        namespace: known.namespace,
        resource: known.resource,
        name: known.name,
        footprint: Footprint::clone(&known.footprint),
        cause,
    };
    let mut events = vec![Event::ObjectEnded(Box::new(ending))];
    events.extend(quota);
    events
}

#[cfg(test)]
mod tests;
