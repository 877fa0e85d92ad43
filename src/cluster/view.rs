//! The status of a node in its cluster.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use http::{HeaderMap, Method};
use quota_client::wire::{self, ClusterNode, ReplicaEnd};
use quota_journal::Durable;
use quota_replication::{
    jetstream::wall,
    protocol::{Counts, LedgerId, NodeName, Role},
};

use super::{
    AHEAD, Cluster, Obstacle,
    peers::{Actor, Peers},
};

/// The status of a node in its cluster.
#[derive(Clone, Debug)]
pub struct View {
    /// The node's role; none before it has one.
    pub role: Option<Role>,
    /// The ledger, once its first message was read.
    pub ledger: Option<LedgerId>,
    /// The term of the leader; 0 if there has been none.
    pub term: u64,
    /// The leader, as far as this node has read; during a handover, the target node.
    pub leader: Option<NodeName>,
    /// The last message of the stream that the node has applied.
    pub stream: u64,
    /// The end of the node's replica.
    pub end: Durable,
    /// How long ago the replica held everything that the log held; zero for a leader within its lease, none if never.
    pub age: Option<Duration>,
    /// For how long an append has been pending.
    pub in_flight: Option<Duration>,
    /// The persisted position in the stream up to which the replica is durable.
    pub noted: u64,
    /// For how long the replica has had entries that the stream lacks, or the stream has ended before the position that
    /// the node has read.
    pub ahead: Option<Duration>,
    /// Event counts since the start.
    pub counts: Counts,
}

impl View {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let end = cluster.0.ledger.durable();
        let Some(member) = cluster.member() else {
            return Self {
                role: None,
                ledger: None,
                term: 0,
                leader: None,
                stream: 0,
                end,
                age: None,
                in_flight: None,
                noted: 0,
                ahead: None,
                counts: Counts::default(),
            };
        };
        let short_since = *cluster.0.short_since.lock();
        let short = short_since.map(|since| since.elapsed());
        let status = member.status.borrow();
        let now = member.clock.now();
        let since = |then: u64| Duration::from_millis(now.saturating_sub(then));
        let leads = status.role == Role::Leader && now < status.lease_until;
        Self {
            role: Some(status.role),
            ledger: status.ledger,
            term: status.leader.as_ref().map_or(0, |leader| leader.term),
            leader: status
                .leader
                .as_ref()
                .map(|leader| leader.handed_to.as_ref().unwrap_or(&leader.node).clone()),
            stream: status.stream,
            end,
            age: match leads {
                true => Some(Duration::ZERO),
                false => status.current.map(since),
            },
            in_flight: status.in_flight_since.map(since),
            noted: status.noted,
            ahead: status.ahead_since.map(since).max(short),
            counts: status.counts,
        }
    }

    /// Why the servers are taken to have lost what they acknowledged; none if the stream has what this node has.
    pub(super) fn stream_loss(&self) -> Option<String> {
        let end = self.end.sequence;
        self.ahead.filter(|since| *since > AHEAD).map(|_| {
            format!(
                "the stream lacks the end of what this node has up to entry {end}: the servers have \
                 lost what they acknowledged (`quotactl cluster heal`)"
            )
        })
    }

    /// The role as one word.
    pub(crate) const fn role_name(&self) -> &'static str {
        match self.role {
            Some(Role::Leader) => "leader",
            Some(Role::Candidate) => "candidate",
            Some(Role::Follower) => "follower",
            Some(Role::Over) | None => "starting",
        }
    }
}

/// How long a node may take to report its status.
const WAIT: Duration = Duration::from_secs(2);

/// The path of the status.
const PATH: &str = "/v1/cluster";

impl Cluster {
    /// The status of this node.
    pub(crate) fn own_status(&self) -> wire::Cluster {
        let (view, obstacle) = (self.view(), self.obstacle());
        wire::Cluster {
            node: self.0.node.to_string(),
            ledger: self.ledger_id().map(|ledger| ledger.to_string()),
            servers: self.servers(),
            nodes: vec![ClusterNode {
                name: self.0.node.to_string(),
                role: view.role_name().to_owned(),
                term: view.term,
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
