//! Reservations.

use std::borrow::Cow;

use quota_semantics::{
    Name, Period, Timestamp, quantity::Quantity, resource::ResourceList, uid::Uid,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AsOf, is_false};

/// A reservation. The daemon borrows what it writes; what is read is `Reservation<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reservation<'a> {
    /// The namespace.
    pub namespace: Cow<'a, str>,
    /// The object that it is for.
    pub reserved_by: Holder<'a>,
    /// What it holds, or held.
    pub reserved: Cow<'a, ResourceList>,
    /// `pending`, `observed`, `committed`, `released` or `expired`.
    pub state: Cow<'a, str>,
    /// More about the state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// When it was granted.
    pub created_time: Timestamp,
    /// When it ends by itself.
    pub expiration_time: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// The quotas that hold what it claims; none in a list, and once it has ended and claims nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Cow<'a, [Name]>>,
    /// The groups that hold what it claims, nearest first.
    #[serde(default, skip_serializing_if = "no_items")]
    pub groups: Cow<'a, [Name]>,
    /// Resources that it claims and that no quota and no group limits; none where `quotas` is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<Cow<'a, [Name]>>,
    /// What the caller should know of the grant.
    #[serde(default, skip_serializing_if = "no_items")]
    pub warnings: Cow<'a, [String]>,
    /// How far the ledger was; none in a list, which says it once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The object that a reservation is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder<'a> {
    /// Its apiVersion.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub api_version: Cow<'a, str>,
    /// Its kind.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'a, str>,
    /// Its name.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    /// Its uid.
    pub uid: Cow<'a, Uid>,
}

impl Holder<'static> {
    /// An object by all that names it.
    #[must_use]
    pub fn new(api_version: &str, kind: &str, name: &str, uid: Uid) -> Self {
        Self {
            api_version: api_version.to_owned().into(),
            kind: kind.to_owned().into(),
            name: name.to_owned().into(),
            uid: Cow::Owned(uid),
        }
    }
}

/// What somebody asks to be reserved, or whether it would fit: `POST /v1/namespaces/{namespace}/reservations`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReserveRequest {
    /// The namespace: in a batch, where no path says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The object that it is for. Taken from `object` where that is given; nobody needs one to check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<Holder<'static>>,
    /// What to hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ResourceList>,
    /// In place of `reserved`: the whole object, as a Kubernetes manifest. What it counts for is computed, and scopes are
    /// matched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
    /// How long to hold it; none: as the daemon is configured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Period>,
}

impl ReserveRequest {
    /// A request for these amounts.
    #[must_use]
    pub fn of_amounts(
        holder: Holder<'static>,
        amounts: impl IntoIterator<Item = (Name, Quantity)>,
    ) -> Self {
        Self {
            reserved_by: Some(holder),
            reserved: Some(amounts.into_iter().collect()),
            ..Self::default()
        }
    }

    /// A request for what a Kubernetes object counts for. Its `metadata.uid` is that of the reservation.
    #[must_use]
    pub fn of_object(object: Value) -> Self {
        Self {
            object: Some(object),
            ..Self::default()
        }
    }

    /// The same, for so long.
    #[must_use]
    pub fn for_time(self, ttl: Period) -> Self {
        Self {
            ttl: Some(ttl),
            ..self
        }
    }

    /// The same, in a namespace: for a batch.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self {
            namespace: Some(namespace.into()),
            ..self
        }
    }
}

/// For lists that are written only when there is something in them.
const fn no_items<T>(items: &[T]) -> bool {
    items.is_empty()
}
