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
                self.leave().await;
            }
        }
    }

    pub(super) async fn can_other_lead(&self) -> bool {
        let others: Vec<_> = self.others().collect();
        let others = join_all(others.iter().map(|node| self.query(node))).await;
        others.iter().any(can_lead)
    }

    /// Why this node leads only if no other node can.
    pub(super) fn disk_problem(&self) -> Option<String> {
        let is_low = self.0.ledger.is_disk_low();
        is_low.then(|| "its disk is low, and it grants nothing".to_owned())
    }
}

/// Whether a node has reported that nothing keeps it from leading.
pub(super) const fn can_lead(node: &ClusterNode) -> bool {
    node.problem.is_none()
}
