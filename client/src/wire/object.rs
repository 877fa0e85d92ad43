//! Objects that count towards usage.

use std::borrow::Cow;

use quota_semantics::{Timestamp, resource::ResourceList, uid::Uid};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An object in the ledger, or in a listing: `GET /v1/namespaces/{namespace}/objects`.
///
/// The daemon writes it from borrowed data; clients read `Object<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Object<'a> {
    /// The uid of the object.
    pub uid: Cow<'a, Uid>,
    /// The namespace.
    pub namespace: Cow<'a, str>,
    /// The resource, as in `deployments.apps`.
    pub resource: Cow<'a, str>,
    /// The name.
    pub name: Cow<'a, str>,
    /// The latest observed resourceVersion; absent if it is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// The amounts that the object counts for.
    pub usage: Cow<'a, ResourceList>,
    /// The sequence of the entry that last changed these amounts; absent for a listed object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// The time at which the object stops counting without an event, such as the end of a pod's deletion grace period.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_until: Option<Timestamp>,
}
