//! What keeps a node from leading: NATS servers that cannot hold a ledger, a low disk, a wrong clock.
//!
//! A leader with a low disk grants nothing. With a wrong clock, reservations would expire too early or far too late.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use futures::future::join_all;
use quota_client::wire::ClusterNode;
use quota_replication::{
    jetstream::{Offset, servers, since_boot},
    protocol::Role,
};
use quota_service::config::redact;

use super::{Cluster, DRAIN};
use crate::{config, metrics};

/// How often this node checks its disk, and whether its own clock has jumped.
const LOOK: Duration = Duration::from_secs(1);

/// How often clocks are compared.
const COMPARE: Duration = Duration::from_secs(5);

/// Checks all servers. An unreachable server does not prevent a start, but it prevents the beginning of a ledger.
///
/// # Errors
/// Says what is wrong, and how to fix it.
pub(super) async fn servers(settings: &config::Cluster, must_answer: bool) -> Result<(), String> {
    let mut problems = Vec::new();
    for monitoring in settings.monitoring.clone() {
        let request = tokio::task::spawn_blocking(move || servers::query(&monitoring));
        match request.await {
            Ok(Ok(facts)) => problems.extend(servers::problems(&facts)),
            Ok(Err(why)) if must_answer => problems.push(redact(&why)),
            Ok(Err(why)) => {
                let why = redact(&why);
                tracing::warn!(why, "a server that holds the log does not answer");
            }
            Err(error) => problems.push(error.to_string()),
        }
    }
    if problems.is_empty() {
        return Ok(());
    }
    let problems = problems.join("; ");
    if settings.is_unsafe {
        tracing::warn!(problems, "cluster.unsafe: these servers may lose what they acknowledged");
        return Ok(());
    }
    Err(problems)
}

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

impl Cluster {
    /// Compares clocks, and gives up the lead if this node's clock is wrong. The writer itself stops at the first decision
    /// for which the clock is wrong.
    pub(super) async fn watch_clock(self) {
        let mut compared: Option<Instant> = None;
        loop {
            if compared.is_none_or(|at| at.elapsed() >= COMPARE) && self.compare_clocks().await {
                compared = Some(Instant::now());
            }
            let why = self.wrong_clock();
            if why.is_some() || self.0.replica.is_suspended() {
                self.0.replica.suspend();
                self.check_clock_skew(why.or_else(|| Some("its clock has jumped".to_owned())));
                // What it has decided before may have to wait for the servers.
                let _ = tokio::time::timeout(2 * DRAIN, self.step_down()).await;
            }
            // A leader whose writer has stopped gives up the lead first, however right its clock is again.
            let leads = self.view().role == Some(Role::Leader);
            if self.wrong_clock().is_none() && !(leads && self.0.replica.is_suspended()) {
                self.0.replica.resume();
                self.check_clock_skew(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sets the time that the clocks agree on: the median of all nodes that answer, and of the server that leads the
    /// stream if their number is even or no other node answers. Returns whether there were clocks to compare with.
    async fn compare_clocks(&self) -> bool {
        let others: Vec<_> = self.others().collect();
        let requests = others.iter().map(|node| async {
            let requested = since_boot();
            let clock = self.query(node).await.clock?;
            Some(Offset::between(requested, clock, since_boot()))
        });
        let mut clocks: Vec<_> = join_all(requests).await.into_iter().flatten().collect();
        let is_even = clocks.len() % 2 == 1;
        if is_even || clocks.is_empty() {
            match *self.0.servers_clock.lock() {
                Some(clock) => clocks.push(clock),
                None => return false,
            }
        }
        self.0.ledger.clock().agree(&clocks);
        if let Some(ahead) = self.0.ledger.clock().ahead() {
            metrics::cluster_clock_skew(ahead);
        }
        true
    }

    /// What is wrong with this node's clock.
    fn wrong_clock(&self) -> Option<String> {
        let most = self.0.settings.max_clock_skew.get().as_millis();
        match self.0.ledger.clock().ahead() {
            None => Some("its clock was not compared yet".to_owned()),
            Some(ahead) if u128::from(ahead.unsigned_abs()) > most => Some(format!(
                "its clock is {ahead} ms ahead of the other nodes' (at most {most} ms either way)"
            )),
            Some(_) => None,
        }
    }

    fn check_clock_skew(&self, why: Option<String>) {
        let mut clock = self.0.clock.lock();
        if let Some(why) = &why
            && clock.is_none()
        {
            tracing::warn!("this node cannot lead: {why}");
        }
        *clock = why;
        drop(clock);
        self.set_bar();
    }
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
