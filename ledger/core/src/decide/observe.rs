//! Reports of sources: objects observed and deleted, positions, and events that were not understood.

use std::sync::Arc;

use super::{
    adopted_group, charging::relieved, name_conflicts, namespaces, quota::adopted_version, relist,
};
use crate::{
    event::{Cursor, DeadLetter, Event, GroupRecord, NamespaceRecord, Observed, QuotaRecord},
    state::State,
};
use quota_semantics::{Name, Timestamp, object::Footprint, quota::spec::Spec, uid::Uid};

/// A report of a source about an object.
#[derive(Clone, Debug)]
pub enum Sighting {
    /// The object exists.
    Alive {
        /// The object as it was observed. The decision determines whether it ends a reservation.
        object: Box<Observed>,
        /// The quota that the object is, if quotas are adopted from the stream.
        quota: Option<Box<Adopted>>,
    },
    /// The object was deleted.
    Deleted {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// Its name, if it is a quota and quotas are adopted from the stream.
        quota: Option<Name>,
    },
    /// A namespace exists.
    Namespace(Arc<NamespaceRecord>),
    /// A namespace was deleted.
    NamespaceEnded {
        /// Its name.
        namespace: Name,
        /// Its identity, if the report gives one.
        uid: Option<Uid>,
        /// Whether quotas are adopted from the stream: then the adopted quotas of the namespace end with it.
        adopts: bool,
        /// The version as of which the namespace is gone; 0: unknown.
        version: u64,
    },
    /// A group exists.
    Group {
        /// The group with all its fields, and the version in which it was observed.
        record: Arc<GroupRecord>,
        /// Most groups from the root of a tree to a leaf.
        max_depth: usize,
    },
    /// A group was deleted.
    GroupEnded {
        /// Its name.
        name: Name,
        /// Its identity.
        uid: Uid,
    },
}

/// A ResourceQuota in a stream.
#[derive(Clone, Debug)]
pub struct Adopted {
    /// When it was created.
    pub created: Timestamp,
    /// Limits and scopes.
    pub spec: Spec,
    /// The rest of its metadata as JSON text.
    pub metadata: Box<str>,
}

/// The result of observing a sighting.
#[derive(Clone, Debug)]
pub enum Verdict {
    /// The sighting is new.
    Accepted(Vec<Event>),
    /// The sighting is old, and is returned: its version is not newer than the recorded one, or its object is deleted.
    Ignored(Sighting),
}

/// Observes a sighting.
///
/// For one uid, a version that is not newer than the recorded one changes nothing, except that a quota which is not
/// adopted yet is adopted from the recorded version; and a deletion is final. The version 0 is unknown, and is taken for
/// newer unless the sighting is unchanged.
#[must_use]
pub fn observe(state: &State, sighting: Sighting) -> Verdict {
    match sighting {
        Sighting::Alive { object, quota } => alive(state, object, quota),
        Sighting::Deleted { uid, namespace, quota } => deleted(state, uid, namespace, quota),
        Sighting::Namespace(record) => match namespaces::observe(state, &record) {
            Some(event) => Verdict::Accepted(vec![event]),
            None => Verdict::Ignored(Sighting::Namespace(record)),
        },
        Sighting::Group { record, max_depth } => {
            let events = adopted_group::observe(state, &record, max_depth);
            match events.is_empty() {
                true => Verdict::Ignored(Sighting::Group { record, max_depth }),
                false => Verdict::Accepted(events),
            }
        }
        Sighting::GroupEnded { name, uid } => {
            let events = adopted_group::end(state, &name, &uid);
            match events.is_empty() {
                true => Verdict::Ignored(Sighting::GroupEnded { name, uid }),
                false => Verdict::Accepted(events),
            }
        }
        Sighting::NamespaceEnded { namespace, uid, adopts, version } => {
            let end = namespaces::end(state, &namespace, uid.as_ref(), version);
            let quotas = adopts.then(|| end_quotas(state, &namespace, version));
            let events: Vec<_> = end.into_iter().chain(quotas.into_iter().flatten()).collect();
            match events.is_empty() {
                true => {
                    Verdict::Ignored(Sighting::NamespaceEnded { namespace, uid, adopts, version })
                }
                false => Verdict::Accepted(events),
            }
        }
    }
}

/// Ends the quotas that a source has reported in a deleted namespace, whether or not the source reports their deletion.
/// A quota with a later version belongs to a new namespace of the same name.
fn end_quotas(state: &State, namespace: &Name, version: u64) -> Vec<Event> {
    let is_gone = |quota: &&Arc<QuotaRecord>| {
        let shown = adopted_version(state, quota);
        shown.is_some_and(|shown| (1..version).contains(&shown))
    };
    let gone = state.quota_records(namespace).filter(is_gone);
    gone.flat_map(|quota| {
        let object = Event::ObjectDeleted { uid: quota.uid.clone(), namespace: namespace.clone() };
        let limits = Event::QuotaDeleted { namespace: namespace.clone(), name: quota.name.clone() };
        [object, limits]
    })
    .collect()
}

fn deleted(state: &State, uid: Uid, namespace: Name, quota: Option<Name>) -> Verdict {
    if state.is_deleted(&namespace, &uid) && state.object(&namespace, &uid).is_none() {
        return Verdict::Ignored(Sighting::Deleted { uid, namespace, quota });
    }
    let is_adopted = |name: &Name| {
        let record = state.quota_record(&namespace, name);
        record.is_some_and(|(record, _)| record.uid == uid)
    };
    let quota = quota
        .filter(is_adopted)
        .map(|name| Event::QuotaDeleted { namespace: namespace.clone(), name });
    let mut events = vec![Event::ObjectDeleted { uid, namespace }];
    events.extend(quota);
    Verdict::Accepted(events)
}

/// Replaces the record by a listed sighting, whatever the versions, if an open relist of this source resets versions
/// and has not reported the object yet. Otherwise returns the sighting.
///
/// # Errors
/// The sighting.
pub fn replace(state: &State, source: &Name, sighting: Sighting) -> Result<Vec<Event>, Sighting> {
    let is_replaced = relist::is_to_be_replaced(state, source, &sighting);
    match sighting {
        // A footprint that was recorded by another rule must not be reused: the object may have counted as a replica then.
        Sighting::Alive { mut object, quota } if is_replaced => {
            let footprint = std::mem::take(&mut object.footprint);
            object.footprint = relieved(state, &object.namespace, &object.uid, footprint);
            object.ends_reservation = ends_reservation(state, &object);
            let adopted = quota.and_then(|quota| adopt(state, &object, &quota));
            let named = name_conflicts::settled(state, &object);
            let replaced = Event::ObjectReplaced(object);
            Ok([replaced].into_iter().chain(adopted).chain(named).collect())
        }
        Sighting::Namespace(record) if is_replaced => Ok(vec![Event::NamespaceObserved(record)]),
        Sighting::Group { record, max_depth } if is_replaced => {
            Ok(adopted_group::replace(state, &record, max_depth))
        }
        sighting => Err(sighting),
    }
}

/// The footprint for which an observed object counts, given its recorded footprint, or else the one held for it. Anyone
/// who may reserve can hold anything under the uid of a recorded object.
pub(super) fn as_before(
    state: &State,
    object: &Observed,
    footprint: Footprint,
    recorded: Option<&Footprint>,
) -> Footprint {
    let pending = || {
        let pending = state.pending_of(&object.namespace, &object.uid);
        pending.map(|pending| &*pending.reservation.footprint)
    };
    let footprint = relieved(state, &object.namespace, &object.uid, footprint);
    match recorded.or_else(pending) {
        Some(before) => footprint.following(before),
        None => footprint,
    }
}

pub(super) fn ends_reservation(state: &State, object: &Observed) -> bool {
    let pending = state.pending_of(&object.namespace, &object.uid);
    pending.is_some_and(|pending| pending.reservation.is_awaiting(object.version))
}

fn alive(state: &State, mut object: Box<Observed>, quota: Option<Box<Adopted>>) -> Verdict {
    let recorded = state.recorded(&object.namespace, &object.uid);
    let footprint = std::mem::take(&mut object.footprint);
    let before = recorded.as_ref().map(|recorded| recorded.footprint);
    object.footprint = as_before(state, &object, footprint, before);
    // A deleted object that is recorded came back with a backup of its cluster.
    if recorded.is_none() && state.is_deleted(&object.namespace, &object.uid) {
        return Verdict::Ignored(Sighting::Alive { object, quota });
    }
    let ends_reservation = ends_reservation(state, &object);
    let adopted = || {
        let quota = quota.as_ref();
        quota.and_then(|quota| adopt(state, &object, quota))
    };
    let Some(recorded) = recorded else {
        let named = name_conflicts::settled(state, &object);
        let more = adopted().into_iter().chain(named);
        return accepted(object, ends_reservation, more);
    };
    // Quotas may be adopted since the version was recorded. A record with the uid of an object is adopted already; any
    // other record was set at the daemon, and a newer version would replace it, too.
    let is_adopted = |record: &QuotaRecord| state.object(&record.namespace, &record.uid).is_some();
    let is_to_be_adopted = quota.is_some()
        && state
            .quota_record(&object.namespace, &object.name)
            .is_none_or(|(record, _)| !is_adopted(record));
    // The payer of a workload may be recorded since.
    let is_relieved = recorded.footprint.itself().as_ref() == Some(&object.footprint);
    // A kind may get its right name in the same version.
    let is_known = object.version == recorded.version
        && object.resource == *recorded.resource
        && !is_to_be_adopted
        && !is_relieved;
    if object.version != 0 && (object.version < recorded.version || is_known) {
        return Verdict::Ignored(Sighting::Alive { object, quota });
    }
    let same = *recorded.footprint == object.footprint
        && *recorded.resource == object.resource
        && *recorded.name == *object.name
        && recorded.lapse == object.lapse;
    let adopted = adopted();
    if !same || adopted.is_some() {
        return accepted(object, ends_reservation, adopted);
    }
    let version = object.version.max(recorded.version);
    if state.replaces(&object.namespace, &object.uid, version) {
        // A commit ends, so there is more to it than a new version.
        object.version = version;
        return accepted(object, ends_reservation, None);
    }
    if object.version == 0 && !ends_reservation {
        return Verdict::Ignored(Sighting::Alive { object, quota });
    }
    Verdict::Accepted(vec![Event::ObjectRefreshed {
        uid: object.uid,
        namespace: object.namespace,
        version,
        ends_reservation,
    }])
}

fn accepted(
    mut object: Box<Observed>,
    ends_reservation: bool,
    more: impl IntoIterator<Item = Event>,
) -> Verdict {
    object.ends_reservation = ends_reservation;
    let mut events = vec![Event::ObjectObserved(object)];
    events.extend(more);
    Verdict::Accepted(events)
}

pub(super) fn adopt(state: &State, object: &Observed, quota: &Adopted) -> Option<Event> {
    let record = QuotaRecord {
        namespace: object.namespace.clone(),
        name: Name::from(&*object.name),
        uid: object.uid.clone(),
        created: quota.created,
        spec: quota.spec.clone(),
        metadata: quota.metadata.clone(),
    };
    let current = state.quota_record(&record.namespace, &record.name);
    if current.is_some_and(|(current, _)| **current == record) {
        return None;
    }
    Some(Event::QuotaSet(Arc::new(record)))
}

/// Advances the cursor of a source. Returns nothing if the cursor is there or further already.
#[must_use]
pub fn advance(state: &State, source: &Name, cursor: &Cursor) -> Option<Event> {
    let current = state.sources().get(source);
    let passed = current.is_some_and(|current| {
        current.incarnation == cursor.incarnation && current.position >= cursor.position
    });
    (!passed).then(|| Event::SourceAdvanced { source: source.clone(), cursor: cursor.clone() })
}

/// Resets a source that began anew or went back in time: it is read from its beginning. The position up to which it was
/// consumed before stays recorded.
#[must_use]
pub fn reset(state: &State, source: &Name, incarnation: &Name) -> Vec<Event> {
    let former = former(source);
    let before = [source, &former].map(|name| state.sources().get(name));
    let furthest = before.into_iter().flatten().max_by_key(|cursor| cursor.time);
    let consumed = furthest.filter(|cursor| cursor.time > Timestamp::EPOCH);
    let advanced = consumed.and_then(|cursor| {
        let is_known = state.sources().get(&former) == Some(cursor);
        (!is_known)
            .then(|| Event::SourceAdvanced { source: former.clone(), cursor: cursor.clone() })
    });
    let reset = Event::SourceReset { source: source.clone(), incarnation: incarnation.clone() };
    advanced.into_iter().chain([reset]).collect()
}

/// The end of the name under which the former cursor of a reset source is recorded. No stream has such a name.
const FORMER: &str = "/former";

fn former(source: &str) -> Name {
    Name::from(format!("{source}{FORMER}"))
}

/// Whether the cursor of this name is the former one of a reset source.
#[must_use]
pub fn is_former(name: &str) -> bool {
    name.ends_with(FORMER)
}

/// Whether a message that a source received at this time was consumed before the reset, and is read again.
#[must_use]
pub fn was_consumed_before(state: &State, source: &str, received: Timestamp) -> bool {
    let former = state.sources().get(&former(source));
    former.is_some_and(|cursor| received <= cursor.time)
}

/// Records that positions of a source were lost before they were consumed.
#[must_use]
pub fn gap(source: &Name, first: u64, last: u64) -> Event {
    Event::SourceGapped { source: source.clone(), first, last }
}

/// Records an event that was not understood, with the kind of its object if that could be determined.
#[must_use]
pub fn reject(letter: DeadLetter, resource: Option<Name>) -> Event {
    let letter = Box::new(letter);
    match resource {
        Some(resource) => Event::EventRejected { resource, letter },
        None => Event::MessageRejected(letter),
    }
}
