//! Why a command was refused.

use serde::Serialize;

use crate::state::ReservationView;
use quota_semantics::{
    Name, Timestamp,
    admission::{self, CheckedQuota, LimitKind},
    quantity::Quantity,
    quota::FieldError,
};

/// Why a command changed nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// A quota, or a rule about quotas, denies the request.
    #[error("{}", .0.detail)]
    Denied(Box<Denied>),
    /// The uid was used for another request before.
    #[error("uid {0} was used before for another request")]
    UidReused(quota_semantics::uid::Uid),
    /// Another principal made the reservation.
    #[error("the reservation of {0} was made by another principal")]
    NotOwner(quota_semantics::uid::Uid),
    /// The reservation was granted before, and has ended since: nothing is held.
    #[error(
        "the reservation of {} has ended: it was {}",
        .0.reservation.uid,
        .0.end.map_or("", |(end, _)| end.as_str())
    )]
    Ended(Box<ReservationView>),
    /// More reservations are pending than the configuration allows.
    #[error("{limit} is reached: {pending} reservations are pending")]
    TooManyPending {
        /// The limit's key in the configuration.
        limit: &'static str,
        /// How many are pending.
        pending: usize,
    },
    /// More was requested than the configuration allows.
    #[error("{limit} is {most}, and this would make {requested}")]
    LimitReached {
        /// The limit's key in the configuration.
        limit: &'static str,
        /// The requested amount; in seconds, if it is a time.
        requested: usize,
        /// The allowed amount.
        most: usize,
    },
    /// The requested time to live is not positive, or longer than the configuration allows.
    #[error("ttl must be more than 0s and at most {}s", .max.nanoseconds() / 1_000_000_000)]
    InvalidTtl {
        /// The longest time to live that is allowed.
        max: quota_semantics::Span,
    },
    /// The object of the request does not exist, or no longer exists.
    #[error("{0} not found")]
    NotFound(String),
    /// The reservation has expired.
    #[error("the reservation has expired")]
    Expired(Box<ReservationView>),
    /// The reservation's object was observed or committed.
    #[error("the object has been observed: the reservation has ended")]
    AlreadyObserved(Box<ReservationView>),
    /// The reservation was released or superseded.
    #[error("the reservation has been released")]
    AlreadyReleased(Box<ReservationView>),
    /// More was committed than was reserved.
    #[error("{resource}: {committed} is more than the {reserved} reserved")]
    ExceedsReservation {
        /// The resource.
        resource: Name,
        /// The committed amount.
        committed: Quantity,
        /// The reserved amount.
        reserved: Quantity,
    },
    /// The quota or group comes from a source, which would undo the change.
    #[error(
        "{what} comes from the cluster: change it there ({edit}), since what is changed here would be undone by its next \
         event"
    )]
    Adopted {
        /// The quota or group.
        what: String,
        /// The command that changes it in the cluster.
        edit: String,
    },
    /// It cannot be decided whether a group counts the requested object: no source has reported the labels of the
    /// namespace yet.
    #[error(
        "whether group {group} is for namespace {namespace} cannot be decided yet: no source has shown the namespace, and \
         the group chooses by labels"
    )]
    NotReady {
        /// The namespace.
        namespace: Name,
        /// The group.
        group: Name,
    },
    /// The request moves an object to other quotas or groups while an earlier version of the object is held and not
    /// observed: either version may be the stored one.
    #[error(
        "the change takes {uid} out of {kind:?} {limit}, which holds an earlier version of the object: try again when that is \
         observed, or its reservation has ended"
    )]
    Moved {
        /// The object.
        uid: quota_semantics::uid::Uid,
        /// The quota or group.
        limit: Name,
        /// Which of the two it is.
        kind: LimitKind,
    },
    /// The request scales a workload whose present version is not observed: what one replica takes is not known.
    #[error(
        "the present version of {uid} is not observed yet, or its source gives no versions, so what a replica takes is \
         not known: try again when it is observed"
    )]
    NotObserved {
        /// The workload.
        uid: quota_semantics::uid::Uid,
    },
    /// The request is not valid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// The resource has changed in the meantime.
    #[error("{what} has been modified: it is at {current}, not {expected}")]
    Conflict {
        /// The resource.
        what: String,
        /// Its present version; 0: it does not exist.
        current: u64,
        /// The version that the request names; 0: it must not exist.
        expected: u64,
    },
}

/// A denial, with the numbers behind it.
#[derive(Clone, Debug)]
pub struct Denied {
    /// The rule that the request violates.
    pub denial: admission::Denial,
    /// The message as in Kubernetes, and a part about reservations.
    pub detail: String,
    /// The part of `detail` about reservations that count against the exceeded limit: their sum, and if it was searched
    /// for, their number and the time until the next one expires.
    pub reserved: Option<String>,
    /// The checked quotas, as many as the policy allows to show.
    pub quotas: Vec<CheckedQuota>,
    /// The number of checked quotas that are left out.
    pub quotas_omitted: usize,
    /// The time when expiring reservations alone will have made room.
    pub retry_after: Option<Timestamp>,
    /// Whether the request would be granted if nothing else counted. If not, waiting does not help: the request or a
    /// quota has to change.
    pub fits_when_empty: bool,
}

/// A notice about a granted request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The quota or group that the notice is about.
    pub quota: Name,
    /// Whether that is a quota or a group.
    pub kind: LimitKind,
    /// The audience of the notice.
    #[serde(skip)]
    pub audience: Audience,
    /// The text: the denial as in Kubernetes, if the quota does not enforce its limits.
    pub message: String,
}

/// The audience of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The caller.
    Caller,
    /// The readers of metrics and audit logs.
    Auditors,
}
