//! Entries: what happened, in order. Never changed once written.

mod correction;
mod records;

use std::sync::Arc;

use serde::Serialize;

pub use correction::{
    Cause, Correction, Ending, RelistBegin, RelistClose, RelistEnd, RelistOutcome, RelistScope,
};
pub use quota_semantics::Actor;
pub use records::{
    ANNOTATION_MAX_BYTES, Cursor, DEAD_LETTER_MAX_BYTES, DeadLetter, GroupRecord, NamespaceRecord,
    Observed, QuotaRecord, Requested, Reservation, Watermark, Watermarks,
};

use quota_semantics::{Name, Timestamp, object::Footprint, resource::ResourceList, uid::Uid};

/// The position of an entry in the ledger: dense, from 1. Zero stands for the empty ledger.
pub type Sequence = u64;

/// One fact.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// Its position.
    pub sequence: Sequence,
    /// Ledger time: never before that of an earlier entry.
    pub time: Timestamp,
    /// The principal that caused it, and how.
    pub actor: Arc<Actor>,
    /// The event.
    pub event: Event,
}

/// The event of an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename_all_fields = "camelCase")]
pub enum Event {
    /// A quota was created, or its spec or metadata changed.
    QuotaSet(Arc<QuotaRecord>),
    /// A quota was deleted.
    QuotaDeleted {
        /// Its namespace.
        namespace: Name,
        /// Its name.
        name: Name,
    },
    /// An object was observed for the first time, or in a newer version.
    ObjectObserved(Box<Observed>),
    /// A newer version of an object was observed with the same footprint.
    ObjectRefreshed {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// Its version.
        version: u64,
        /// Whether this ended the object's pending reservation.
        ends_reservation: bool,
    },
    /// An object stopped counting (all but `count/…`) because its time had come: a pod past its deletion grace.
    ObjectLapsed {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The footprint that still counts.
        footprint: Box<Footprint>,
    },
    /// An object was deleted. Final for its uid.
    ObjectDeleted {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
    },
    /// Capacity was promised to an object.
    ReservationGranted(Arc<Reservation>),
    /// A pending reservation was raised by a further request for its object.
    ReservationGrown {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The new footprint.
        footprint: Arc<Footprint>,
        /// The new expiration.
        expiration: Timestamp,
    },
    /// A pending reservation was given more time.
    ReservationExtended {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The new expiration.
        expiration: Timestamp,
    },
    /// The holder released a reservation.
    ReservationReleased {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
    },
    /// A reservation expired.
    ReservationExpired {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
    },
    /// A newer reservation for the same namespace, resource and name replaced a pending one.
    ReservationSuperseded {
        /// The object whose reservation ended.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The object of the newer reservation.
        by: Uid,
    },
    /// A reservation is for a name that another object still bears: while that object exists, the reservation holds
    /// only the excess over it. In the batch of [`Event::ReservationGranted`].
    NameAwaited {
        /// The object that the reservation is for.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The object that bears the name.
        bearer: Uid,
    },
    /// A pending reservation also holds a further update of its object: it ends when a later version than this one is
    /// observed. In the batch of [`Event::ReservationGrown`].
    VersionAwaited {
        /// The object that the reservation is for.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The version before the update.
        after_version: u64,
    },
    /// A source was consumed up to a position. In the batch of the events that it covers.
    SourceAdvanced {
        /// The source's name.
        source: Name,
        /// The new cursor.
        cursor: Cursor,
    },
    /// A source began anew (deleted and recreated): it is read from its beginning again.
    SourceReset {
        /// The source's name.
        source: Name,
        /// The new incarnation.
        incarnation: Name,
    },
    /// Positions of a source were lost before they were consumed.
    SourceGapped {
        /// The source's name.
        source: Name,
        /// First missing position.
        first: u64,
        /// Last missing position.
        last: u64,
    },
    /// A message was not understood, and the kind of its object could not be determined either.
    MessageRejected(Box<DeadLetter>),
    /// An object was found to exist, or to have another footprint, without an event of a source.
    ObjectCorrected(Box<Correction>),
    /// An object was found to be gone, without an event of a source.
    ObjectEnded(Box<Ending>),
    /// A source begins to list all objects of a kind. An unfinished relist of the same scope is discarded.
    RelistBegan(Box<RelistBegin>),
    /// Recorded objects were listed unchanged.
    ObjectsListed {
        /// The source of the relist.
        source: Name,
        /// The objects.
        uids: Vec<Uid>,
    },
    /// A source has listed all objects of a kind.
    RelistClosed(Box<RelistClose>),
    /// A relist is over.
    RelistEnded(Box<RelistEnd>),
    /// A source has reported everything up to a time, kind by kind.
    WatermarksAdvanced(Box<Watermarks>),
    /// A source has listed all objects of a kind in all namespaces, and none of its messages was lost meanwhile: from
    /// here on its watermark of this kind counts, until a message is lost. In the batch of [`Event::RelistClosed`].
    ResourceListed {
        /// The source.
        source: Name,
        /// The kind, as in `pods` or `deployments.apps`.
        resource: Name,
    },
    /// The versions of a kind went back: objects that the new relist lists replace recorded ones, whatever their
    /// version. Holds until a relist of this scope is complete.
    VersionsReset(Box<RelistScope>),
    /// An object was listed in an older version than the recorded one, or after its deletion, because versions went
    /// back.
    ObjectReplaced(Box<Observed>),
    /// The set of charged workloads has changed. From here on, workloads that are no longer charged count for
    /// themselves alone; relists that are not over are discarded.
    WorkloadsCharged {
        /// The kinds that are charged, as in `deployments.apps`, in order.
        kinds: Vec<Name>,
    },
    /// The set of recorded labels of objects has changed; groups select by these. The labels that were recorded before
    /// stay as they are until their object is observed again.
    ObjectLabelsChanged {
        /// Their keys, in order.
        keys: Vec<Name>,
    },
    /// In a cluster: from here on this node decides. Entries of earlier leaders are in the ledger before this entry, or
    /// nowhere. Changes no number.
    LeaderChanged {
        /// Its term: one more than that of the leader before.
        term: u64,
        /// The node.
        node: Name,
        /// Its process, drawn at random at each start.
        instance: u64,
    },
    /// From here on, ended reservations are remembered up to this many bytes.
    EndedBounded {
        /// The bytes. A reservation counts with the length of its entry.
        bytes: u64,
    },
    /// An event about a known kind of objects was not understood.
    EventRejected {
        /// The kind of its object, as in `pods` or `deployments.apps`.
        resource: Name,
        /// The event.
        #[serde(flatten)]
        letter: Box<DeadLetter>,
    },
    /// The holder committed the reservation: the given amounts count as used, until the object is observed or the
    /// holder returns them.
    ReservationCommitted {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
        /// The amounts that it counts for.
        resources: ResourceList,
    },
    /// The holder returned a committed reservation.
    ReservationReturned {
        /// The object.
        uid: Uid,
        /// Its namespace.
        namespace: Name,
    },
    /// A namespace was observed for the first time, or with other labels or annotations.
    NamespaceObserved(Arc<NamespaceRecord>),
    /// A namespace was deleted, or a relist has not reported it. Final for its uid.
    NamespaceDeleted {
        /// Its name.
        name: Name,
        /// Its identity.
        uid: Uid,
        /// The entry with which the relist began that has not reported the namespace; none: its source reported the
        /// deletion.
        #[serde(skip_serializing_if = "Option::is_none")]
        relist: Option<Sequence>,
    },
    /// A group was created or changed.
    GroupSet(Arc<GroupRecord>),
    /// A group was deleted.
    GroupDeleted {
        /// Its name.
        name: Name,
    },
    /// The time of an override is over: the limits of the spec apply again.
    OverrideEnded {
        /// The namespace of the quota; none: it is a group.
        #[serde(skip_serializing_if = "Option::is_none")]
        namespace: Option<Name>,
        /// The name of the quota or group.
        quota: Name,
    },
}

/// An object, or the object of a reservation, as an event names it.
#[derive(Clone, Copy, Debug)]
pub struct NamedSubject<'a> {
    /// Its namespace.
    pub namespace: &'a Name,
    /// Its identity.
    pub uid: &'a Uid,
    /// Its resource and group.
    pub resource: &'a Name,
    /// Its name; empty: unknown.
    pub name: &'a str,
    /// Its footprint.
    pub footprint: &'a Footprint,
}

impl<'a> From<&'a Observed> for NamedSubject<'a> {
    fn from(object: &'a Observed) -> Self {
        Self {
            namespace: &object.namespace,
            uid: &object.uid,
            resource: &object.resource,
            name: &object.name,
            footprint: &object.footprint,
        }
    }
}

impl Event {
    /// The rejected message or event, if this is a rejection.
    #[must_use]
    pub const fn dead_letter(&self) -> Option<&DeadLetter> {
        match self {
            Self::MessageRejected(letter) | Self::EventRejected { letter, .. } => Some(letter),
            _ => None,
        }
    }

    /// The object that the event concerns, by namespace and uid; none: it concerns none, or many.
    pub(crate) fn object(&self) -> Option<(&Name, &Uid)> {
        match self {
            Self::ObjectObserved(object) | Self::ObjectReplaced(object) => {
                Some((&object.namespace, &object.uid))
            }
            Self::ObjectCorrected(correction) => {
                Some((&correction.object.namespace, &correction.object.uid))
            }
            Self::ObjectEnded(ending) => Some((&ending.namespace, &ending.uid)),
            Self::ReservationGranted(reservation) => {
                Some((&reservation.namespace, &reservation.uid))
            }
            Self::ObjectRefreshed { uid, namespace, .. }
            | Self::ObjectLapsed { uid, namespace, .. }
            | Self::ObjectDeleted { uid, namespace }
            | Self::ReservationGrown { uid, namespace, .. }
            | Self::ReservationExtended { uid, namespace, .. }
            | Self::ReservationReleased { uid, namespace }
            | Self::ReservationExpired { uid, namespace }
            | Self::ReservationSuperseded { uid, namespace, .. }
            | Self::NameAwaited { uid, namespace, .. }
            | Self::VersionAwaited { uid, namespace, .. }
            | Self::ReservationCommitted { uid, namespace, .. }
            | Self::ReservationReturned { uid, namespace } => Some((namespace, uid)),
            _ => None,
        }
    }

    /// The namespace of the event; none: the event concerns a source, or all namespaces.
    #[must_use]
    pub fn namespace(&self) -> Option<&Name> {
        match self {
            Self::QuotaSet(quota) => Some(&quota.namespace),
            Self::NamespaceObserved(namespace) => Some(&namespace.name),
            Self::NamespaceDeleted { name, .. } => Some(name),
            Self::ObjectObserved(object) | Self::ObjectReplaced(object) => Some(&object.namespace),
            Self::ReservationGranted(reservation) => Some(&reservation.namespace),
            Self::QuotaDeleted { namespace, .. }
            | Self::ObjectRefreshed { namespace, .. }
            | Self::ObjectLapsed { namespace, .. }
            | Self::ObjectDeleted { namespace, .. }
            | Self::ReservationGrown { namespace, .. }
            | Self::ReservationExtended { namespace, .. }
            | Self::ReservationCommitted { namespace, .. }
            | Self::ReservationReturned { namespace, .. }
            | Self::ReservationReleased { namespace, .. }
            | Self::ReservationExpired { namespace, .. }
            | Self::ReservationSuperseded { namespace, .. }
            | Self::NameAwaited { namespace, .. }
            | Self::VersionAwaited { namespace, .. } => Some(namespace),
            Self::ObjectCorrected(correction) => Some(&correction.object.namespace),
            Self::ObjectEnded(ending) => Some(&ending.namespace),
            Self::RelistBegan(begin) => begin.scope.namespace.as_ref(),
            Self::RelistClosed(close) => close.scope.namespace.as_ref(),
            Self::RelistEnded(end) => end.scope.namespace.as_ref(),
            Self::VersionsReset(scope) => scope.namespace.as_ref(),
            Self::OverrideEnded { namespace, .. } => namespace.as_ref(),
            Self::SourceAdvanced { .. }
            | Self::GroupSet(_)
            | Self::GroupDeleted { .. }
            | Self::SourceReset { .. }
            | Self::SourceGapped { .. }
            | Self::ObjectsListed { .. }
            | Self::WatermarksAdvanced(_)
            | Self::ResourceListed { .. }
            | Self::WorkloadsCharged { .. }
            | Self::ObjectLabelsChanged { .. }
            | Self::LeaderChanged { .. }
            | Self::EndedBounded { .. }
            | Self::EventRejected { .. }
            | Self::MessageRejected(_) => None,
        }
    }

    /// The object or reservation that the event is about, if the event names it by its uid alone.
    #[must_use]
    pub const fn unnamed_subject(&self) -> Option<(&Name, &Uid)> {
        match self {
            Self::ObjectRefreshed { namespace, uid, .. }
            | Self::ObjectLapsed { namespace, uid, .. }
            | Self::ObjectDeleted { namespace, uid }
            | Self::ReservationGrown { namespace, uid, .. }
            | Self::ReservationExtended { namespace, uid, .. }
            | Self::ReservationCommitted { namespace, uid, .. }
            | Self::ReservationReturned { namespace, uid }
            | Self::ReservationReleased { namespace, uid }
            | Self::ReservationExpired { namespace, uid }
            | Self::ReservationSuperseded { namespace, uid, .. }
            | Self::NameAwaited { namespace, uid, .. }
            | Self::VersionAwaited { namespace, uid, .. } => Some((namespace, uid)),
            _ => None,
        }
    }

    /// The object or reservation that the event is about, if the event names it.
    #[must_use]
    pub fn named_subject(&self) -> Option<NamedSubject<'_>> {
        match self {
            Self::ObjectObserved(object) | Self::ObjectReplaced(object) => {
                Some(NamedSubject::from(&**object))
            }
            Self::ObjectCorrected(correction) => Some(NamedSubject::from(&correction.object)),
            Self::ReservationGranted(reservation) => Some(NamedSubject {
                namespace: &reservation.namespace,
                uid: &reservation.uid,
                resource: &reservation.resource,
                name: &reservation.name,
                footprint: &reservation.footprint,
            }),
            _ => None,
        }
    }

    /// The name of the kind of event, as it is in `type`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::QuotaSet(_) => "QuotaSet",
            Self::QuotaDeleted { .. } => "QuotaDeleted",
            Self::ObjectObserved(_) => "ObjectObserved",
            Self::ObjectRefreshed { .. } => "ObjectRefreshed",
            Self::ObjectLapsed { .. } => "ObjectLapsed",
            Self::ObjectDeleted { .. } => "ObjectDeleted",
            Self::ReservationGranted(_) => "ReservationGranted",
            Self::ReservationGrown { .. } => "ReservationGrown",
            Self::ReservationExtended { .. } => "ReservationExtended",
            Self::ReservationCommitted { .. } => "ReservationCommitted",
            Self::ReservationReturned { .. } => "ReservationReturned",
            Self::ReservationReleased { .. } => "ReservationReleased",
            Self::ReservationExpired { .. } => "ReservationExpired",
            Self::ReservationSuperseded { .. } => "ReservationSuperseded",
            Self::NameAwaited { .. } => "NameAwaited",
            Self::VersionAwaited { .. } => "VersionAwaited",
            Self::SourceAdvanced { .. } => "SourceAdvanced",
            Self::SourceReset { .. } => "SourceReset",
            Self::SourceGapped { .. } => "SourceGapped",
            Self::MessageRejected(_) => "MessageRejected",
            Self::ObjectCorrected(_) => "ObjectCorrected",
            Self::ObjectEnded(_) => "ObjectEnded",
            Self::RelistBegan(_) => "RelistBegan",
            Self::ObjectsListed { .. } => "ObjectsListed",
            Self::RelistClosed(_) => "RelistClosed",
            Self::RelistEnded(_) => "RelistEnded",
            Self::WatermarksAdvanced(_) => "WatermarksAdvanced",
            Self::ResourceListed { .. } => "ResourceListed",
            Self::VersionsReset(_) => "VersionsReset",
            Self::ObjectReplaced(_) => "ObjectReplaced",
            Self::WorkloadsCharged { .. } => "WorkloadsCharged",
            Self::ObjectLabelsChanged { .. } => "ObjectLabelsChanged",
            Self::EndedBounded { .. } => "EndedBounded",
            Self::EventRejected { .. } => "EventRejected",
            Self::LeaderChanged { .. } => "LeaderChanged",
            Self::GroupSet(_) => "GroupSet",
            Self::GroupDeleted { .. } => "GroupDeleted",
            Self::OverrideEnded { .. } => "OverrideEnded",
            Self::NamespaceObserved(_) => "NamespaceObserved",
            Self::NamespaceDeleted { .. } => "NamespaceDeleted",
        }
    }
}
