//! Linearizability of the reservations, while the daemon is killed: every answer is one that a single ledger could
//! have given, in an order that respects time. Checked twice: against the order in which the entries stand, and by a
//! search that knows nothing of them.
//!
//! `QUOTAD_LINEAR_OPERATIONS` says how many operations each client does (500).

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod checkers;
mod history;
mod search;
#[path = "../support/mod.rs"]
mod support;
mod witness;

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use history::{Operation, Reply, Wish};
use serde_json::{Value, json};
use support::{
    PATIENCE,
    quotad::{Quotad, agent},
    random::Random,
};
use tempfile::TempDir;
use ureq::Agent;
use witness::{Entry, Kind};

const CLIENTS: u64 = 8;
const NAMESPACES: [&str; 4] = ["team-a", "team-b", "team-c", "team-d"];
const UNITS: &str = "requests.example.com/units";
const HARD: i64 = 24;

/// How long an answer is waited for.
const TIMEOUT: Duration = Duration::from_millis(400);

/// Operations between two kills.
const KILL_EVERY: u64 = 700;

struct Yard {
    api: Mutex<String>,
    began: Instant,
    operations: AtomicU64,
    clients: AtomicU64,
}

struct Client<'a> {
    number: u64,
    random: Random,
    yard: &'a Yard,
    agent: Agent,
    /// Uid, namespace, units.
    held: Vec<(String, usize, i64)>,
    done: Vec<Operation>,
}

impl Client<'_> {
    fn run(mut self, operations: u64) -> Vec<Operation> {
        for number in 0..operations {
            if self.held.is_empty() || self.random.once_in(2) {
                self.reserve(number);
            } else {
                let place = self.random.index(self.held.len());
                let held = self.held.swap_remove(place);
                self.end(held);
            }
            self.yard.operations.fetch_add(1, Ordering::Relaxed);
        }
        self.yard.clients.fetch_sub(1, Ordering::Relaxed);
        self.done
    }

    fn reserve(&mut self, number: u64) {
        let uid = format!("r-{}-{number}", self.number);
        let namespace = self.random.index(NAMESPACES.len());
        let units = 1 + self.random.below(4).cast_signed();
        let body = json!({
            "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
            "reserved": {UNITS: units.to_string()}, "ttl": "10m"
        });
        let path = format!("/v1/namespaces/{}/reservations", NAMESPACES[namespace]);
        let answer = self.ask("POST", &path, &body, namespace, &uid, Wish::Reserve(units));
        if answer == Some(Reply::Done) {
            self.held.push((uid, namespace, units));
        }
    }

    fn end(&mut self, (uid, namespace, units): (String, usize, i64)) {
        let path = format!(
            "/v1/namespaces/{}/reservations/{uid}",
            NAMESPACES[namespace]
        );
        // What is committed stays for good, so there is little of it.
        if units == 1 || !self.random.once_in(200) {
            self.ask(
                "DELETE",
                &path,
                &Value::Null,
                namespace,
                &uid,
                Wish::Release(units),
            );
        } else {
            let body = json!({"reserved": {UNITS: "1"}});
            let path = format!("{path}/commit");
            self.ask(
                "POST",
                &path,
                &body,
                namespace,
                &uid,
                Wish::Commit(units - 1),
            );
        }
    }

    /// Asks, and if there is no answer, asks for the same again or gives up.
    fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &Value,
        namespace: usize,
        uid: &str,
        wish: Wish,
    ) -> Option<Reply> {
        let called = u64::try_from(self.yard.began.elapsed().as_nanos()).unwrap();
        let deadline = Instant::now() + PATIENCE;
        let reply = loop {
            if let Some(reply) = self.try_to_ask(method, path, body) {
                break Some(reply);
            }
            assert!(Instant::now() < deadline, "no answer to {method} {path}");
            if self.random.once_in(12) {
                break None;
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let now = u64::try_from(self.yard.began.elapsed().as_nanos()).unwrap();
        self.done.push(Operation {
            namespace,
            uid: uid.to_owned(),
            wish,
            called,
            answer: reply.map(|reply| (now, reply)),
        });
        reply
    }

    fn try_to_ask(&self, method: &str, path: &str, body: &Value) -> Option<Reply> {
        let url = format!("{}{path}", self.yard.api.lock().unwrap());
        let answer = match method {
            "DELETE" => self.agent.delete(url).call(),
            _ => self.agent.post(url).send_json(body),
        };
        let mut answer = answer.ok()?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().ok()?;
        match status {
            200 | 201 | 204 => Some(Reply::Done),
            403 => {
                let body: Value = serde_json::from_str(&text).unwrap();
                Some(Reply::Denied(body["asOf"]["sequence"].as_u64().unwrap()))
            }
            503 => None,
            _ => panic!("{path}: {status}: {text}"),
        }
    }
}

fn set_quotas(api: &str) {
    for namespace in NAMESPACES {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": namespace},
            "spec": {"hard": {UNITS: HARD.to_string()}}
        });
        let path = format!("{api}/v1/namespaces/{namespace}/quotas/all");
        let answer = agent(PATIENCE).put(path).send_json(manifest).unwrap();
        assert_eq!(answer.status(), 201);
    }
}

fn entries(daemon: &Quotad) -> Vec<Entry> {
    let (all, _) = daemon.list("/v1/entries");
    let entry = |entry: &Value| {
        let event = &entry["event"];
        let (kind, resources) = match event["type"].as_str().unwrap() {
            "ReservationGranted" => (Kind::Granted, &event["footprint"]["resources"]),
            "ReservationReleased" => (Kind::Released, &Value::Null),
            "ReservationCommitted" => (Kind::Committed, &event["resources"]),
            "QuotaSet" => return None,
            other => panic!("unexpected {other}"),
        };
        let units = resources[UNITS]
            .as_str()
            .map_or(0, |units| units.parse().unwrap());
        let of = event["namespace"].as_str();
        let namespace = NAMESPACES.iter().position(|name| Some(*name) == of);
        Some(Entry {
            sequence: entry["sequence"].as_u64().unwrap(),
            namespace: namespace.unwrap_or(0),
            uid: event["uid"].as_str().unwrap().to_owned(),
            kind,
            units,
        })
    };
    all.iter().filter_map(entry).collect()
}

#[test]
fn reservations_are_linearizable_while_the_daemon_is_killed() {
    let operations = std::env::var("QUOTAD_LINEAR_OPERATIONS");
    let operations = operations.map_or(500, |text| text.parse().expect("a number"));
    let directory = TempDir::new_in("/dev/shm").unwrap_or_else(|_| TempDir::new().unwrap());
    let arguments = ["--limits.page=5000".to_owned()];
    let mut running = Some(Quotad::start(directory.path(), &arguments));
    let first = running.as_ref().unwrap().api.clone();
    set_quotas(&first);
    let yard = Yard {
        api: Mutex::new(first),
        began: Instant::now(),
        operations: AtomicU64::new(0),
        clients: AtomicU64::new(CLIENTS),
    };
    let mut kills = 0;
    let history: Vec<Operation> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let client = Client {
                    number,
                    random: Random::new(1, &format!("client {number}")),
                    yard: &yard,
                    agent: agent(TIMEOUT),
                    held: Vec::new(),
                    done: Vec::new(),
                };
                scope.spawn(move || client.run(operations))
            })
            .collect();
        let mut next = KILL_EVERY;
        while yard.clients.load(Ordering::Relaxed) > 0 {
            if yard.operations.load(Ordering::Relaxed) >= next {
                next += KILL_EVERY;
                kills += 1;
                running.take().unwrap().kill();
                let started = Quotad::start(directory.path(), &arguments);
                yard.api.lock().unwrap().clone_from(&started.api);
                running = Some(started);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        clients
            .into_iter()
            .flat_map(|client| client.join().unwrap())
            .collect()
    });
    let entries = entries(running.as_ref().unwrap());
    let unknown = history
        .iter()
        .filter(|operation| operation.answer.is_none())
        .count();
    let denied = |operation: &&Operation| matches!(operation.answer, Some((_, Reply::Denied(_))));
    let denied = history.iter().filter(denied).count();
    println!(
        "{} operations, {denied} denied, {unknown} not answered, {} entries, {kills} kills, {:.1} s",
        history.len(),
        entries.len(),
        yard.began.elapsed().as_secs_f64()
    );
    assert!(kills > 0 && denied > 0 && unknown > 0);
    assert_eq!(
        witness::check(&history, &entries, HARD),
        Vec::<String>::new()
    );
    for (namespace, name) in NAMESPACES.into_iter().enumerate() {
        let its = history
            .iter()
            .filter(|operation| operation.namespace == namespace);
        let its: Vec<_> = its.cloned().collect();
        assert!(search::is_linearizable(&its, HARD), "{name}");
    }
}
