//! Drift: where the ledger and a listing disagree, and what puts it right.

use super::observe::{Adopted, adopt};
use crate::{
    event::{Cause, Correction, Ending, Event, Observed, Sequence},
    object::Footprint,
    state::{ObjectView, State},
    uid::Uid,
};

/// How a listed object stands to what the ledger believes.
#[derive(Clone, Debug)]
pub enum Standing {
    /// It is believed to be there, and to count for the same.
    Same,
    /// The ledger has seen more of it than the listing: a later version, or its deletion.
    Newer,
    /// It is not known.
    Missing,
    /// It is not known, but another one of its name is believed to be there.
    Recreated(ObjectView),
    /// It is believed to count for something else.
    Changed(ObjectView),
}

/// What was known of an object when it was compared. A correction is for nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The entry that last changed what it counts for.
    pub entry: Sequence,
    /// Its version; 0: not known.
    pub version: u64,
}

/// A wish to put something right.
#[derive(Clone, Debug)]
pub enum Repair {
    /// The object is there, and is as it was listed.
    Set {
        /// The object.
        object: Box<Observed>,
        /// The quota that it is, if quotas are adopted.
        quota: Option<Box<Adopted>>,
        /// What was known of it; none: nothing.
        seen: Option<Seen>,
    },
    /// The object is not there any more.
    End {
        /// The object.
        uid: Uid,
        /// What was known of it.
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
    /// The object has changed since it was compared.
    Changed,
}

/// Compares a listed object with what the ledger believes.
#[must_use]
pub fn compare(state: &State, listed: &Observed) -> Standing {
    let Some(known) = state.object(&listed.uid) else {
        if state.is_deleted(&listed.uid) {
            return Standing::Newer;
        }
        let namesake = state.object_named(&listed.namespace, &listed.resource, &listed.name);
        return namesake.map_or(Standing::Missing, Standing::Recreated);
    };
    if is_as_listed(&known, listed) {
        return Standing::Same;
    }
    match listed.version > 0 && known.version > listed.version {
        true => Standing::Newer,
        false => Standing::Changed(known),
    }
}

fn is_as_listed(known: &ObjectView, listed: &Observed) -> bool {
    *known.footprint == listed.footprint
        && known.namespace == listed.namespace
        && known.resource == listed.resource
        && known.name == listed.name
}

/// Puts something right, unless the object has changed since it was compared.
#[must_use]
pub fn repair(state: &State, repair: &Repair) -> Repaired {
    match repair {
        Repair::Set {
            object,
            quota,
            seen,
        } => set(state, object, quota.as_deref(), *seen),
        Repair::End { uid, seen } => match state.object(uid) {
            None => Repaired::Right,
            Some(known) if is_as_seen(&known, *seen) => {
                Repaired::Done(end(state, known, Cause::Drift))
            }
            Some(_) => Repaired::Changed,
        },
    }
}

fn is_as_seen(known: &ObjectView, seen: Seen) -> bool {
    let Seen { entry, version } = seen;
    known.entry == entry && known.version == version
}

fn set(state: &State, listed: &Observed, quota: Option<&Adopted>, seen: Option<Seen>) -> Repaired {
    let known = state.object(&listed.uid);
    match (&known, seen) {
        (Some(known), _) if is_as_listed(known, listed) => return Repaired::Right,
        (Some(known), Some(seen)) if is_as_seen(known, seen) => {}
        (None, None) if !state.is_deleted(&listed.uid) => {}
        _ => return Repaired::Changed,
    }
    let pending = state.reservation(&listed.uid);
    let pending = pending.filter(|view| view.end.is_none());
    let ends_reservation = pending
        .is_some_and(|view| listed.version == 0 || listed.version > view.reservation.after_version);
    let was = known
        .as_ref()
        .map(|known| Footprint::clone(&known.footprint));
    let correction = Correction {
        object: Observed {
            ends_reservation,
            version: listed.version.max(known.map_or(0, |known| known.version)),
            ..listed.clone()
        },
        was,
    };
    let mut events = vec![Event::ObjectCorrected(Box::new(correction))];
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
