//! Compares this node's clock with those of the other nodes. A node whose clock is wrong decides nothing, and does not lead:
//! its reservations would expire too early, or far too late.

use std::time::{Duration, Instant};

use futures::future::join_all;
use quota_replication::jetstream::{Offset, since_boot};
use quota_replication::protocol::Role;

use super::{Cluster, DRAIN};
use crate::metrics;

/// How often this node checks whether its own clock has jumped.
const LOOK: Duration = Duration::from_secs(1);

/// How often clocks are compared.
const COMPARE: Duration = Duration::from_secs(5);

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
                self.judge_clock(why.or_else(|| Some("its clock has jumped".to_owned())));
                // What it has decided before may have to wait for the servers.
                let _ = tokio::time::timeout(2 * DRAIN, self.step_down()).await;
            }
            // A leader whose writer has stopped gives up the lead first, however right its clock is again.
            let leads = self.view().role == Some(Role::Leader);
            if self.wrong_clock().is_none() && !(leads && self.0.replica.is_suspended()) {
                self.0.replica.resume();
                self.judge_clock(None);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Sets the time that the clocks agree on: the median of all nodes that answer, and of the server that leads the
    /// stream if their number is even or no other node answers. Returns whether there were clocks to compare with.
    async fn compare_clocks(&self) -> bool {
        let others: Vec<_> = self.others().collect();
        let asked = others.iter().map(|node| async {
            let requested = since_boot();
            let clock = self.query(node).await.clock?;
            Some(Offset::between(requested, clock, since_boot()))
        });
        let mut clocks: Vec<_> = join_all(asked).await.into_iter().flatten().collect();
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

    fn judge_clock(&self, why: Option<String>) {
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
