//! A watch that is cut off after any of its lines: a client that goes on from the version of the last line misses
//! nothing.

use std::{
    collections::BTreeMap,
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    sync::Arc,
    thread,
    time::Duration,
};

use crate::{
    server::{LIMITS, Server},
    wire::{QUOTAS, ask, create},
};
use quota_core::event::{Event, GroupRecord, QuotaRecord};
use quota_semantics::{group, quota::Spec, uid::Uid};
use quotad::{self, kube::Limits};
use serde_json::{Value, json};

const ALL: &str = "/api/v1/resourcequotas";
const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";

/// What a client watches: a path, and the selectors of its query.
const VIEWS: [(&str, &str); 7] = [
    (ALL, ""),
    (ALL, "&labelSelector=team%3Da"),
    (ALL, "&fieldSelector=metadata.name%3Dq1"),
    ("/api/v1/namespaces/n1/resourcequotas", ""),
    ("/api/v1/namespaces/n1/resourcequotas", "&labelSelector=team!%3Da"),
    (GROUPS, ""),
    (GROUPS, "&labelSelector=team%3Da"),
];

const HISTORIES: u64 = 8;
const CHANGES_BEFORE: usize = 20;
const CHANGES: usize = 40;

/// Clients at the same time.
const CLIENTS: usize = 50;

/// A generator of numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) % most
    }

    /// Some of few names.
    fn name(&mut self, kind: &str, most: u64) -> String {
        format!("{kind}{}", self.below(most))
    }
}

/// Makes random changes.
struct World {
    random: Random,
    quotas: BTreeMap<(String, String), Uid>,
    groups: BTreeMap<String, Uid>,
    pods: Vec<(String, String)>,
    count: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1),
            quotas: BTreeMap::new(),
            groups: BTreeMap::new(),
            pods: Vec::new(),
            count: 0,
        }
    }

    fn metadata(&mut self) -> Box<str> {
        let team = self.random.name("", 2).replace('0', "a").replace('1', "b");
        format!(r#"{{"labels":{{"team":"{team}"}}}}"#).into()
    }

    fn change(&mut self, server: &Server) {
        self.count += 1;
        let namespace = self.random.name("n", 3);
        match self.random.below(10) {
            0..=2 => {
                let name = self.random.name("q", 3);
                let new = Uid::new(&format!("uid{}", self.count)).unwrap();
                let key = (namespace.clone(), name.clone());
                let uid = self.quotas.entry(key).or_insert(new).clone();
                let limits = json!({"hard": {"pods": self.count.to_string()}});
                server.record(Event::QuotaSet(Arc::new(QuotaRecord {
                    namespace: namespace.as_str().into(),
                    name: name.as_str().into(),
                    uid,
                    created: quotad::now(),
                    spec: serde_json::from_value::<Spec>(limits).unwrap(),
                    metadata: self.metadata(),
                })));
            }
            3 | 4 => {
                let place = self.random.below(9);
                let place = usize::try_from(place).unwrap();
                let key = self.quotas.keys().nth(place).cloned();
                if let Some((namespace, name)) = key {
                    self.quotas.remove(&(namespace.clone(), name.clone()));
                    server.record(Event::QuotaDeleted {
                        namespace: namespace.as_str().into(),
                        name: name.as_str().into(),
                    });
                }
            }
            5 => {
                let name = self.random.name("g", 3);
                let new = Uid::new(&format!("uid{}", self.count)).unwrap();
                let uid = self.groups.entry(name.clone()).or_insert(new).clone();
                // Each namespace is counted by one group at most.
                let of = name.replace('g', "n");
                let metadata = self.metadata();
                server.record(group(&name, uid, (&of, self.count), metadata));
            }
            6 => {
                let name = self.random.name("g", 3);
                if self.groups.remove(&name).is_some() {
                    server.record(Event::GroupDeleted { name: name.as_str().into() });
                }
            }
            7 if !self.pods.is_empty() => {
                let (namespace, pod) = self.pods.remove(0);
                server.delete(&namespace, &pod);
            }
            _ => {
                let pod = format!("p{}", self.count);
                server.observe(&namespace, &pod, &[("pods", "1")]);
                self.pods.push((namespace, pod));
            }
        }
    }
}

/// A group that limits the pods of a namespace.
fn group(name: &str, uid: Uid, (of, pods): (&str, u64), metadata: Box<str>) -> Event {
    let selector = json!({"labels": {"matchLabels": {"kubernetes.io/metadata.name": of}}});
    let limits = json!({"hard": {"pods": pods.to_string()}});
    let spec = group::Spec {
        selector: serde_json::from_value(selector).unwrap(),
        quota: serde_json::from_value(limits).unwrap(),
        ..group::Spec::default()
    };
    Event::GroupSet(Arc::new(GroupRecord {
        name: name.into(),
        uid,
        created: quotad::now(),
        spec,
        metadata,
    }))
}

/// The objects that a client has, by namespace and name.
type Store = BTreeMap<(String, String), Value>;

fn key(object: &Value) -> (String, String) {
    let text = |name: &str| object["metadata"][name].as_str().unwrap_or_default();
    (text("namespace").to_owned(), text("name").to_owned())
}

fn version(object: &Value) -> u64 {
    let version = object["metadata"]["resourceVersion"].as_str().unwrap();
    version.parse().unwrap()
}

fn list(server: &Server, view: (&str, &str)) -> (Store, u64) {
    let (path, query) = view;
    let list = ask(server, "GET", &format!("{path}?{query}"), &[], "", 200);
    let items = list["items"].as_array().unwrap().iter();
    let items = items.map(|item| (key(item), item.clone()));
    (items.collect(), version(&list))
}

/// All events of a watch until it ends.
fn events(
    address: std::net::SocketAddr,
    (path, query): (&str, &str),
    from: u64,
    seconds: u64,
) -> Vec<Value> {
    let mut stream = TcpStream::connect(address).unwrap();
    let watch = format!("{path}?watch=1&resourceVersion={from}&timeoutSeconds={seconds}{query}");
    write!(stream, "GET {watch} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").unwrap();
    let lines = BufReader::new(stream).lines().map(Result::unwrap);
    let lines = lines.filter(|line| line.starts_with('{'));
    let events: Vec<Value> = lines.map(|line| serde_json::from_str(&line).unwrap()).collect();
    let is_event = |event: &Value| event["type"].is_string() && event["type"] != "ERROR";
    assert!(events.iter().all(is_event), "{events:?}");
    events
}

/// A client keeps its objects as informers do.
fn take(store: &mut Store, events: &[Value]) {
    for event in events {
        let object = &event["object"];
        match event["type"].as_str().unwrap() {
            "DELETED" => drop(store.remove(&key(object))),
            _ => drop(store.insert(key(object), object.clone())),
        }
    }
}

/// What the objects show beside their versions.
fn shown(store: &Store) -> BTreeMap<&(String, String), Value> {
    let of = |object: &Value| {
        let metadata = &object["metadata"];
        json!([metadata["uid"], metadata["labels"], object["spec"], object["status"]])
    };
    store.iter().map(|(key, object)| (key, of(object))).collect()
}

/// Cuts a watch after each of its lines; what the client has after it has gone on has to be what there is.
fn check_cuts(server: &Server, view: (&str, &str), begin: &(Store, u64), stream: &[Value]) {
    let mut versions = stream.iter().map(|event| version(&event["object"]));
    let mut last = begin.1;
    assert!(
        versions.all(|version| std::mem::replace(&mut last, version) <= version),
        "{view:?}: versions go back: {stream:#?}"
    );
    let (there, _) = list(server, view);
    let address = server.address;
    let cuts: Vec<_> = (0..=stream.len()).collect();
    for cuts in cuts.chunks(CLIENTS) {
        thread::scope(|scope| {
            for &cut in cuts {
                let (before, there) = (&stream[..cut], &there);
                scope.spawn(move || {
                    let mut store = begin.0.clone();
                    take(&mut store, before);
                    let from = before.last();
                    let from = from.map_or(begin.1, |last| version(&last["object"]));
                    let after = events(address, view, from, 1);
                    take(&mut store, &after);
                    assert_eq!(
                        shown(&store),
                        shown(there),
                        "{view:?}: cut after {cut} of {}, from {from}: {stream:#?}, then {after:#?}",
                        stream.len()
                    );
                });
            }
        });
    }
    // A client that writes an object as it knows it is not refused.
    let mut store = begin.0.clone();
    take(&mut store, stream);
    for ((namespace, name), object) in &mut store {
        let (one, kind, api_version) = match namespace.is_empty() {
            true => (
                format!("{GROUPS}/{name}?dryRun=All"),
                "ClusterResourceQuota",
                "quota.openshift.io/v1",
            ),
            false => (
                format!("/api/v1/namespaces/{namespace}/resourcequotas/{name}?dryRun=All"),
                "ResourceQuota",
                "v1",
            ),
        };
        // The items of a list do not have them.
        object["kind"] = json!(kind);
        object["apiVersion"] = json!(api_version);
        ask(server, "PUT", &one, &[], &object.to_string(), 200);
    }
}

/// A server that reads few quotas at once.
fn start(seed: u64) -> Server {
    Server::with(Limits { page: 1 + usize::try_from(seed % 3).unwrap(), ..LIMITS })
}

fn each_history(of: impl Fn(u64) + Sync) {
    thread::scope(|scope| {
        for seed in 1..=HISTORIES {
            let of = &of;
            scope.spawn(move || of(seed));
        }
    });
}

/// The changes are made while no client is connected: they come all at once.
#[test]
fn a_client_that_is_cut_off_while_it_catches_up_misses_nothing() {
    each_history(|seed| {
        let server = start(seed);
        let mut world = World::new(seed);
        (0..CHANGES_BEFORE).for_each(|_| world.change(&server));
        let begins = VIEWS.map(|view| list(&server, view));
        (0..CHANGES).for_each(|_| world.change(&server));
        for (view, begin) in VIEWS.into_iter().zip(&begins) {
            let stream = events(server.address, view, begin.1, 1);
            check_cuts(&server, view, begin, &stream);
        }
    });
}

/// The changes come in many rounds.
#[test]
fn a_client_that_is_cut_off_while_changes_are_made_misses_nothing() {
    each_history(|seed| {
        let server = start(seed);
        let mut world = World::new(100 + seed);
        (0..CHANGES_BEFORE).for_each(|_| world.change(&server));
        let begins = VIEWS.map(|view| list(&server, view));
        let address = server.address;
        let watch = |(view, begin): ((_, _), &(Store, u64))| {
            let from = begin.1;
            thread::spawn(move || events(address, view, from, 4))
        };
        let watches: Vec<_> = VIEWS.into_iter().zip(&begins).map(watch).collect();
        for _ in 0..CHANGES {
            world.change(&server);
            thread::sleep(Duration::from_millis(world.random.below(120)));
        }
        for ((view, begin), watch) in VIEWS.into_iter().zip(&begins).zip(watches) {
            check_cuts(&server, view, begin, &watch.join().unwrap());
        }
    });
}

#[test]
fn what_left_a_selector_and_was_deleted_is_told() {
    let server = Server::start();
    create(&server, "q", json!({"metadata": {"labels": {"team": "a"}}}));
    let view = (QUOTAS, "&labelSelector=team%3Da");
    let (store, from) = list(&server, view);
    assert_eq!(store.len(), 1);
    let path = format!("{QUOTAS}/q");
    let patch = [("content-type", "application/merge-patch+json")];
    let labels = r#"{"metadata":{"labels":{"team":"b"}}}"#;
    ask(&server, "PATCH", &path, &patch, labels, 200);
    ask(&server, "DELETE", &path, &[], "", 200);
    let events = events(server.address, view, from, 1);
    assert_eq!(events.len(), 1, "{events:#?}");
    assert_eq!(events[0]["type"], "DELETED");
}

/// A figure changes in all quotas of a namespace with one entry: all of them show its sequence as their version.
#[test]
fn all_quotas_of_a_namespace_that_changed_at_once_come_again() {
    let server = Server::start();
    for name in ["q1", "q2", "q3"] {
        create(&server, name, json!({}));
    }
    server.observe("wire", "p", &[("pods", "1")]);
    let view = (QUOTAS, "");
    let (store, from) = list(&server, view);
    let names = |events: &[Value]| -> Vec<String> {
        events.iter().map(|event| key(&event["object"]).1).collect()
    };
    let again = events(server.address, view, from, 1);
    assert_eq!(names(&again), ["q1", "q2", "q3"]);
    for event in &again {
        assert_eq!(event["type"], "MODIFIED");
        assert_eq!(event["object"], {
            let mut object = store[&key(&event["object"])].clone();
            object["kind"] = json!("ResourceQuota");
            object["apiVersion"] = json!("v1");
            object
        });
    }
    // A quota that was set with an entry of its own is complete with it.
    create(&server, "q4", json!({}));
    let (_, from) = list(&server, view);
    assert_eq!(names(&events(server.address, view, from, 1)), [""; 0]);
}

/// No source shows the namespace: it is there as long as it has a quota or an object.
#[test]
fn a_group_changes_with_a_namespace_that_comes_and_goes() {
    let server = Server::start();
    server.record(group("g", Uid::new("g").unwrap(), ("n", 9), "{}".into()));
    let quota = |name: &str| QuotaRecord {
        namespace: "n".into(),
        name: name.into(),
        uid: Uid::new(name).unwrap(),
        created: quotad::now(),
        spec: Spec::default(),
        metadata: "{}".into(),
    };
    let set = || server.record(Event::QuotaSet(Arc::new(quota("q"))));
    let unset = || {
        server.record(Event::QuotaDeleted { namespace: "n".into(), name: "q".into() });
    };
    let observe = || server.observe("n", "p", &[("pods", "1")]);
    let delete = || server.delete("n", "p");
    let steps: [(&str, &dyn Fn()); 4] =
        [("an object", &observe), ("no object", &delete), ("a quota", &set), ("no quota", &unset)];
    let view = (GROUPS, "");
    for (step, change) in steps {
        let (mut store, from) = list(&server, view);
        change();
        let (there, _) = list(&server, view);
        assert_ne!(shown(&store), shown(&there), "{step}");
        take(&mut store, &events(server.address, view, from, 1));
        assert_eq!(shown(&store), shown(&there), "{step}");
    }
}
