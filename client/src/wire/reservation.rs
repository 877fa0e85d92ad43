//! Reservations.

use std::borrow::Cow;

use quota_semantics::{
    Name, Period, Timestamp, quantity::Quantity, resource::ResourceList, uid::Uid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{AsOf, is_false, no_items};

/// A reservation.
///
/// The daemon writes it from borrowed data; clients read `Reservation<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Reservation<'a> {
    /// The namespace.
    pub namespace: Cow<'a, str>,
    /// The object that the reservation is for.
    pub reserved_by: Holder<'a>,
    /// The reserved amounts.
    pub reserved: Cow<'a, ResourceList>,
    /// The state: `pending`, `observed`, `committed`, `released` or `expired`.
    #[schemars(schema_with = "super::reservation_state")]
    pub state: Cow<'a, str>,
    /// An explanation of the state, for people; only for superseded and returned reservations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Cow<'a, str>>,
    /// The time at which the reservation was granted.
    pub created_time: Timestamp,
    /// The time at which the reservation expires.
    pub expiration_time: Timestamp,
    /// The time at which the reservation ended; absent while it is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_time: Option<Timestamp>,
    /// The quotas that count the reservation; absent in a list, and once the reservation holds nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quotas: Option<Cow<'a, [Name]>>,
    /// The groups that count the reservation, children before parents.
    #[serde(default, skip_serializing_if = "no_items")]
    pub groups: Cow<'a, [Name]>,
    /// The reserved resources that no quota and no group limits; absent where `quotas` is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unlimited: Option<Cow<'a, [Name]>>,
    /// The warnings of the grant; only in the response to the request, and also sent as `Warning` headers.
    #[serde(default, skip_serializing_if = "no_items")]
    pub warnings: Cow<'a, [String]>,
    /// The last entry that the response includes; absent in a list, which has its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub as_of: Option<AsOf>,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The object that a reservation is for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ReservedBy")]
#[serde(rename_all = "camelCase")]
pub struct Holder<'a> {
    /// The apiVersion of the object; empty if it was not given.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub api_version: Cow<'a, str>,
    /// The kind of the object; empty if it was not given.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub kind: Cow<'a, str>,
    /// The name of the object; empty if it was not given.
    #[serde(default, skip_serializing_if = "str::is_empty")]
    pub name: Cow<'a, str>,
    /// The uid of the object.
    pub uid: Cow<'a, Uid>,
}

impl Holder<'static> {
    /// An object with its apiVersion, kind, name and uid.
    pub fn new(api_version: &str, kind: &str, name: &str, uid: Uid) -> Self {
        Self {
            api_version: api_version.to_owned().into(),
            kind: kind.to_owned().into(),
            name: name.to_owned().into(),
            uid: Cow::Owned(uid),
        }
    }
}

/// A request to reserve or check amounts: `POST /v1/namespaces/{namespace}/reservations`, `…/check`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReserveRequest {
    /// The namespace; required in a batch, where the path has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Name>,
    /// The object that the reservation is for; optional if `object` has its fields, and for a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved_by: Option<Holder<'static>>,
    /// The amounts to reserve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reserved: Option<ResourceList>,
    /// In place of `reserved`: the object as a Kubernetes manifest. The daemon computes its amounts and matches scopes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object: Option<Value>,
    /// The time to live of the reservation; absent: the configured default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<Period>,
}

impl ReserveRequest {
    /// A request for these amounts.
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

    /// A request for the amounts of a Kubernetes object; its `metadata.uid` becomes the uid of the reservation.
    pub fn of_object(object: Value) -> Self {
        Self { object: Some(object), ..Self::default() }
    }

    /// The same request with a time to live.
    #[must_use]
    pub fn for_time(self, ttl: Period) -> Self {
        Self { ttl: Some(ttl), ..self }
    }

    /// The same request with a namespace, for a batch.
    #[must_use]
    pub fn in_namespace(self, namespace: &str) -> Self {
        Self { namespace: Some(namespace.into()), ..self }
    }
}
