//! Watches the servers that hold the log: a failed one, since the next failure then ends all grants; and their
//! storage, since a full server refuses appends.

use std::time::{Duration, Instant};

use futures::future::join_all;
use http::Uri;
use quota_client::wire::ClusterServer;
use quota_replication::jetstream::{
    servers::{self, Condition, Report},
    stream,
};
use quota_service::health::Health;

use super::Cluster;
use crate::metrics;

/// How often the servers are checked.
const LOOK: Duration = Duration::from_secs(10);

/// Longest wait after requests about the account that failed. Each one without permission is in the servers' logs.
const ACCOUNT_RETRY_MAX: Duration = Duration::from_secs(3600);

/// From this share on a server is reported as nearly full.
const NEARLY_FULL: f64 = 0.9;

/// The last check of the servers.
#[derive(Default)]
pub(super) struct Servers {
    all: Vec<(String, Condition)>,
    /// The used share of storage of the fullest server; none while unknown.
    used: Option<f64>,
}

/// What is shown of the condition of a server. The log has details, which may name what belongs to others.
const fn problem(condition: &Condition) -> Option<&'static str> {
    match condition {
        Condition::Healthy => None,
        Condition::Unreachable => Some("it does not answer at its address in cluster.monitoring"),
        Condition::Unhealthy(_) => Some(
            "it is not healthy. After a failed write, as on a full disk, its JetStream stays so until the server is \
             restarted with room on its disk",
        ),
        Condition::Apart => Some(APART),
    }
}

const APART: &str = "its JetStream has data of another group than the other servers', so it takes no part: stop it, move \
                     its JetStream store_dir aside, and start it";

/// The reports of all servers, in the order of their addresses.
async fn reports(addresses: &[String]) -> Vec<Option<Report>> {
    let requests = addresses.iter().map(|address| {
        let address = address.clone();
        async {
            let report = tokio::task::spawn_blocking(move || servers::report(&address)).await;
            report.ok()?.ok()
        }
    });
    join_all(requests).await
}

/// A server by its name, or by its address without credentials.
fn name(address: &str, report: Option<&Report>) -> String {
    if let Some(report) = report {
        return report.facts.server_name.clone();
    }
    let address = address.parse::<Uri>().ok();
    let authority = address.as_ref().and_then(Uri::authority);
    let authority = authority.map(http::uri::Authority::as_str);
    let host = authority.map(|text| text.rsplit_once('@').map_or(text, |(_, host)| host));
    host.unwrap_or("without an address").to_owned()
}

impl Cluster {
    /// Checks the servers, and how full they are, and the account and the stream if they have limits of their own.
    pub(super) async fn watch_servers(self) {
        let shared = &self.0;
        let addresses = &shared.settings.monitoring;
        let mut names: Vec<_> = addresses.iter().map(|address| name(address, None)).collect();
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
            let reports = reports(addresses).await;
            for (name, report) in names.iter_mut().zip(&reports) {
                if let Some(Report { facts, .. }) = report {
                    name.clone_from(&facts.server_name);
                    used.extend(facts.storage_used());
                }
            }
            let all = names.iter().cloned().zip(servers::conditions(&reports));
            self.judge_servers(all.collect(), used.into_iter().reduce(f64::max));
            tokio::time::sleep(LOOK).await;
        }
    }

    fn judge_servers(&self, all: Vec<(String, Condition)>, fullest: Option<f64>) {
        let mut servers = self.0.servers.lock();
        for (at, (name, condition)) in all.iter().enumerate() {
            let before = servers.all.get(at).map(|(_, before)| before);
            match condition {
                Condition::Healthy if before.is_some_and(|before| before != condition) => {
                    tracing::info!(server = name, "a server of the log works again");
                }
                Condition::Healthy => {}
                _ if before == Some(condition) => {}
                Condition::Unhealthy(why) => {
                    tracing::warn!(server = name, why, "a server of the log is not healthy");
                }
                condition => {
                    let why = problem(condition);
                    tracing::warn!(server = name, why, "a server of the log does not work");
                }
            }
        }
        metrics::cluster_servers(all.iter().map(|(_, condition)| condition));
        servers.all = all;
        if let Some(fullest) = fullest {
            metrics::cluster_storage_used(fullest);
            servers.used = Some(fullest);
        }
    }

    /// The servers, as of the last check.
    pub(super) fn servers(&self) -> Vec<ClusterServer> {
        let servers = self.0.servers.lock();
        let all = servers.all.iter().map(|(name, condition)| ClusterServer {
            name: name.clone(),
            problem: problem(condition).map(str::to_owned),
        });
        all.collect()
    }

    /// Why the stream cannot be recreated: a server that takes no part leaves too few for its replicas, and may answer
    /// with what it holds of the previous stream.
    pub(super) async fn server_apart(&self) -> Option<String> {
        let addresses = &self.0.settings.monitoring;
        let reports = reports(addresses).await;
        let all = addresses.iter().zip(&reports).zip(servers::conditions(&reports));
        let mut apart = all.filter(|(_, condition)| *condition == Condition::Apart);
        let ((address, report), _) = apart.next()?;
        let name = name(address, report.as_ref());
        Some(format!("server {name}: {APART}. Then run this command again"))
    }

    /// Whether all servers work, and have room for appends to the log. A node is ready all the same.
    pub(crate) fn storage_health(&self) -> Health {
        let servers = self.0.servers.lock();
        if let Some(used) = servers.used.filter(|used| *used > NEARLY_FULL) {
            return Health::Lagging(format!(
                "the storage of the log is {:.0} % full: at 100 % nothing is granted",
                used * 100.0
            ));
        }
        let mut all = servers.all.iter();
        let first = all.find_map(|(name, condition)| Some((name, problem(condition)?)));
        first.map_or(Health::Passed, |(name, problem)| {
            Health::Lagging(format!("server {name}: {problem}"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_named_without_its_password() {
        let named = name("http://admin:secret@nats-0:8222", None);
        assert_eq!(named, "nats-0:8222");
        assert_eq!(name("http://nats-0:8222/", None), "nats-0:8222");
    }
}
