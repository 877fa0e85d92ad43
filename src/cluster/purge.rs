//! Purges from the stream the messages that every registered node has made durable.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use quota_client::wire::ClusterNode;
use quota_replication::{jetstream::stream, protocol::Role};

use super::{Cluster, Error};
use crate::metrics;

/// How often the stream is checked for messages to purge.
const PURGE_PERIOD: Duration = Duration::from_secs(10);

/// The last report of a node.
#[derive(Clone, Copy, Debug)]
struct Report {
    /// The node needs no messages up to this one; none if it has not reported since this node began to lead.
    position: Option<u64>,
    last_contact: Instant,
}

/// The reports of all nodes since this one began to lead.
#[derive(Debug, Default)]
struct Nodes(BTreeMap<String, Report>);

impl Nodes {
    fn record(&mut self, nodes: &[ClusterNode], now: Instant) {
        for node in nodes {
            let report = self
                .0
                .entry(node.name.clone())
                .or_insert(Report { position: None, last_contact: now });
            // A node that has not applied anything yet needs the whole stream, or copies the ledger from another node.
            if node.role != "unreachable" {
                report.position = Some(node.durable_stream_sequence);
                report.last_contact = now;
            }
        }
    }

    /// The last message that no node needs any more. Nodes that were removed, or have not reported for `forget`, do not
    /// count: they join again.
    fn bound(&self, removed: &BTreeSet<String>, now: Instant, forget: Duration) -> Option<u64> {
        let counted = self.0.iter().filter(|(name, report)| {
            !removed.contains(*name) && now.duration_since(report.last_contact) < forget
        });
        let positions: Option<Vec<_>> = counted.map(|(_, report)| report.position).collect();
        positions?.into_iter().min()
    }
}

impl Cluster {
    /// Purges the stream while this node leads.
    pub(super) async fn purge(self) {
        let mut nodes = Nodes::default();
        loop {
            tokio::time::sleep(PURGE_PERIOD.min(self.0.settings.forget_after.get())).await;
            if self.view().role != Some(Role::Leader) {
                nodes = Nodes::default();
                continue;
            }
            nodes.record(&self.status().await.nodes, Instant::now());
            if let Err(error) = self.purge_to(&nodes).await {
                tracing::warn!(%error, "the stream was not purged");
            }
        }
    }

    async fn purge_to(&self, nodes: &Nodes) -> Result<(), stream::Error> {
        let shared = &self.0;
        let settings = &shared.settings;
        let found = stream::look(&shared.client, &shared.names).await?;
        metrics::cluster_stream(found.bytes, found.first);
        let forget = settings.forget_after.get();
        let Some(bound) = nodes.bound(&found.removed, Instant::now(), forget) else {
            return Ok(());
        };
        let keep = settings.stream_bytes.bytes();
        if let Some(first) = found.purged(bound, keep) {
            stream::purge(&shared.client, &shared.names, first).await?;
            tracing::info!(first, "purged the stream of messages that all nodes have");
        }
        Ok(())
    }

    /// Stops keeping the stream for a node, which has to be stopped; when it is started again, it is registered again.
    ///
    /// # Errors
    /// [`Error`].
    pub async fn remove(&self, node: &str) -> Result<(), Error> {
        let shared = &self.0;
        let name = self.other(node)?;
        if self.query(&name).await.role != "unreachable" {
            return Err(Error::Refused(format!("{name} answers: stop it before it is removed")));
        }
        let add = |removed: &mut BTreeSet<String>| removed.insert(node.to_owned());
        stream::change_removed(&shared.client, &shared.names, add).await?;
        tracing::info!(node, "the node was removed");
        Ok(())
    }

    /// Registers this node, so that the stream is kept for it.
    pub(super) async fn register(&self) -> Result<(), stream::Error> {
        let shared = &self.0;
        let take = |removed: &mut BTreeSet<String>| removed.remove(shared.node.as_str());
        stream::change_removed(&shared.client, &shared.names, take).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_goes_that_a_registered_node_may_need() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let node = |name: &str, role: &str, position| ClusterNode {
            name: name.to_owned(),
            role: role.to_owned(),
            durable_stream_sequence: position,
            ..ClusterNode::default()
        };
        let (nobody, forget) = (BTreeSet::new(), Duration::from_secs(100));
        let mut nodes = Nodes::default();
        assert_eq!(nodes.bound(&nobody, start, forget), None);
        let silent = node("c", "unreachable", 0);
        nodes.record(&[node("a", "leader", 90), node("b", "follower", 70), silent.clone()], start);
        // It is unknown which messages `c` needs.
        assert_eq!(nodes.bound(&nobody, after(1), forget), None);
        let removed = BTreeSet::from(["c".to_owned()]);
        assert_eq!(nodes.bound(&removed, after(1), forget), Some(70));
        nodes.record(&[node("c", "follower", 20)], after(2));
        assert_eq!(nodes.bound(&nobody, after(3), forget), Some(20));
        // The node is gone: its position counts until the node is forgotten.
        nodes.record(&[node("a", "leader", 95), node("b", "follower", 94), silent], after(101));
        assert_eq!(nodes.bound(&nobody, after(101), forget), Some(20));
        assert_eq!(nodes.bound(&nobody, after(102), forget), Some(94));
    }
}
