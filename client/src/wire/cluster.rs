use quota_semantics::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::is_false;

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
