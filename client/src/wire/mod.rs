//! The types of `/v1`. JSON in camelCase; quantities and times are strings.
//!
//! Absent fields are `None`, empty or false. Unknown fields are ignored, so that older clients can read the responses
//! of newer daemons.

mod entry;
mod problem;
mod quota;
mod simulation;

pub use quota_semantics::{
    Actor,
    admission::{CheckedLimit, CheckedQuota, LimitKind},
    report::{Report, ReportFigures, ReportRow},
};
use quota_semantics::{Name, Timestamp};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use entry::*;
pub use problem::*;
pub use quota::*;
pub use simulation::*;

/// An entry of the ledger. `asOf` is the last one that the response includes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Position")]
#[serde(default)]
pub struct AsOf {
    /// The sequence of the entry; 0: the ledger is empty.
    pub sequence: u64,
    /// The ledger time of the entry.
    pub time: Timestamp,
}

/// A Kubernetes condition: a part of an object's spec that is not in effect.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Condition {
    /// The type of the condition.
    pub r#type: String,
    /// `True` or `False`.
    #[schemars(extend("enum" = ["True", "False"]))]
    pub status: String,
    /// The reason, in one word.
    pub reason: String,
    /// The reason, in a sentence.
    pub message: String,
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Page")]
#[serde(rename_all = "camelCase")]
pub struct Page<T> {
    /// The items of this page.
    pub items: Vec<T>,
    /// The `continue` token of the next page; absent on the last page.
    #[serde(rename = "continue", default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// The last entry that the page includes.
    #[serde(default)]
    pub as_of: AsOf,
    /// Whether a source of events lags.
    #[serde(default, skip_serializing_if = "is_false")]
    pub lagging: bool,
}

/// The schema of the state of a reservation, which is a text here: newer daemons may know more states.
fn reservation_state(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::Schema::new_ref("#/components/schemas/ReservationState".to_owned())
}

/// For boolean fields that are left out when false.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_false(flag: &bool) -> bool {
    !*flag
}

/// For numbers that are left out when 0.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
const fn is_zero(number: &usize) -> bool {
    *number == 0
}

/// For lists that are left out when empty.
const fn no_items<T>(items: &[T]) -> bool {
    items.is_empty()
}

// The status of the ledger and its sources.

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

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The node that answered the request.
    pub node: String,
    /// The id of the replicated ledger; absent until the node has a replica, or has read the first message of the stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<String>,
    /// The servers that hold the log, as the answering node sees them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<ClusterServer>,
    /// The status of all nodes, sorted by name; only of the answering node, if another node sent the request.
    pub nodes: Vec<ClusterNode>,
}

/// A server that holds the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterServer {
    /// The name of the server, or its address while it has not answered yet.
    pub name: String,
    /// Why the server does not work for the log; absent if it does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// One node of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// The name of the node.
    pub name: String,
    /// The role of the node.
    #[schemars(extend("enum" = ["starting", "follower", "candidate", "leader", "unreachable"]))]
    pub role: String,
    /// The term of the latest leader that the node has read of; 0: none.
    #[serde(default)]
    pub term: u64,
    /// The leader, as far as the node has read; during a handover, the target node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The stream sequence of the last message that the node has applied.
    #[serde(default)]
    pub stream_sequence: u64,
    /// The end of the node's replica; absent if the node is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaEnd>,
    /// The stream sequence up to which the replica is durable: after a restart the node reads the messages after it.
    #[serde(default)]
    pub durable_stream_sequence: u64,
    /// The time by the node's clock, with which the other nodes compare theirs; absent if the node is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Timestamp>,
    /// The version of `quotad` on the node; absent if the node is unreachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digests of the node's latest states, oldest first. Nodes of one version have equal digests at the same entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<StateDigest>,
    /// The problem that keeps the node from replicating or from leading; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// Whether the problem is only a low disk: the node leads if no other node can, and gives its ledger to others.
    #[serde(default, skip_serializing_if = "is_false")]
    pub disk_low: bool,
}

/// A request that another node becomes the leader: `POST /v1/cluster/transfer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterTransfer")]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// The name of the new leader: a node of `cluster.peers`.
    pub to: String,
}

/// A request to stop keeping messages of the stream for a stopped node: `POST /v1/cluster/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterRemove")]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// The name of the stopped node: a node of `cluster.peers`.
    pub node: String,
}

/// A request to recreate the stream of a replicated ledger: `POST /v1/cluster/heal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterHeal")]
#[serde(deny_unknown_fields)]
pub struct HealRequest {
    /// The id of the ledger, as a confirmation.
    pub ledger: String,
    /// Nodes that do not answer: entries that only they hold may be given up.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// A replicated ledger whose stream was created or recreated: `POST /v1/cluster/init`, `POST /v1/cluster/heal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "ClusterInitialised")]
pub struct ReplicatedLedger {
    /// The id of the ledger.
    pub ledger: String,
}

/// The digest of a node's state after an entry.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StateDigest {
    /// The sequence of the entry.
    pub sequence: u64,
    /// The BLAKE3 hash, in hexadecimal digits.
    pub digest: String,
}

/// The end of a replica: its last entry.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaEnd {
    /// The sequence of the last entry.
    pub sequence: u64,
    /// The ledger time of that entry.
    pub time: Timestamp,
    /// The chain hash of the last batch. Replicas that end at the same entry have equal hashes.
    pub hash: String,
    /// The time in seconds since the replica held the whole log; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub age_seconds: Option<f64>,
}
