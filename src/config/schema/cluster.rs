//! More than one node.

use std::{collections::BTreeMap, net::SocketAddr, path::PathBuf};

use quota_replication::protocol::NodeName;
use serde::{Deserialize, Serialize};

use quota_service::config::{Period, Size, blank};

/// `cluster.*`: several nodes that keep one ledger.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cluster {
    /// NATS servers that hold the log, separated by commas; none: this node is alone.
    #[serde(with = "blank")]
    pub servers: Option<String>,
    /// Addresses of the servers' monitoring.
    pub monitoring: Vec<String>,
    /// Name of the replicated ledger: part of the names of its stream and subjects.
    pub ledger: String,
    /// Name of this node: one of `peers`.
    #[serde(with = "blank")]
    pub node: Option<String>,
    /// All nodes, and the address at which the others reach each.
    pub peers: BTreeMap<String, String>,
    /// Address for the other nodes.
    #[serde(with = "blank")]
    pub listen: Option<SocketAddr>,
    /// File with the secret by which nodes authenticate each other.
    #[serde(with = "blank")]
    pub token_file: Option<PathBuf>,
    /// Certificate chain (PEM) of `listen`.
    #[serde(with = "blank")]
    pub tls_cert: Option<PathBuf>,
    /// Its key (PEM).
    #[serde(with = "blank")]
    pub tls_key: Option<PathBuf>,
    /// CA certificates (PEM) that other nodes' certificates are signed by.
    #[serde(with = "blank")]
    pub tls_ca: Option<PathBuf>,
    /// Servers that hold the log.
    pub replicas: usize,
    /// After so long without a message of the leader another node takes over.
    pub silence: Period,
    /// A leader that had nothing to append for so long shows that it is there.
    pub heartbeat: Period,
    /// For so long a leader is sure that no other node leads.
    pub lease: Period,
    /// An append without an answer for so long is ambiguous.
    pub ack_wait: Period,
    /// A node whose clock differs by more from the median of the nodes' clocks does not lead.
    pub max_clock_skew: Period,
    /// A follower that may be further behind answers no reads.
    pub max_read_age: Period,
    /// Digests of the states of nodes are compared once in so much ledger time.
    pub digest_interval: Period,
    /// The stream is not kept for nodes that have not reported for so long.
    pub forget_after: Period,
    /// About so many bytes stay in the stream, also of what all nodes have.
    pub stream_bytes: Size,
    /// Start with servers that may lose what they acknowledged.
    #[serde(rename = "unsafe")]
    pub is_unsafe: bool,
}

impl Cluster {
    /// Whether there is more than this node.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.servers.is_some()
    }

    /// The name of this node, if it is one.
    #[must_use]
    pub fn node(&self) -> Option<NodeName> {
        self.node.as_deref()?.parse().ok()
    }
}
