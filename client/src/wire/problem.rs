//! Errors, denials, and the result of a check.

use std::borrow::Cow;

use quota_semantics::{
    Actor, Name, Timestamp, admission::CheckedQuota, field::shown, quota::FieldError,
    resource::ResourceList, uid::Uid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false, is_zero, no_items};

/// An error response: `application/problem+json` (RFC 9457).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// The URI of the reason: `urn:quota-ledger:problem:` and the reason.
    #[serde(rename = "type", default)]
    pub kind: Cow<'static, str>,
    /// A short summary of the reason, the same for all problems with this reason.
    #[serde(default)]
    pub title: Cow<'static, str>,
    /// The HTTP status code.
    #[serde(default)]
    pub status: u16,
    /// The reason, for programs.
    #[serde(default)]
    #[schemars(with = "super::Reason")]
    pub reason: Cow<'static, str>,
    /// The message for people.
    #[serde(default)]
    pub detail: String,
    /// The index of the refused item of a batch, from 0.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    /// The entry that the problem is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The errors of single fields.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldProblem>,
    /// The checked quotas and groups, if one of them denied the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Vec<CheckedQuota>>,
    /// The number of checked quotas that `quotas` leaves out: the space for quotas is bounded, and the denials of a batch share it.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(range(min = 1))]
    pub quotas_omitted: usize,
    /// The time at which the expiry of pending reservations alone makes room, if it can be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether the request would fit if nothing else counted. If not, the request or a quota has to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_when_empty: Option<bool>,
    /// The last entry of the ledger at the time of the decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// The state of the requested reservation, if it was granted before and has ended since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "super::reservation_state")]
    pub state: Option<Cow<'static, str>>,
    /// The time at which the requested reservation ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// The cause of the reservation's end: `released`, `returned`, `expired` or `superseded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<Cow<'static, str>>,
}

/// An error of one field.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "FieldError")]
pub struct FieldProblem {
    /// The path of the field, such as `spec.hard[pods]`.
    pub field: String,
    /// The error message.
    pub message: String,
    /// The kind of error, as in Kubernetes' `status.details.causes`.
    #[serde(rename = "type", default)]
    pub kind: Cow<'static, str>,
}

impl FieldProblem {
    /// A required field is missing.
    pub fn required(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            message: format!("Required value: {why}"),
            kind: Cow::Borrowed("FieldValueRequired"),
        }
    }

    /// A value is not allowed. Of a long one only the start is shown, so that it does not hide the reason.
    pub fn invalid(field: impl Into<String>, value: &str, why: &str) -> Self {
        const VALUE_MAX_BYTES: usize = 512;
        let value = shown(value, VALUE_MAX_BYTES);
        Self {
            field: field.into(),
            message: format!("Invalid value: {value:?}: {why}"),
            kind: Cow::Borrowed("FieldValueInvalid"),
        }
    }

    /// A field is forbidden here.
    pub fn forbidden(field: &str, why: &str) -> Self {
        Self {
            field: field.to_owned(),
            message: format!("Forbidden: {why}"),
            kind: Cow::Borrowed("FieldValueForbidden"),
        }
    }
}

impl From<FieldError> for FieldProblem {
    fn from(error: FieldError) -> Self {
        Self {
            message: error.message(),
            kind: Cow::Borrowed(error.kind.reason()),
            field: error.field,
        }
    }
}

/// How many of the pods of a workload would fit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PodsVerdict")]
#[serde(rename_all = "camelCase")]
pub struct PodsVerdict<'a> {
    /// The number of pods that the workload runs at once.
    pub replicas: u64,
    /// The number of them that would be admitted.
    pub fit: u64,
    /// The reason why not all of them would be, for programs; absent if they would.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "super::Reason")]
    pub reason: Option<Cow<'a, str>>,
    /// The message for people, about all pods together; absent if they fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The checked quotas and groups, with what all pods together request; absent if they fit.
    #[serde(default, skip_serializing_if = "no_items")]
    pub quotas: Cow<'a, [CheckedQuota]>,
}

/// The result of a check: `POST /v1/namespaces/{namespace}/check`.
///
/// The daemon writes it from borrowed data; clients read `Verdict<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verdict<'a> {
    /// Whether the request would be granted.
    pub fits: bool,
    /// The reason of the denial, for programs; absent if the request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "super::Reason")]
    pub reason: Option<Cow<'a, str>>,
    /// The message for people; absent if the request fits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The checked quotas and groups.
    pub quotas: Cow<'a, [CheckedQuota]>,
    /// The requested resources that no quota and no group limits.
    #[serde(default, skip_serializing_if = "no_items")]
    pub unlimited: Cow<'a, [Name]>,
    /// The warnings that a grant would come with; also sent as `Warning` headers.
    #[serde(default, skip_serializing_if = "no_items")]
    pub warnings: Cow<'a, [String]>,
    /// The time at which the expiry of pending reservations alone makes room, if it can be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether the pods of a workload would fit as well: `fits` is about the object alone, unless the workload is charged
    /// for its pods. Absent for other objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<PodsVerdict<'a>>,
    /// The last entry that the check includes.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

// The reasons of refused requests: one closed set for all problems.

macro_rules! reasons {
    ($($(#[$about:meta])* $name:ident $status:literal $title:literal)*) => {
        /// The reason of a refused request. The set is closed, so that programs can match on it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, schemars::JsonSchema)]
        pub enum Reason { $($(#[$about])* $name,)* }

        impl Reason {
            /// All reasons.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// `None`, which stands for a successful request, and the names of all reasons.
            pub const NAMES_OR_NONE: &[&str] = &["None", $(stringify!($name)),*];

            /// The name of the reason, as in the field `reason`.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => stringify!($name),)* }
            }

            /// The HTTP status code of the reason.
            pub const fn status(self) -> u16 {
                match self { $(Self::$name => $status,)* }
            }

            /// A short summary of the reason, the same for all problems with it.
            pub const fn title(self) -> &'static str {
                match self { $(Self::$name => $title,)* }
            }

            /// The URI of the reason: the `type` of a problem.
            pub const fn uri(self) -> &'static str {
                match self { $(Self::$name => concat!("urn:quota-ledger:problem:", stringify!($name)),)* }
            }
        }
    };
}

reasons! {
    /// A quota has too little room.
    ExceedsHard 403 "The quota would be exceeded"
    /// A quota requires that every container sets the resource.
    MustSpecify 403 "The quota requires that resources are specified"
    /// The usage of a limit is unknown.
    StatusUnknown 403 "The usage of the quota is unknown"
    /// The configuration requires a quota for these names, and none exists.
    InsufficientQuota 403 "No quota covers the request"
    /// The configuration requires a quota with these scopes, and none exists.
    UncoveredScopes 403 "No quota covers the scopes of the request"
    /// The requested amount is negative.
    NegativeUsage 403 "The requested amount is negative"
    /// An update came without the old object.
    NoPreviousVersion 403 "The object to update is unknown"
    /// A quota has a selector that cannot be evaluated.
    BrokenSelector 403 "A quota's scope selector cannot be evaluated"
    /// The caller is not authenticated.
    Unauthorized 401 "The caller is not authenticated"
    /// The caller lacks the role for this request.
    Forbidden 403 "The caller lacks the role"
    /// The request is for a host that is not served.
    Misdirected 421 "The host is not served here"
    /// A page with a foreign origin sent the request.
    CrossOrigin 403 "Requests from pages of other origins are refused"
    /// The content of the request is not valid.
    Invalid 422 "The request is not valid"
    /// The uid was used for another request before.
    UidReused 422 "The uid was used for another request"
    /// The request exceeds a configured bound.
    LimitReached 422 "A limit of the configuration is reached"
    /// Another principal made the reservation.
    NotOwner 403 "Another principal made the reservation"
    /// The reservation was granted before, has ended since, and holds nothing.
    ReservationEnded 409 "The reservation has ended"
    /// The committed amount is larger than the reserved amount.
    ExceedsReservation 422 "More than was reserved"
    /// The requested item does not exist, or no longer exists.
    NotFound 404 "Not found"
    /// The reservation has expired.
    ReservationExpired 410 "The reservation has expired"
    /// The requested entries are no longer retained.
    Compacted 410 "The entries were compacted away"
    /// Too many entries lie between the nearest snapshot and the requested position.
    TooFarBack 422 "Too many entries would have to be replayed"
    /// A recorded decision does not follow from the limits of its time, so nothing can be simulated.
    NotReproducible 409 "A recorded decision cannot be reproduced"
    /// The object was observed or committed: its reservation has ended.
    AlreadyObserved 409 "The object was observed already"
    /// The reservation was released or superseded.
    AlreadyReleased 409 "The reservation was released already"
    /// Another request changed the item in between.
    Conflict 409 "Another request changed the item"
    /// `If-Match` or `If-None-Match` does not hold.
    PreconditionFailed 412 "A precondition does not hold"
    /// More reservations are pending than the configuration allows.
    TooManyReservations 429 "Too many reservations are pending"
    /// Too many watches are open.
    TooManyWatches 503 "Too many watches are open"
    /// Too many requests wait for the ledger.
    Overloaded 503 "Too many requests are waiting"
    /// Disk space is too low for requests that add to the ledger.
    DiskLow 503 "Disk space is low"
    /// The daemon has not caught up with its sources of events since its start.
    NotReady 503 "The ledger is not ready"
    /// Another node of the cluster leads, or no node; the request was not decided.
    NotLeader 503 "This node does not lead the cluster"
    /// The outcome of the request is unknown.
    OutcomeUnknown 503 "The outcome of the request is unknown"
    /// The replica is too old, or has not reached the requested sequence.
    Behind 503 "The replica is behind"
    /// The ledger takes no more entries.
    Stopped 503 "The ledger has stopped"
    /// The request was not answered in time.
    Timeout 503 "The request was not answered in time"
    /// The body did not arrive in time.
    RequestTimeout 408 "The body did not arrive in time"
    /// The request cannot be read.
    Malformed 400 "The request cannot be read"
    /// The body is too large.
    TooLarge 413 "The request is too large"
    /// The body has an unsupported media type.
    UnsupportedMediaType 415 "The type of the body is not supported"
    /// The path exists, but not with this method.
    MethodNotAllowed 405 "The method is not allowed here"
    /// An internal error.
    Internal 500 "Internal error"
}

impl Reason {
    /// The reason with this name; `None` if the name is unknown, as from a newer daemon.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|it| it.as_str() == name)
    }

    /// Whether a quota or a group denied the request: the caller has the role, but there is no room, or the request
    /// does not specify a required resource.
    pub const fn is_denial(self) -> bool {
        matches!(
            self,
            Self::ExceedsHard
                | Self::MustSpecify
                | Self::StatusUnknown
                | Self::InsufficientQuota
                | Self::UncoveredScopes
                | Self::NegativeUsage
                | Self::NoPreviousVersion
                | Self::BrokenSelector
        )
    }

    /// Whether the caller is not authenticated, or lacks a role; no quota is involved.
    pub const fn is_forbidden(self) -> bool {
        matches!(self, Self::Unauthorized | Self::Forbidden | Self::CrossOrigin | Self::NotOwner)
    }

    /// Whether the request contradicts the ledger, or the item was changed in between.
    pub const fn is_conflict(self) -> bool {
        matches!(
            self,
            Self::UidReused
                | Self::ReservationEnded
                | Self::ReservationExpired
                | Self::AlreadyObserved
                | Self::AlreadyReleased
                | Self::Conflict
                | Self::NotReproducible
                | Self::PreconditionFailed
        )
    }
}

// Denials that the daemon remembers.

/// A denied request: `GET /v1/denials`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Denial {
    /// The number of the denial; later denials have higher numbers.
    pub id: u64,
    /// The time of the denial.
    pub time: Timestamp,
    /// The namespace of the request.
    pub namespace: Name,
    /// The principal that made the request.
    pub actor: Actor,
    /// The object that the request was for.
    pub object: DeniedObject,
    /// The reason, for programs.
    #[schemars(with = "super::Reason")]
    pub reason: Cow<'static, str>,
    /// The message for people.
    pub detail: String,
    /// The limits that the request counts against, as far as they are kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub quotas: Vec<CheckedQuota>,
    /// The time at which the expiry of pending reservations alone makes room, if it can be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Timestamp>,
    /// Whether the request would fit if nothing else counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fits_when_empty: Option<bool>,
    /// Whether some amounts of a large record were dropped.
    #[serde(default, skip_serializing_if = "is_false")]
    pub shortened: bool,
    /// The last entry of the ledger at the time of the decision.
    pub as_of: AsOf,
}

/// The object of a denied request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct DeniedObject {
    /// The uid of the object.
    pub uid: Uid,
    /// The resource, as in `deployments.apps`.
    pub resource: String,
    /// The name of the object; empty if the request had none.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Box<str>,
    /// The requested amounts.
    pub requested: ResourceList,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_of_403_is_a_denial_or_forbidden() {
        for reason in Reason::ALL.iter().copied() {
            assert_eq!(Reason::named(reason.as_str()), Some(reason));
            let kinds = [reason.is_denial(), reason.is_forbidden(), reason.is_conflict()];
            let count = kinds.iter().filter(|is_it| **is_it).count();
            assert!(count <= 1, "{reason:?}: {kinds:?}");
            if reason.status() == 403 {
                assert!(reason.is_denial() != reason.is_forbidden(), "{reason:?}");
            }
        }
        assert_eq!(Reason::named("Newer"), None);
    }
}
