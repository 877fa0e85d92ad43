//! The source of events. It records the published events, and so the expected usage in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        atomic::Ordering,
        mpsc::{Receiver, TryRecvError},
    },
    time::Duration,
};

use async_nats::jetstream;
use serde_json::json;

use crate::{
    Handed, UNITS, Yard, namespace_of,
    support::{
        publisher::{connect, publish},
        random::Random,
    },
};

/// Messages that are published together, each about objects of its own.
const BATCH: u64 = 40;

/// Objects that are alive at a time, more or less.
const OBJECTS: usize = 60;

/// After so many messages its own objects are new ones.
const MESSAGES_OF_A_LIFE: u64 = 100;

/// It keeps step with the clients, so that both have something to lose at any time.
const EVENTS_PER_ANSWER: u64 = 8;

/// Below the first version of an object.
const VERSION: u64 = 10;

/// What an object uses according to events that are to change nothing.
const WRONG: u64 = 999;

/// What was published.
pub(crate) struct Published {
    /// What every object that was ever heard of counts for in the end; none: it is deleted.
    pub(crate) objects: BTreeMap<String, Option<Alive>>,
    pub(crate) events: u64,
    pub(crate) messages: u64,
}

#[derive(Clone, Copy)]
pub(crate) struct Alive {
    pub(crate) namespace: &'static str,
    pub(crate) units: u64,
    version: u64,
}

pub(crate) struct Producer<'a> {
    random: Random,
    yard: &'a Yard,
    handed: Receiver<Handed>,
    published: Published,
    /// Those that are alive, and some that are not any more.
    alive: Vec<String>,
    /// Events that were acknowledged, to be repeated.
    old: Vec<String>,
}

impl<'a> Producer<'a> {
    pub(crate) fn new(seed: u64, yard: &'a Yard, handed: Receiver<Handed>) -> Self {
        Self {
            random: Random::new(seed, "producer"),
            yard,
            handed,
            published: Published { objects: BTreeMap::new(), events: 0, messages: 0 },
            alive: Vec::new(),
            old: Vec::new(),
        }
    }

    #[tokio::main(flavor = "current_thread")]
    pub(crate) async fn run(mut self, urls: &str) -> Published {
        let mut context = connect(urls).await;
        let mut listed = 0;
        loop {
            let over = self.yard.is_over();
            let losses = self.yard.losses.load(Ordering::SeqCst);
            if losses > listed {
                let all = self.list();
                self.publish(urls, &mut context, all).await;
                listed = losses;
            }
            let answers = self.yard.answers.load(Ordering::Relaxed);
            if !over && self.published.events > (answers + 100) * EVENTS_PER_ANSWER {
                tokio::time::sleep(Duration::from_millis(1)).await;
                continue;
            }
            let (events, all_taken) = self.make_events();
            self.publish(urls, &mut context, events).await;
            if over && all_taken {
                return self.published;
            }
        }
    }

    /// Events about objects of which no two are the same, and whether all that was handed over is among them.
    fn make_events(&mut self) -> (Vec<String>, bool) {
        let mut events = Vec::new();
        let mut touched = BTreeSet::new();
        let all_taken = loop {
            match self.handed.try_recv() {
                Ok(handed) => {
                    touched.insert(handed.uid.clone());
                    events.push(self.see(&handed.uid, handed.namespace, handed.units));
                }
                Err(TryRecvError::Empty) => break false,
                Err(TryRecvError::Disconnected) => break true,
            }
        };
        for _ in 0..BATCH {
            let uid = self.choose();
            if touched.insert(uid.clone()) {
                let event = self.change(&uid);
                events.push(event);
            }
        }
        (events, all_taken)
    }

    /// An object that is alive, its own or handed over, or else one of its own, that may be new or deleted.
    fn choose(&mut self) -> String {
        let is_enough = self.alive.len() > OBJECTS;
        if is_enough || self.random.once_in(4) {
            while !self.alive.is_empty() {
                let place = self.random.index(self.alive.len());
                let uid = &self.alive[place];
                if self.published.objects[uid].is_some() {
                    return uid.clone();
                }
                self.alive.swap_remove(place);
            }
        }
        let own = self.random.index(OBJECTS);
        format!("o-{own}-{}", self.published.messages / MESSAGES_OF_A_LIFE)
    }

    fn change(&mut self, uid: &str) -> String {
        match self.published.objects.get(uid).copied() {
            None => {
                let units = self.random.below(3);
                self.see(uid, namespace_of(uid), units)
            }
            // Final: whatever comes now changes nothing.
            Some(None) => event("MODIFIED", uid, namespace_of(uid), u64::MAX / 2 - 1, WRONG),
            Some(Some(alive)) if self.random.once_in(2) => {
                self.published.objects.insert(uid.to_owned(), None);
                event("DELETED", uid, alive.namespace, alive.version + 1, 0)
            }
            // Not newer than the recorded version.
            Some(Some(alive)) if self.random.once_in(4) => {
                event("MODIFIED", uid, alive.namespace, alive.version - 1, WRONG)
            }
            Some(Some(alive)) => {
                let units = self.random.below(3);
                self.see(uid, alive.namespace, units)
            }
        }
    }

    /// All objects as they are, and those that are gone, since their end may be among what was lost.
    fn list(&self) -> Vec<String> {
        let objects = self.published.objects.iter();
        let event = |(uid, state): (&String, &Option<Alive>)| match state {
            Some(alive) => event("ADDED", uid, alive.namespace, alive.version, alive.units),
            None => event("DELETED", uid, namespace_of(uid), u64::MAX / 2, 0),
        };
        objects.map(event).collect()
    }

    fn see(&mut self, uid: &str, namespace: &'static str, units: u64) -> String {
        let recorded = self.published.objects.get(uid).copied().flatten();
        let version = recorded.map_or(VERSION, |alive| alive.version) + 1;
        let alive = Alive { namespace, units, version };
        let before = self.published.objects.insert(uid.to_owned(), Some(alive));
        if before.is_none() {
            self.alive.push(uid.to_owned());
        }
        let kind = if recorded.is_some() { "MODIFIED" } else { "ADDED" };
        event(kind, uid, namespace, version, units)
    }

    /// Publishes events, now and then with repetitions of old ones, until every message is acknowledged.
    async fn publish(&mut self, urls: &str, context: &mut jetstream::Context, events: Vec<String>) {
        let mut messages = Vec::new();
        let mut rest = events.as_slice();
        while !rest.is_empty() {
            let most = if rest.len() > 100 { 100 } else { 3 };
            let lines = rest.len().min(1 + self.random.index(most));
            let (message, others) = rest.split_at(lines);
            messages.push(message.join("\n"));
            rest = others;
        }
        if !self.old.is_empty() {
            let place = self.random.index(self.old.len());
            messages.push(self.old[place].clone());
        }
        self.published.events += events.len() as u64;
        let first = self.published.messages;
        self.published.messages += messages.len() as u64;
        self.old = events;
        publish(urls, context, first, messages).await;
    }
}

fn event(kind: &str, uid: &str, namespace: &str, version: u64, units: u64) -> String {
    // A long name, so that the ledger grows.
    let name = format!("{uid}-{}", "x".repeat(150));
    json!({
        "type": kind, "namespace": namespace, "resource": "widgets.example.com", "name": name, "uid": uid,
        "resourceVersion": version.to_string(), "usage": {UNITS: units.to_string()}
    })
    .to_string()
}
