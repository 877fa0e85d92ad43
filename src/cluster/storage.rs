//! Watches the storage of the servers that hold the log: a full server refuses appends, so nothing is granted.

use std::time::{Duration, Instant};

use quota_cluster::{servers, stream};
use quota_service::health::Health;

use super::Cluster;
use crate::metrics;

/// How often the storage is checked.
const LOOK: Duration = Duration::from_secs(10);

/// Longest wait after requests about the account that failed. Each one without permission is in the servers' logs.
const ACCOUNT_RETRY_MAX: Duration = Duration::from_secs(3600);

/// From this share on a server is reported as nearly full.
const NEARLY_FULL: f64 = 0.9;

impl Cluster {
    /// Checks how full the servers are, and the account and the stream if they have limits of their own.
    pub(super) async fn watch_storage(self) {
        let shared = &self.0;
        let (mut account_wait, mut account_next) = (LOOK, Instant::now());
        loop {
            let found = stream::look(&shared.client, &shared.names).await;
            let mut used: Vec<_> = found.iter().filter_map(stream::Found::used).collect();
            if Instant::now() >= account_next {
                match stream::account_used(&shared.client).await {
                    Ok(of_account) => {
                        used.extend(of_account);
                        account_wait = LOOK;
                    }
                    Err(_) => {
                        account_wait = (account_wait * 2).min(ACCOUNT_RETRY_MAX);
                        account_next = Instant::now() + account_wait;
                    }
                }
            }
            for monitoring in shared.settings.monitoring.clone() {
                // Other checks report servers that do not answer.
                let request = tokio::task::spawn_blocking(move || servers::query(&monitoring));
                if let Ok(Ok(facts)) = request.await {
                    used.extend(facts.storage_used());
                }
            }
            if let Some(fullest) = used.into_iter().reduce(f64::max) {
                metrics::cluster_storage_used(fullest);
                *shared.storage_used.lock() = Some(fullest);
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Whether the servers have room for appends to the log. A node is ready only while there is some.
    #[must_use]
    pub(crate) fn storage_health(&self) -> Health {
        match *self.0.storage_used.lock() {
            Some(used) if used > NEARLY_FULL => Health::Lagging(format!(
                "the storage of the log is {:.0} % full: at 100 % nothing is granted",
                used * 100.0
            )),
            _ => Health::Passed,
        }
    }
}
