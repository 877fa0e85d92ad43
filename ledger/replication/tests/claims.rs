//! A replicated stream on three real servers: it is initialised once, and of several nodes that want to recreate it, only
//! one claims it.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(clippy::disallowed_methods, reason = "real servers take real time")]

use futures::future::join_all;
use quota_journal::Durable;
use quota_replication::{
    jetstream::{
        Names, servers,
        stream::{self, Found},
    },
    protocol::{Identity, LedgerId},
};
use quota_testkit::{
    PATIENCE,
    cluster::{Cluster, NODES},
};

/// The stream of a test, and a client at each server.
struct Scene {
    servers: Cluster,
    _directory: tempfile::TempDir,
    clients: Vec<async_nats::Client>,
    names: Names,
}

impl Scene {
    async fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let servers = Cluster::start_durable(directory.path().join("servers"), "", true);
        let urls = servers.urls();
        let clients = urls.split(',').map(async_nats::connect);
        let clients = join_all(clients).await.into_iter().map(Result::unwrap);
        Self {
            clients: clients.collect(),
            servers,
            _directory: directory,
            names: Names::new(&"claims".parse().unwrap(), 0),
        }
    }

    /// Creates the stream, and returns its state.
    async fn stream(&self) -> Found {
        let begun = std::time::Instant::now();
        while let Err(error) = self.initialise([7; 16]).await {
            assert!(begun.elapsed() < PATIENCE, "{error}");
        }
        self.found().await
    }

    async fn initialise(&self, ledger: [u8; 16]) -> Result<(), stream::Error> {
        let identity = Identity { node: "a".parse().unwrap(), instance: 1, partition: 0 };
        let genesis = (&identity, LedgerId::from_bytes(ledger), Durable::NOTHING);
        stream::initialise(&self.clients[0], &self.names, NODES, genesis).await
    }

    async fn found(&self) -> Found {
        stream::look(&self.clients[0], &self.names).await.unwrap()
    }

    async fn claim(&self, at: usize, found: &Found, claimant: &str) -> Result<bool, stream::Error> {
        stream::claim(&self.clients[at], &self.names, found, claimant).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_stream_is_initialised_once_on_servers_that_are_fit_for_it() {
    let scene = Scene::new().await;
    scene.stream().await;
    stream::check(&scene.clients[0], &scene.names, NODES).await.unwrap();
    let another = scene.initialise([8; 16]).await;
    assert!(matches!(another, Err(stream::Error::Exists(_))), "{another:?}");
    for server in 0..NODES {
        let facts = servers::query(&scene.servers.monitoring(server)).unwrap();
        assert_eq!(servers::problems(&facts), [""; 0]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn of_claims_at_the_same_time_one_is_stored() {
    let scene = Scene::new().await;
    let mut found = scene.stream().await;
    for round in 0..20 {
        let claimants = [0, 1, 2].map(|at| format!("n{at} ({round})"));
        let claims = claimants.iter().enumerate();
        let claims = claims.map(|(at, claimant)| scene.claim(at, &found, claimant));
        let claims = join_all(claims).await;
        let now = scene.found().await;
        assert_eq!(now.last, found.last + 1, "round {round}: {claims:?}");
        let tail = stream::read(&scene.clients[0], &scene.names, &now).await;
        let tail = tail.unwrap();
        assert_eq!(tail.end, Some(Durable::NOTHING));
        for (claimant, claim) in claimants.iter().zip(claims) {
            let has_it = tail.claimed_by.as_ref() == Some(claimant);
            // A server that has not received the stored message yet cannot tell whose it is.
            let said = claim.unwrap_or(false);
            assert!(has_it || !said, "{claimant} believes it has claimed it");
        }
        assert!(tail.claimed_by.is_some_and(|by| claimants.contains(&by)));
        found = now;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_claim_is_of_the_stream_as_it_was_found() {
    let scene = Scene::new().await;
    let found = scene.stream().await;
    assert!(scene.claim(0, &found, "a").await.unwrap());
    let claimed = scene.found().await;
    // A node that read the state before the claim comes too late; a claimant that got no answer may repeat its claim.
    for (claimant, has_it) in [("b", false), ("a", true)] {
        let claim = scene.claim(0, &found, claimant).await;
        assert_eq!(claim.unwrap(), has_it, "{claimant}");
        assert_eq!(scene.found().await.last, claimed.last, "{claimant}");
    }
    // The stream was deleted and recreated meanwhile.
    stream::delete(&scene.clients[0], &scene.names).await.unwrap();
    let anew = scene.stream().await;
    assert_ne!(anew.created, claimed.created);
    let claim = scene.claim(0, &claimed, "b").await;
    assert!(claim.is_err(), "{claim:?}");
    assert_eq!(scene.found().await.last, anew.last);
}
