//! Clients that reserve, release and commit, at any of the addresses of one ledger, and record their requests and the
//! replies.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use ureq::Agent;

use super::{
    history::{Operation, Reply, Request},
    witness::{Entry, Kind},
};
use crate::{PATIENCE, quotad::agent, random::Random};

pub const CLIENTS: u64 = 8;
const UNITS: &str = "requests.example.com/units";
pub const HARD: i64 = 24;

/// So many namespaces are worked on at a time.
pub const NAMESPACES: usize = 4;

/// How clients go about it.
pub struct Habits {
    /// Operations of each client, at most.
    pub operations: u64,
    /// How long an answer is waited for.
    pub timeout: Duration,
    /// Between two operations.
    pub rest: Duration,
}

/// What clients share.
pub struct Yard {
    /// Where the ledger is.
    apis: Mutex<Vec<String>>,
    habits: Habits,
    seed: u64,
    began: Instant,
    /// How many are done.
    pub operations: AtomicU64,
    /// How many of them are grants.
    grants: AtomicU64,
    /// Clients that go on.
    pub clients: AtomicU64,
    /// Of the namespaces that are worked on.
    first: AtomicUsize,
    is_over: AtomicBool,
}

impl Yard {
    pub fn new(apis: Vec<String>, habits: Habits, seed: u64) -> Self {
        Self {
            apis: Mutex::new(apis),
            habits,
            seed,
            began: Instant::now(),
            operations: AtomicU64::new(0),
            grants: AtomicU64::new(0),
            clients: AtomicU64::new(CLIENTS),
            first: AtomicUsize::new(0),
            is_over: AtomicBool::new(false),
        }
    }

    /// From now on the ledger is there.
    pub fn move_to(&self, apis: Vec<String>) {
        *self.apis.lock().unwrap() = apis;
    }

    /// From now on other namespaces are worked on. What is held in those before is given back there.
    pub fn turn_to(&self, first: usize) {
        self.first.store(first, Ordering::Relaxed);
    }

    /// Clients finish what they do.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// How many were granted.
    pub fn grants(&self) -> u64 {
        self.grants.load(Ordering::Relaxed)
    }

    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn now(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap()
    }
}

pub fn name(namespace: usize) -> String {
    format!("team-{namespace}")
}

pub struct Client<'a> {
    number: u64,
    random: Random,
    yard: &'a Yard,
    agent: Agent,
    /// Of the addresses.
    at: usize,
    /// Uid, namespace, units.
    held: Vec<(String, usize, i64)>,
    done: Vec<Operation>,
}

impl<'a> Client<'a> {
    pub fn new(number: u64, yard: &'a Yard) -> Self {
        Self {
            number,
            random: Random::new(yard.seed, &format!("client {number}")),
            yard,
            agent: agent(yard.habits.timeout),
            at: usize::try_from(number).unwrap(),
            held: Vec::new(),
            done: Vec::new(),
        }
    }

    pub fn run(mut self) -> Vec<Operation> {
        for number in 0..self.yard.habits.operations {
            if self.yard.is_over.load(Ordering::Relaxed) {
                break;
            }
            if self.held.is_empty() || self.random.once_in(2) {
                self.reserve(number);
            } else {
                let place = self.random.index(self.held.len());
                let held = self.held.swap_remove(place);
                self.end(held);
            }
            self.yard.operations.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(self.yard.habits.rest);
        }
        self.yard.clients.fetch_sub(1, Ordering::Relaxed);
        self.done
    }

    fn reserve(&mut self, number: u64) {
        let uid = format!("r-{}-{number}", self.number);
        let first = self.yard.first.load(Ordering::Relaxed);
        let namespace = first + self.random.index(NAMESPACES);
        let units = 1 + self.random.below(4).cast_signed();
        let body = reservation(&uid, units);
        let path = format!("/v1/namespaces/{}/reservations", name(namespace));
        let answer = self.ask("POST", &path, &body, namespace, &uid, Request::Reserve(units));
        if answer == Some(Reply::Done) {
            self.yard.grants.fetch_add(1, Ordering::Relaxed);
            self.held.push((uid, namespace, units));
        }
    }

    fn end(&mut self, (uid, namespace, units): (String, usize, i64)) {
        let path = format!("/v1/namespaces/{}/reservations/{uid}", name(namespace));
        // What is committed stays for good, so there is little of it.
        if units == 1 || !self.random.once_in(200) {
            let request = Request::Release(units);
            self.ask("DELETE", &path, &Value::Null, namespace, &uid, request);
        } else {
            let body = json!({"reserved": {UNITS: "1"}});
            let path = format!("{path}/commit");
            let request = Request::Commit(units - 1);
            self.ask("POST", &path, &body, namespace, &uid, request);
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
        request: Request,
    ) -> Option<Reply> {
        let operation =
            |called, answer| Operation { namespace, uid: uid.to_owned(), request, called, answer };
        let first = self.yard.now();
        let deadline = Instant::now() + PATIENCE;
        let mut called = first;
        let reply = loop {
            if let Some(reply) = self.try_to_ask(method, path, body) {
                break Some(reply);
            }
            assert!(Instant::now() < deadline, "no answer to {method} {path}");
            if self.random.once_in(12) {
                break None;
            }
            self.at += 1;
            std::thread::sleep(Duration::from_millis(10));
            called = self.yard.now();
        };
        let now = self.yard.now();
        let answer = reply.map(|reply| (now, reply));
        match reply {
            // What was sent before and not answered may still be on its way, and find room.
            Some(Reply::Denied(_)) if called > first => {
                self.done.push(operation(first, None));
                self.done.push(operation(called, answer));
            }
            _ => self.done.push(operation(first, answer)),
        }
        reply
    }

    fn try_to_ask(&self, method: &str, path: &str, body: &Value) -> Option<Reply> {
        let url = {
            let apis = self.yard.apis.lock().unwrap();
            format!("{}{path}", apis[self.at % apis.len()])
        };
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

/// What is sent to reserve.
pub fn reservation(uid: &str, units: i64) -> Value {
    json!({
        "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
        "reserved": {UNITS: units.to_string()}, "ttl": "10m"
    })
}

/// Sets the quotas of so many namespaces.
pub fn set_quotas(api: &str, namespaces: usize) {
    let agent = agent(PATIENCE);
    for namespace in (0..namespaces).map(name) {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": namespace},
            "spec": {"hard": {UNITS: HARD.to_string()}}
        });
        let path = format!("{api}/v1/namespaces/{namespace}/quotas/all");
        let answer = agent.put(path).send_json(manifest).unwrap();
        assert_eq!(answer.status(), 201);
    }
}

/// What entries of the ledger say of reservations.
pub fn entries_of(all: &[Value]) -> Vec<Entry> {
    all.iter().filter_map(entry).collect()
}

fn entry(entry: &Value) -> Option<Entry> {
    let event = &entry["event"];
    let (kind, resources) = match event["type"].as_str().unwrap() {
        "ReservationGranted" => (Kind::Granted, &event["footprint"]["resources"]),
        "ReservationReleased" => (Kind::Released, &Value::Null),
        "ReservationCommitted" => (Kind::Committed, &event["resources"]),
        "QuotaSet" | "LeaderChanged" | "EndedBounded" => return None,
        "ObjectObserved" | "ObjectRefreshed" | "ObjectDeleted" => return None,
        "SourceAdvanced" | "SourceReset" => return None,
        other => panic!("unexpected {other}"),
    };
    let units = resources[UNITS].as_str();
    let namespace = event["namespace"].as_str();
    let namespace = namespace.and_then(|name| name.strip_prefix("team-")?.parse().ok());
    Some(Entry {
        sequence: entry["sequence"].as_u64().unwrap(),
        namespace: namespace.unwrap_or(0),
        uid: event["uid"].as_str().unwrap().to_owned(),
        kind,
        units: units.map_or(0, |units| units.parse().unwrap()),
    })
}
