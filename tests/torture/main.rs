//! The whole daemon with a real nats-server, both killed again and again while events come in and capacity is asked
//! for. In the end everything that was acknowledged is in the ledger, and every event has counted exactly once.
//!
//! `QUOTAD_TORTURE_KILLS` says how many kills (8), `QUOTAD_TORTURE_SEED` which ones; the seed is printed.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod account;
mod clients;
mod producer;

mod standing;
#[path = "../support/mod.rs"]
mod support;

use std::{
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
        mpsc,
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use account::Account;
use clients::Client;
use producer::Producer;

use support::{
    PATIENCE,
    nats::Server,
    quotad::{Quotad, agent, command},
    random::Random,
};
use tempfile::TempDir;

const CLIENTS: u64 = 6;
const NAMESPACES: [&str; 3] = ["team-a", "team-b", "team-c"];

/// What every quota limits, and to how much: enough for the producer's objects and a few dozen reservations.
const UNITS: &str = "requests.example.com/units";
const COUNT: &str = "count/widgets.example.com";
const HARD_UNITS: u64 = 60;
const HARD_COUNT: u64 = 100_000;

/// What the threads share.
struct Yard {
    /// Where the API is at present.
    api: Mutex<String>,
    /// How many requests were answered.
    answers: AtomicU64,
    stop: AtomicBool,
}

/// An object that a client leaves to the producer: it is created, and its events are published.
struct Handed {
    uid: String,
    namespace: &'static str,
    units: u64,
}

#[test]
fn nothing_acknowledged_is_lost_and_nothing_counts_twice_whoever_is_killed() {
    let seed = number("QUOTAD_TORTURE_SEED").unwrap_or_else(|| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        u64::from(now.subsec_nanos())
    });
    let kills = number("QUOTAD_TORTURE_KILLS").unwrap_or(8);
    println!("seed {seed}");
    let started = Instant::now();
    let directory = TempDir::new().unwrap();
    let mut place = Place::prepare(directory.path());
    let yard = Yard {
        api: Mutex::new(place.daemon().api.clone()),
        answers: AtomicU64::new(0),
        stop: AtomicBool::new(false),
    };
    set_quotas(&yard);
    let (hand, handed) = mpsc::channel();
    let url = place.server.url();
    let (acknowledged, published) = std::thread::scope(|scope| {
        let producer = scope.spawn(|| Producer::new(seed, &yard, handed).run(&url));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client::new(number, seed, &yard, hand.clone());
                scope.spawn(|| client.run())
            })
            .collect();
        drop(hand);
        place.kill_again_and_again(kills, seed, &yard);
        yard.stop.store(true, Ordering::Relaxed);
        let clients = clients
            .into_iter()
            .flat_map(|client| client.join().unwrap());
        (clients.collect::<Vec<_>>(), producer.join().unwrap())
    });

    let daemon = place.daemon();
    let mut account = Account::take(daemon, last_of_stream(&url));
    account.is_in_order();
    account.holds(&acknowledged);
    account.agrees_with(&published);
    account.is_what_is_served(daemon);
    let archived = place.archived();
    println!(
        "{kills} kills, {} events in {} messages, {} grants, {} acknowledgements, {} entries, \
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
    let verified = Command::new(env!("CARGO_BIN_EXE_quotactl"))
        .current_dir(directory.path())
        .args(["ledger", "verify", "--data-dir=data", "--archive=archive"])
        .output()
        .unwrap();
    assert_eq!(verified.status.code(), Some(0), "{verified:?}");
}

fn number(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

fn set_quotas(yard: &Yard) {
    for namespace in NAMESPACES {
        let manifest = serde_json::json!({
            "apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "all", "namespace": namespace},
            "spec": {"hard": {UNITS: HARD_UNITS.to_string(), COUNT: HARD_COUNT.to_string()}}
        });
        let api = yard.api.lock().unwrap().clone();
        let path = format!("{api}/v1/namespaces/{namespace}/quotas/all");
        let answer = agent(PATIENCE).put(path).send_json(manifest).unwrap();
        assert_eq!(answer.status(), 201);
    }
}

#[tokio::main(flavor = "current_thread")]
async fn last_of_stream(url: &str) -> u64 {
    let context = async_nats::jetstream::new(async_nats::connect(url).await.unwrap());
    let mut stream = context.get_stream("OBJECTS").await.unwrap();
    stream.info().await.unwrap().state.last_sequence
}

/// The two that are killed.
struct Place<'a> {
    directory: &'a Path,
    server: Server,
    daemon: Option<Quotad>,
}

impl<'a> Place<'a> {
    fn prepare(directory: &'a Path) -> Self {
        let told = durable(directory);
        let server = Server::start_with(&told.iter().map(String::as_str).collect::<Vec<_>>());
        let mut place = Self {
            directory,
            server,
            daemon: None,
        };
        place.daemon = Some(Quotad::start(directory, &place.arguments()));
        let deadline = Instant::now() + PATIENCE;
        while !place.daemon().is_ready() {
            assert!(Instant::now() < deadline, "the daemon gets ready");
            std::thread::sleep(Duration::from_millis(5));
        }
        place
    }

    fn daemon(&self) -> &Quotad {
        self.daemon.as_ref().unwrap()
    }

    /// Small enough that epochs are sealed, snapshots are stored and compaction runs all the time.
    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<_> = [
            "--nats.poll_interval=50ms",
            "--nats.max_backoff=500ms",
            "--journal.segment_bytes=1MiB",
            "--journal.epoch_bytes=1MiB",
            "--journal.max_batch_entries=256",
            "--snapshot.every_entries=500",
            "--retention.max_bytes=64KiB",
            "--retention.archive_dir=archive",
            "--limits.page=5000",
        ]
        .map(str::to_owned)
        .into();
        arguments.push(format!("--nats.url={}", self.server.url()));
        arguments
    }

    fn kill_again_and_again(&mut self, kills: u64, seed: u64, yard: &Yard) {
        let mut random = Random::new(seed, "kills");
        for _ in 0..kills {
            yard.wait_for_answers(random.below(2000));
            match random.below(5) {
                0 | 1 => self.kill_daemon(),
                2 => self.kill_while_it_recovers(random.below(3)),
                3 => {
                    self.server.kill();
                    // Events cannot come in, but what is asked for is still answered.
                    yard.wait_for_answers(random.below(300));
                    self.server.restart();
                }
                _ => {
                    self.server.kill();
                    self.kill_daemon();
                    self.restart_daemon(yard);
                    self.server.restart();
                }
            }
            if self.daemon.is_none() {
                self.restart_daemon(yard);
            }
        }
        yard.wait_for_answers(500);
        let deadline = Instant::now() + PATIENCE;
        while self.archived() == 0 {
            assert!(Instant::now() < deadline, "compaction archives epochs");
            yard.wait_for_answers(100);
        }
    }

    fn archived(&self) -> usize {
        std::fs::read_dir(self.directory.join("archive")).map_or(0, Iterator::count)
    }

    fn kill_daemon(&mut self) {
        self.daemon.take().unwrap().kill();
    }

    fn restart_daemon(&mut self, yard: &Yard) {
        let daemon = Quotad::start(self.directory, &self.arguments());
        yard.api.lock().unwrap().clone_from(&daemon.api);
        self.daemon = Some(daemon);
    }

    /// Kills it, and kills the next one after it has logged so many lines.
    fn kill_while_it_recovers(&mut self, lines: u64) {
        self.kill_daemon();
        let mut child: Child = command(self.directory)
            .args(self.arguments())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        for _ in 0..lines {
            log.next();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

/// Makes the server sync what it acknowledges, if it is new enough to be told; else the system keeps it.
fn durable(directory: &Path) -> Vec<String> {
    let file = directory.join("nats.conf").display().to_string();
    std::fs::write(&file, "jetstream { sync_interval: always }\n").unwrap();
    let known = Command::new("nats-server")
        .args(["-t", "-c", &file])
        .stderr(Stdio::null())
        .status();
    match known.unwrap().success() {
        true => vec!["-c".to_owned(), file],
        false => Vec::new(),
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
