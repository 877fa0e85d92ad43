//! The daemon under attack, and how it takes it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tempfile::TempDir;

use super::{client::Client, support::quotad::Quotad};

pub(crate) const MIB: u64 = 1 << 20;

/// A daemon with a namespace `a` that has room.
pub(crate) struct Target {
    daemon: Quotad,
    pub(crate) api: String,
    pub(crate) admin: String,
    _directory: TempDir,
}

impl Target {
    pub(crate) async fn start(arguments: &[&str]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let daemon = Quotad::start(directory.path(), arguments);
        let address = |url: &str| url.trim_start_matches("http://").to_owned();
        let (api, admin) = (address(&daemon.api), address(&daemon.admin));
        let target = Self { daemon, api, admin, _directory: directory };
        let mut client = target.client().await;
        let answer = client
            .put("/v1/namespaces/a/quotas/q", r#"{"spec":{"hard":{"pods":"1000000"}}}"#)
            .await;
        assert_eq!(answer.status, 201, "{answer:?}");
        target
    }

    pub(crate) async fn client(&self) -> Client {
        Client::connect(&self.api).await.unwrap()
    }

    /// Memory that the daemon holds, in bytes.
    pub(crate) fn memory(&self) -> u64 {
        self.daemon.memory()
    }

    /// How often a limit was hit.
    pub(crate) async fn hits(&self, limit: &str) -> u64 {
        let mut admin = Client::connect(&self.admin).await.unwrap();
        let metrics = admin.get("/metrics").await;
        assert_eq!(metrics.status, 200);
        let line = format!("quota_ledger_limit_reached_total{{limit=\"{limit}\"}} ");
        let value = metrics.body.lines().find_map(|text| text.strip_prefix(&line));
        value.map_or(0, |value| value.parse().unwrap())
    }

    /// What probes and clients see that do nothing wrong: the probes are answered whatever happens, and everybody's
    /// first request succeeds.
    pub(crate) async fn serves_as_ever(&self, round: &str) {
        self.answers_probes().await;
        for number in 0..8 {
            let mut client = self.client().await;
            client.reserves(&format!("well-behaved-{round}-{number}")).await;
        }
    }

    pub(crate) async fn answers_probes(&self) {
        for path in ["/livez", "/readyz", "/metrics"] {
            let mut admin = Client::connect(&self.admin).await.unwrap();
            assert_eq!(admin.get(path).await.status, 200, "{path}");
        }
    }
}

/// Raises this process' limit of file descriptors as far as it goes, and gives how many connections can be had.
pub(crate) fn many() -> usize {
    let wanted = std::env::var("OVERLOAD_CONNECTIONS");
    let wanted: usize = wanted.map_or(10_000, |text| text.parse().unwrap());
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let most = limit.maximum.map_or(usize::MAX, |most| usize::try_from(most).unwrap());
    // The daemon's listeners have to fit as well: two of them, and what it keeps for the ledger.
    wanted.min(most.saturating_sub(1024) / 2)
}
