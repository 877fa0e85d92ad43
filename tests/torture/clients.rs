//! Holders of reservations. They give up waiting early, ask again until there is an answer, and remember it.

use std::{
    sync::{atomic::Ordering, mpsc::Sender},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use ureq::Agent;

use crate::{
    COUNT, Handed, UNITS, Yard, namespace_of,
    support::{PATIENCE, quotad::agent, random::Random},
};

/// How long a client waits for an answer before it repeats the request.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Reservations that one client has at a time.
const HELD_MAX: usize = 8;

/// An answer that a client got.
pub(crate) struct Acknowledged {
    pub(crate) uid: String,
    pub(crate) what: What,
    /// How far the ledger was; none where the answer has no body.
    pub(crate) sequence: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Granted { units: u64 },
    Extended,
    Committed { units: u64 },
    Released,
    Expired,
}

struct Held {
    uid: String,
    namespace: &'static str,
    units: u64,
}

pub(crate) struct Client<'a> {
    number: u64,
    made: u64,
    random: Random,
    yard: &'a Yard,
    hand: Sender<Handed>,
    agent: Agent,
    held: Vec<Held>,
    committed: Vec<Held>,
    acknowledged: Vec<Acknowledged>,
    /// The last answer that said nothing.
    last: String,
}

impl<'a> Client<'a> {
    pub(crate) fn new(number: u64, seed: u64, yard: &'a Yard, hand: Sender<Handed>) -> Self {
        Self {
            number,
            made: 0,
            random: Random::new(seed, &format!("client {number}")),
            yard,
            hand,
            agent: agent(TIMEOUT),
            held: Vec::new(),
            committed: Vec::new(),
            acknowledged: Vec::new(),
            last: String::new(),
        }
    }

    pub(crate) fn run(mut self) -> Vec<Acknowledged> {
        while !self.yard.is_over() {
            if self.held.len() < HELD_MAX && self.random.once_in(2) {
                self.reserve();
            } else if !self.held.is_empty() {
                let place = self.random.index(self.held.len());
                let held = self.held.swap_remove(place);
                self.go_on(held);
            }
            if self.committed.len() > 2 {
                let held = self.committed.remove(0);
                self.hand_over(held);
            }
            std::thread::sleep(self.yard.rest);
        }
        self.acknowledged
    }

    fn reserve(&mut self) {
        self.made += 1;
        let uid = format!("r-{}-{}", self.number, self.made);
        let namespace = namespace_of(&uid);
        let units = 1 + self.random.below(3);
        let ttl = if self.random.once_in(8) { "1s" } else { "5m" };
        let body = json!({
            "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
            "reserved": {UNITS: units.to_string(), COUNT: "1"},
            "ttl": ttl,
        });
        let path = format!("/v1/namespaces/{namespace}/reservations");
        let (status, answer) = self.ask("POST", &path, &body);
        match status {
            200 | 201 => {
                self.acknowledge(&uid, What::Granted { units }, &answer);
                self.held.push(Held { uid, namespace, units });
            }
            403 => assert_eq!(answer["reason"], "ExceedsHard", "{answer}"),
            // Granted by a request whose answer was lost, and over by the time of the next one.
            409 => {
                assert_eq!(answer["cause"], "expired", "{answer}");
                self.acknowledge(&uid, What::Expired, &answer);
            }
            _ => panic!("{status}: {answer}"),
        }
    }

    fn go_on(&mut self, held: Held) {
        let path = format!("/v1/namespaces/{}/reservations/{}", held.namespace, held.uid);
        match self.random.below(5) {
            0 => {
                let body = json!({"ttl": "9m"});
                let answer = self.ask("POST", &format!("{path}/extend"), &body);
                if self.is_done(&held, What::Extended, answer) {
                    self.held.push(held);
                }
            }
            1 | 2 => {
                let units = 1 + self.random.below(held.units);
                let body = json!({"reserved": {UNITS: units.to_string(), COUNT: "1"}});
                let answer = self.ask("POST", &format!("{path}/commit"), &body);
                if self.is_done(&held, What::Committed { units }, answer) {
                    self.committed.push(Held { units, ..held });
                }
            }
            3 => {
                let (status, answer) = self.ask("DELETE", &path, &Value::Null);
                assert_eq!(status, 204, "{answer}");
                self.acknowledge(&held.uid, What::Released, &answer);
            }
            _ => self.hand_over(held),
        }
    }

    /// Whether what was requested is done; else its time had run out.
    fn is_done(&mut self, held: &Held, what: What, (status, answer): (u16, Value)) -> bool {
        match status {
            200 => self.acknowledge(&held.uid, what, &answer),
            410 => self.acknowledge(&held.uid, What::Expired, &answer),
            _ => panic!("{what:?} of {}: {status}: {answer}", held.uid),
        }
        status == 200
    }

    fn acknowledge(&mut self, uid: &str, what: What, answer: &Value) {
        self.acknowledged.push(Acknowledged {
            uid: uid.to_owned(),
            what,
            sequence: answer["asOf"]["sequence"].as_u64(),
        });
    }

    fn hand_over(&self, held: Held) {
        let Held { uid, namespace, units } = held;
        let handed = Handed { uid, namespace, units };
        self.hand.send(handed).expect("the producer goes on");
    }

    /// Asks until there is an answer that says something.
    fn ask(&mut self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some((status, answer)) = self.try_to_ask(method, path, body) {
                self.yard.answers.fetch_add(1, Ordering::Relaxed);
                return (status, answer);
            }
            assert!(
                Instant::now() < deadline,
                "no answer to {method} {path} {body}; last: {}",
                self.last
            );
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn try_to_ask(&mut self, method: &str, path: &str, body: &Value) -> Option<(u16, Value)> {
        let url = format!("{}{path}", self.yard.api);
        let answer = match method {
            "DELETE" => self.agent.delete(url).call(),
            _ => self.agent.post(url).send_json(body),
        };
        let mut answer = answer.inspect_err(|error| self.last = error.to_string()).ok()?;
        let status = answer.status().as_u16();
        let text = answer.body_mut().read_to_string().ok()?;
        let is_busy = matches!(status, 429 | 503);
        if is_busy {
            self.last.clone_from(&text);
        }
        (!is_busy).then(|| (status, serde_json::from_str(&text).unwrap_or_default()))
    }
}
