//! Why a command was refused.

use serde::Serialize;

use crate::state::{LimitKind, ReservationView};
use quota_semantics::{Name, Timestamp, admission, quantity::Quantity, quota::FieldError};

/// Why a command changed nothing.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Refusal {
    /// A quota, or a rule of quotas, forbids it.
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
        /// How much it would be; seconds, if it is a time.
        requested: usize,
        /// How much is allowed.
        most: usize,
    },
    /// The time requested is not positive, or longer than the configuration allows.
    #[error("ttl must be more than 0s and at most {}s", .max.nanoseconds() / 1_000_000_000)]
    InvalidTtl {
        /// The longest that is allowed.
        max: quota_semantics::Span,
    },
    /// There is no such thing, or not any more.
    #[error("{0} not found")]
    NotFound(String),
    /// The reservation's time ran out.
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
        /// What was committed.
        committed: Quantity,
        /// What was reserved.
        reserved: Quantity,
    },
    /// The quota or group comes from a source, which would undo the change.
    #[error(
        "{what} comes from the cluster: change it there ({edit}), since what is changed here would be undone by its next \
         event"
    )]
    Adopted {
        /// What it is about.
        what: String,
        /// The command that changes it there.
        edit: String,
    },
    /// Whether a group counts what is requested cannot be decided: the labels of the namespace are not known yet.
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
    /// What was requested is not valid.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Invalid(Vec<FieldError>),
    /// Somebody changed it in between.
    #[error("{what} has been modified: it is at {current}, not {expected}")]
    Conflict {
        /// What it is about.
        what: String,
        /// The version it has; 0: it does not exist.
        current: u64,
        /// The version that the command was for; 0: not to exist.
        expected: u64,
    },
}

/// A denial, with the numbers it was made on.
#[derive(Clone, Debug)]
pub struct Denied {
    /// The rule that stood against it.
    pub denial: admission::Denial,
    /// Kubernetes' own words, and what is to be said about reservations.
    pub detail: String,
    /// Every quota looked at, as far as the rules let so many be shown.
    pub quotas: Vec<CheckedQuota>,
    /// How many more were looked at.
    pub quotas_omitted: usize,
    /// When the expiry of pending reservations alone would make room.
    pub retry_after: Option<Timestamp>,
    /// Whether it would be granted if nothing else counted. If not, waiting is of no use: the request or a quota has
    /// to change.
    pub fits_when_empty: bool,
}

/// A quota that a decision looked at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedQuota {
    /// The quota's name.
    pub name: Name,
    /// What it is.
    pub kind: LimitKind,
    /// Its limits.
    pub resources: Vec<CheckedLimit>,
}

/// A limit that a decision looked at.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct CheckedLimit {
    /// The resource.
    pub resource: Name,
    /// The limit.
    pub hard: Quantity,
    /// What observed objects count for.
    pub used: Quantity,
    /// What pending reservations hold beside that.
    pub reserved: Quantity,
    /// What is guaranteed to others, and so not to be had.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed_to_others: Option<Quantity>,
    /// The limit above which a grant comes with a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soft: Option<Quantity>,
    /// What was requested.
    pub requested: Quantity,
}

/// Something that is said of a request although it was granted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// The quota or group that it is about.
    pub quota: Name,
    /// What that is.
    pub kind: LimitKind,
    /// Who is to learn of it.
    #[serde(skip)]
    pub audience: Audience,
    /// What is said: a denial in Kubernetes' words, if the quota does not enforce its limits.
    pub message: String,
}

/// Who learns of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// The caller.
    Caller,
    /// Those who read metrics and audit logs.
    Auditors,
}
