//! A source of events. It records the published events, and so the expected usage in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::support::{
    PATIENCE,
    nodes::{Nodes, Setup},
    publisher::{connect, publish},
    quotad::{Quotad, agent},
    random::Random,
};

const UNITS: &str = "requests.example.com/units";
const NAMESPACES: usize = 3;

/// Objects that there are at a time, more or less.
const OBJECTS: u64 = 40;

/// Messages that are published together, each about objects of its own.
const TOGETHER: u64 = 6;

/// Between what is published together.
const REST: Duration = Duration::from_millis(100);

/// Every object that there was: what it uses in the end; none: it is deleted.
#[derive(Default)]
pub(crate) struct Published {
    objects: BTreeMap<String, Option<u64>>,
    /// Each change of an object has a version.
    pub(crate) events: u64,
    pub(crate) messages: u64,
}

/// Starts a cluster that takes what is published.
pub(crate) fn start(directory: &Path) -> Nodes {
    // No reservation expires meanwhile, however slow the machine is.
    let nodes = "[reservations]\ndefault_ttl = \"10m\"\n".to_owned();
    let setup = Setup { has_events: true, nodes, ..Setup::default() };
    let cluster = Nodes::start(directory, setup);
    set_quotas(&cluster.daemon(cluster.leader()).api);
    cluster
}

/// Waits until all of what was published has counted, at every node. Each message was consumed once: gives the entries, the
/// last of them, and in how many steps.
pub(crate) fn is_counted_once(cluster: &Nodes, published: &Published) -> (Vec<Value>, u64, usize) {
    let leader = cluster.leader();
    wait_until_counted(cluster.daemon(leader), published);
    let end = cluster.wait_until_same();
    let (entries, _) = cluster.daemon(leader).list("/v1/entries");
    let advances = each_was_consumed_once(&entries);
    (entries, end, advances)
}

/// Publishes until it is over.
#[tokio::main(flavor = "current_thread")]
pub(crate) async fn run(urls: &str, seed: u64, is_over: &AtomicBool) -> Published {
    let mut random = Random::new(seed, "producer");
    let mut context = connect(urls).await;
    let mut published = Published::default();
    while !is_over.load(Ordering::Relaxed) {
        let mut touched = BTreeSet::new();
        let mut messages = Vec::new();
        for _ in 0..TOGETHER {
            let mut lines = Vec::new();
            for _ in 0..=random.below(3) {
                let uid = format!("o-{}", random.below(OBJECTS) + published.events / 100);
                if touched.insert(uid.clone()) {
                    lines.push(published.change(&uid, &mut random));
                }
            }
            if !lines.is_empty() {
                messages.push(lines.join("\n"));
            }
        }
        let first = published.messages;
        published.messages += messages.len() as u64;
        publish(urls, &mut context, first, messages).await;
        tokio::time::sleep(REST).await;
    }
    published
}

impl Published {
    fn change(&mut self, uid: &str, random: &mut Random) -> String {
        self.events += 1;
        let before = self.objects.get(uid).copied();
        let kind = match before {
            None => "ADDED",
            // Final: whatever comes now changes nothing.
            Some(None) => "MODIFIED",
            Some(Some(_)) if random.once_in(4) => "DELETED",
            Some(Some(_)) => "MODIFIED",
        };
        let units = random.below(5);
        let after = match (before, kind) {
            (Some(None), _) | (_, "DELETED") => None,
            _ => Some(units),
        };
        self.objects.insert(uid.to_owned(), after);
        json!({
            "type": kind, "namespace": namespace_of(uid), "resource": "widgets.example.com", "name": uid, "uid": uid,
            "resourceVersion": self.events.to_string(), "usage": {UNITS: units.to_string()}
        })
        .to_string()
    }

    /// What has to be used in each namespace.
    fn used(&self) -> BTreeMap<String, u64> {
        let mut used: BTreeMap<_, _> = namespaces().map(|namespace| (namespace, 0)).collect();
        for (uid, units) in &self.objects {
            *used.entry(namespace_of(uid)).or_default() += units.unwrap_or(0);
        }
        used
    }
}

fn namespaces() -> impl Iterator<Item = String> {
    (0..NAMESPACES).map(|number| format!("objects-{number}"))
}

fn namespace_of(uid: &str) -> String {
    let sum: usize = uid.bytes().map(usize::from).sum();
    format!("objects-{}", sum % NAMESPACES)
}

/// Sets quotas that what is published never reaches.
fn set_quotas(api: &str) {
    for namespace in namespaces() {
        let manifest = json!({
            "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "seen", "namespace": namespace},
            "spec": {"hard": {UNITS: "1000000"}}
        });
        let path = format!("{api}/v1/namespaces/{namespace}/quotas/seen");
        let answer = agent(PATIENCE).put(path).send_json(manifest).unwrap();
        assert_eq!(answer.status(), 201);
    }
}

/// Waits until a daemon uses what was published, and nothing else.
fn wait_until_counted(daemon: &Quotad, published: &Published) {
    let wanted = published.used();
    let deadline = Instant::now() + PATIENCE;
    loop {
        let used: BTreeMap<_, _> = namespaces()
            .map(|namespace| {
                let quota = daemon.get(&format!("/v1/namespaces/{namespace}/quotas/seen"));
                let used = quota["status"]["used"][UNITS].as_str();
                (namespace, used.map_or(0, |used| used.parse().unwrap()))
            })
            .collect();
        if used == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "used: {used:?}, published: {wanted:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Each message was consumed once, and in order, from first contact on: so do entries say. In how many steps.
fn each_was_consumed_once(entries: &[Value]) -> usize {
    let events = || entries.iter().map(|entry| &entry["event"]);
    let of_type = |name: &'static str| events().filter(move |event| event["type"] == name);
    // A leader that took a server that lags for another stream would begin anew.
    let restarts: Vec<_> = of_type("SourceReset").skip(1).collect();
    assert!(restarts.is_empty(), "{restarts:?}");
    assert_eq!(of_type("SourceGapped").next(), None);
    let positions: Vec<_> = of_type("SourceAdvanced")
        .map(|event| event["cursor"]["position"].as_u64().unwrap())
        .collect();
    let mut pairs = positions.iter().zip(positions.iter().skip(1));
    let turned = pairs.find(|(before, after)| before >= after);
    assert_eq!(turned, None, "messages are consumed again");
    positions.len()
}
