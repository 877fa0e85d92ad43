//! The objects behind the numbers.

use std::borrow::Cow;

use quota_semantics::{Timestamp, resource::ResourceList, uid::Uid};
use serde::{Deserialize, Serialize};

/// An object that the ledger believes to be there, or as it was listed: `GET /v1/namespaces/{namespace}/objects`. The
/// daemon borrows what it writes; what is read is `Object<'static>`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Object<'a> {
    /// Its uid.
    pub uid: Cow<'a, Uid>,
    /// Its namespace.
    pub namespace: Cow<'a, str>,
    /// Its resource, as in `deployments.apps`.
    pub resource: Cow<'a, str>,
    /// Its name.
    pub name: Cow<'a, str>,
    /// The version that was observed last; none: unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
    /// What it counts for.
    pub usage: Cow<'a, ResourceList>,
    /// The entry that last changed what it counts for; none if it was only listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    /// When it ceases to count without an event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counts_until: Option<Timestamp>,
    /// When its holder said that it exists, if that was a short while ago and no source has shown it yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub awaited_since: Option<Timestamp>,
}
