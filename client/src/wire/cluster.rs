use quota_semantics::Timestamp;
use serde::{Deserialize, Serialize};

/// A cluster, as one of its nodes sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// The node that answered the request.
    pub node: String,
    /// The id of the replicated ledger; absent before its first message was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<String>,
    /// All nodes, by name; only the answering node, if another node sent the request.
    pub nodes: Vec<ClusterNode>,
}

/// One node of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// `leader`, `follower`, `candidate`, `starting`, or `unreachable`.
    pub role: String,
    /// The leader's term, as far as it has read; 0: there has been none.
    #[serde(default)]
    pub term: u64,
    /// The leader, as far as it has read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leader: Option<String>,
    /// The last message of the log that it has applied.
    #[serde(default)]
    pub stream_sequence: u64,
    /// Where its replica ends; absent if it cannot be reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replica: Option<ReplicaEnd>,
    /// Up to this message of the log its replica is durable: nothing before is needed when it starts again.
    #[serde(default)]
    pub durable_stream_sequence: u64,
    /// Its version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Digests of its latest states, oldest first. Nodes of one version have the same at the same entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub digests: Vec<StateDigest>,
    /// Why it cannot do its part, or cannot lead; absent: it can.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
}

/// Which node is to lead: `POST /v1/cluster/transfer`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransferRequest {
    /// The node.
    pub to: String,
}

/// Which node leaves for ever: `POST /v1/cluster/remove`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RemoveRequest {
    /// The node.
    pub node: String,
}

/// Which replicated ledger gets a new stream: `POST /v1/cluster/heal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HealRequest {
    /// The id of the ledger.
    pub ledger: String,
    /// Nodes whose replicas are lost.
    #[serde(default)]
    pub lost: Vec<String>,
}

/// The replicated ledger that has begun, or has a new stream: `POST /v1/cluster/init`, `POST /v1/cluster/heal`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplicatedLedger {
    /// Its id.
    pub ledger: String,
}

/// The digest of a state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StateDigest {
    /// The entry behind which the state was.
    pub sequence: u64,
    /// BLAKE3, in hexadecimal digits.
    pub digest: String,
}

/// Where a replica ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReplicaEnd {
    /// Its last entry.
    pub sequence: u64,
    /// Ledger time at it.
    pub time: Timestamp,
    /// Chain hash of its last batch: replicas that end at the same entry have the same.
    pub hash: String,
    /// It held all of the log so many seconds ago; absent if it never did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age_seconds: Option<f64>,
}
