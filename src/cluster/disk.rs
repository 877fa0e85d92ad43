//! A node whose disk is low lets another node lead: a leader with a low disk grants nothing.

use std::{sync::atomic::Ordering, time::Duration};

use futures::future::join_all;
use quota_client::wire::ClusterNode;

use super::Cluster;

/// How often the disk is checked.
const LOOK: Duration = Duration::from_secs(1);

impl Cluster {
    /// Bars this node from leading while its disk is low and another node can lead. If it leads, it hands over.
    pub(super) async fn watch_disk(self) {
        loop {
            tokio::time::sleep(LOOK).await;
            let is_barred = self.0.ledger.is_disk_low() && self.can_other_lead().await;
            let was_barred = self.0.is_disk_barred.swap(is_barred, Ordering::Relaxed);
            if is_barred || was_barred {
                self.set_bar();
            }
            if is_barred {
                self.hand_over(false).await;
            }
        }
    }

    async fn can_other_lead(&self) -> bool {
        self.is_any_other(can_lead).await
    }

    /// Whether the status of any other node is such.
    pub(super) async fn is_any_other(&self, such: fn(&ClusterNode) -> bool) -> bool {
        let others: Vec<_> = self.others().collect();
        let others = join_all(others.iter().map(|node| self.query(node))).await;
        others.iter().any(such)
    }
}

/// Whether a node has reported that nothing keeps it from leading.
pub(super) const fn can_lead(node: &ClusterNode) -> bool {
    node.problem.is_none()
}

/// Whether a node can give its ledger to another one: a low disk does not keep it from that.
pub(super) const fn can_give(node: &ClusterNode) -> bool {
    can_lead(node) || node.disk_low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_is_only_low_on_disk_gives_its_ledger_but_leaves_the_lead_to_others() {
        let node = |problem: &str, disk_low| ClusterNode {
            problem: (!problem.is_empty()).then(|| problem.to_owned()),
            disk_low,
            ..ClusterNode::default()
        };
        let can = |node: ClusterNode| (can_lead(&node), can_give(&node));
        assert_eq!(can(node("", false)), (true, true));
        assert_eq!(can(node("its disk is low", true)), (false, true));
        assert_eq!(can(node("no node leads", false)), (false, false));
    }
}
