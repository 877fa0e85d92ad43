//! Denials that the daemon remembers.

use std::borrow::Cow;

use quota_semantics::{
    Actor, Name, Timestamp, admission::CheckedQuota, resource::ResourceList, uid::Uid,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

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
