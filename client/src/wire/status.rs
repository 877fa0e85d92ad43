//! The status of the ledger and its sources.

use quota_semantics::{Name, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{AsOf, is_false};

/// The status of the daemon: `GET /v1/status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// The version of `quotad`.
    pub version: String,
    /// The identity of the caller.
    pub caller: Caller,
    /// The oldest retained entry; absent if there is none, or it cannot be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<AsOf>,
    /// Whether the daemon has caught up with all sources since its start. Until then it grants nothing.
    pub caught_up: bool,
    /// Whether disk space is low. Meanwhile the daemon grants nothing.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disk_low: bool,
    /// Why the cluster grants nothing, as far as this node can tell; absent if it does, or for a single daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub no_grants: Option<String>,
    /// The sources of events.
    pub sources: Vec<Source>,
    /// The node's role in its cluster; absent for a single daemon.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterMember>,
    /// The last entry of the ledger.
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// A node's role in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ClusterMember {
    /// The name of the node.
    pub node: String,
    /// `leader`, `follower`, `candidate` or `starting`.
    pub role: String,
    /// The term of the latest leader that the node has read of; 0: none.
    pub term: u64,
    /// The leader, as far as the node has read; during a handover, the target node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
}

/// The identity of the caller.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct Caller {
    /// The principal, as recorded in entries.
    pub principal: Name,
    /// The roles of the principal.
    #[schemars(extend("items" = {"$ref": "#/components/schemas/Role"}))]
    pub roles: Vec<String>,
    /// The namespaces in which the principal has its roles: names, and patterns such as `team-*`.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Whether the principal may read data of all namespaces.
    pub reads_all_namespaces: bool,
}

/// A source of events, and the progress of its consumption.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Source {
    /// The name of the source.
    pub name: Name,
    /// The last consumed position; absent for a source without positions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub position: Option<u64>,
    /// The time at which the source received the message at that position; absent if it has received none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// The watermarks of the kinds that the source's publisher reports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watermarks: Vec<KindWatermark>,
}

/// The watermark of a kind: the time up to which all of its events have been reported.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(inline)]
#[serde(rename_all = "camelCase")]
pub struct KindWatermark {
    /// The kind, as in `deployments.apps`.
    pub resource: Name,
    /// The time up to which all events of the kind have been reported; absent until the kind has been listed, and after
    /// lost messages until it is listed again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watermark: Option<Timestamp>,
    /// Why the kind is not reported, so that limits on it hold only as long as reservations are held; absent if it is, or
    /// if the ledger does not rely on the source's watermarks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_reported: Option<String>,
}
