//! The whole daemon with real nats-servers, while events come in and capacity is requested: they are killed and
//! stopped, the network between them and to the clients is cut, the stream loses messages or begins anew, the clock
//! jumps. In the end everything that was acknowledged is in the ledger, and every event has counted exactly once.
//!
//! `QUOTAD_TORTURE_CYCLES` says how many faults (each kind once), `QUOTAD_SOAK_HOURS` for how long instead,
//! `QUOTAD_TORTURE_SEED` which ones; the seed is printed. Every kind of fault is done at least once. With
//! `QUOTAD_TORTURE_KEEP`, what a failed run leaves is kept: its ledger, and what was logged.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod clients;
mod cluster;
mod faults;
mod place;
mod producer;
mod rounds;
mod standing;
use quota_testkit as support;

use std::{
    path::Path,
    process::Command,
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant},
};

use account::Account;
use clients::Client;
use cluster::Clustered;
use faults::Single;
use producer::Producer;
use rounds::{Cycles, Scene, go_through};
use support::{PATIENCE, in_memory, number, quotad::agent, random::seed, wait_until};
use tempfile::TempDir;

const CLIENTS: u64 = 8;
const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];

/// Where the object of a uid is. The same uid elsewhere would be another object.
fn namespace_of(uid: &str) -> &'static str {
    let sum: usize = uid.bytes().map(usize::from).sum();
    NAMESPACES[sum % NAMESPACES.len()]
}

/// What every quota limits, and to how much: enough for the producer's objects and a few dozen reservations.
const UNITS: &str = "requests.example.com/units";
const COUNT: &str = "count/widgets.example.com";
const HARD_UNITS: u64 = 60;
const HARD_COUNT: u64 = 100_000;

/// A directory that outlives a failure, if `QUOTAD_TORTURE_KEEP` is set.
struct Evidence(TempDir);

impl Drop for Evidence {
    fn drop(&mut self) {
        if std::thread::panicking() && std::env::var_os("QUOTAD_TORTURE_KEEP").is_some() {
            self.0.disable_cleanup(true);
            println!("kept in {}", self.0.path().display());
        }
    }
}

/// What the threads share.
struct Yard {
    /// Where the API is.
    api: String,
    /// How many requests were answered.
    answers: AtomicU64,
    /// How often the stream has lost something, so that all objects have to be listed again.
    losses: AtomicU64,
    /// How long a client rests between two requests.
    rest: Duration,
    stop: AtomicBool,
}

/// Tells all to stop, also when something went wrong.
struct End<'a>(&'a Yard);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

/// An object that a client leaves to the producer: it is created, and its events are published.
struct Handed {
    uid: String,
    namespace: &'static str,
    units: u64,
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_counts_twice_whoever_is_killed() {
    torture(Single::prepare);
}

#[test]
fn nothing_is_lost_and_nothing_counts_twice_while_a_cluster_loses_its_leaders() {
    torture(Clustered::prepare);
}

fn torture<S: Scene>(prepare: impl FnOnce(&Path) -> S) {
    let seed = seed("QUOTAD_TORTURE_SEED");
    let cycles = match number::<f64>("QUOTAD_SOAK_HOURS") {
        Some(hours) => Cycles::Until(Instant::now() + Duration::from_secs_f64(3600.0 * hours)),
        None => Cycles::Count(number("QUOTAD_TORTURE_CYCLES").unwrap_or(S::ALL.len() as u64)),
    };
    println!("seed {seed}");
    let started = Instant::now();
    let directory = Evidence(in_memory());
    let mut scene = prepare(directory.0.path());
    let yard = Yard {
        api: format!("http://{}", scene.place().clients.address()),
        answers: AtomicU64::new(0),
        losses: AtomicU64::new(0),
        rest: S::REST,
        stop: AtomicBool::new(false),
    };
    set_quotas(&yard);
    let (hand, handed) = mpsc::channel();
    let urls = scene.urls();
    let (acknowledged, published, fired) = std::thread::scope(|scope| {
        let producer = scope.spawn(|| Producer::new(seed, &yard, handed).run(&urls));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(number, seed, &yard, hand.clone());
                scope.spawn(|| client.run())
            })
            .collect();
        drop(hand);
        let end = End(&yard);
        let fired = go_through(&mut scene, cycles, seed, &yard);
        drop(end);
        let clients = clients.into_iter().flat_map(|client| client.join().unwrap());
        (clients.collect::<Vec<_>>(), producer.join().unwrap(), fired)
    });

    let place = scene.place();
    let daemon = place.daemon();
    let mut account = Account::take(daemon, &urls);
    account.is_in_order();
    account.shows_losses(&S::losses(&fired));
    account.holds(&acknowledged);
    account.agrees_with(&published);
    account.is_what_is_served(daemon);
    let archived = place.archived();
    println!(
        "{fired:?}: {} events in {} messages, {} grants, {} acknowledgements, {} entries, \
         {archived} archived epochs, {:.1} s",
        published.events,
        published.messages,
        account.grants(),
        acknowledged.len(),
        account.entries(),
        started.elapsed().as_secs_f64()
    );

    let daemon = place.daemon.take().unwrap();
    assert_eq!(daemon.stop().code(), Some(0));
    let verified = Command::new(crate::support::programs::quotactl())
        .current_dir(directory.0.path())
        .args(["ledger", "verify", "--data-dir=data", "--archive=archive"])
        .output()
        .unwrap();
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

fn set_quotas(yard: &Yard) {
    for namespace in NAMESPACES {
        let manifest = serde_json::json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "all", "namespace": namespace},
            "spec": {"hard": {UNITS: HARD_UNITS.to_string(), COUNT: HARD_COUNT.to_string()}}
        });
        let api = &yard.api;
        let path = format!("{api}/v1/namespaces/{namespace}/quotas/all");
        let answer = agent(PATIENCE).put(path).send_json(manifest).unwrap();
        assert_eq!(answer.status(), 201);
    }
}

impl Yard {
    fn wait_for_answers(&self, more: u64) {
        let wanted = self.answers.load(Ordering::Relaxed) + more;
        let deadline = Instant::now() + PATIENCE;
        while self.answers.load(Ordering::Relaxed) < wanted {
            assert!(Instant::now() < deadline, "clients are answered");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
