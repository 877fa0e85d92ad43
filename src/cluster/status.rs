//! The status of all nodes of the cluster.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, Method};
use quota_client::wire::{self, ClusterNode, ReplicaEnd};
use quota_replication::jetstream::wall;
use quota_replication::protocol::NodeName;

use super::{
    Cluster, Obstacle,
    peers::{Actor, Peers},
};

/// How long a node may take to report its status.
const WAIT: Duration = Duration::from_secs(2);

/// The path of the status.
const PATH: &str = "/v1/cluster";

impl Cluster {
    /// The status of this node.
    #[must_use]
    pub(crate) fn own_status(&self) -> wire::Cluster {
        let (view, obstacle) = (self.view(), self.obstacle());
        wire::Cluster {
            node: self.0.node.to_string(),
            ledger: self.ledger_id().map(|ledger| ledger.to_string()),
            servers: self.servers(),
            nodes: vec![ClusterNode {
                name: self.0.node.to_string(),
                role: view.role_name().to_owned(),
                term: view.epoch,
                leader: view.leader.map(|leader| leader.to_string()),
                stream_sequence: view.stream,
                replica: Some(ReplicaEnd {
                    sequence: view.end.sequence,
                    time: view.end.time,
                    hash: view.end.hash.to_string(),
                    age_seconds: view.age.map(|age| age.as_secs_f64()),
                }),
                durable_stream_sequence: view.noted,
                clock: Some(wall()),
                version: Some(super::VERSION.to_owned()),
                digests: self.0.digests.own(),
                problem: obstacle.as_ref().map(ToString::to_string),
                disk_low: matches!(obstacle, Some(Obstacle::DiskLow)),
            }],
        }
    }

    /// The status of all nodes, as reported by each node itself.
    pub async fn status(&self) -> wire::Cluster {
        let own = self.own_status();
        let nodes = self.0.peers.names().map(|node| async {
            match *node == self.0.node {
                true => own.nodes.clone(),
                false => vec![self.query(node).await],
            }
        });
        let nodes = join_all(nodes).await.into_iter().flatten().collect();
        wire::Cluster { nodes, ..own }
    }

    pub(super) async fn query(&self, node: &NodeName) -> ClusterNode {
        self.0.peers.status(node).await
    }
}

impl Peers {
    /// The status that a node reports.
    pub(super) async fn status(&self, node: &NodeName) -> ClusterNode {
        let headers = HeaderMap::new();
        let nobody = Actor::default();
        let target = (&Method::GET, PATH);
        let sent = self.send(node, target, &headers, &nobody, Bytes::new());
        let unreachable = |why: String| ClusterNode {
            name: node.to_string(),
            role: "unreachable".to_owned(),
            problem: Some(why),
            ..ClusterNode::default()
        };
        let Ok(Ok(answer)) = tokio::time::timeout(WAIT, sent).await else {
            return unreachable("it does not answer".to_owned());
        };
        match serde_json::from_slice::<wire::Cluster>(answer.body()) {
            Ok(status) => status
                .nodes
                .into_iter()
                .next()
                .unwrap_or_else(|| unreachable("it says nothing of itself".to_owned())),
            Err(_) => unreachable(format!("it answers with {}", answer.status())),
        }
    }
}
