//! A node that has made another state of the same entries than the others, as a fault of its memory or disk would.

use std::{
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use quota_core::event::{Actor, Entry, Event};
use quota_journal::{Options, disk::RealDisk};
use quota_ledger::replay::{self, Recovered};
use serde_json::json;

use crate::{
    clocks::TWICE_SILENCE,
    scratch,
    support::{
        PATIENCE,
        cluster::NODES,
        nodes::{Nodes, Setup},
        publisher,
        quotad::agent,
    },
    wait_until,
};

/// Clocks that are ahead by so many seconds keep their nodes from leading. They differ, so that neither is the median.
const WRONG_CLOCKS: [&str; 2] = ["30", "-30"];

/// A reservation falls due after so long.
const TTL: Duration = Duration::from_secs(30);

const NAMESPACE: &str = "shop";
const QUOTA: &str = "all";
const UNITS: &str = "requests.example.com/units";

#[test]
fn a_leader_with_a_wrong_state_decides_nothing_and_leads_no_more() {
    let directory = scratch();
    let setup = Setup {
        has_events: true,
        moves_clocks: true,
        nodes: "digest_interval = \"1s\"\n".to_owned(),
        ..Setup::default()
    };
    let mut cluster = Nodes::start(directory.path(), setup);
    let wrong = cluster.leader();
    put_quota(&cluster.daemon(wrong).api);
    cluster.wait_until_same();
    assert_eq!(cluster.take(wrong).stop().code(), Some(0));
    forget_quota(&cluster.home(wrong).join("data"));

    // The other nodes cannot take the lead, so that it is seen what the wrong one does by itself.
    let others = [(wrong + 1) % NODES, (wrong + 2) % NODES];
    let due = Instant::now() + TTL;
    assert_eq!(reserve(&cluster.daemon(cluster.leader()).api, "held", TTL), 201);
    for (node, ahead) in others.into_iter().zip(WRONG_CLOCKS) {
        std::fs::write(cluster.clock(node), ahead).unwrap();
    }
    for node in others {
        wait_until("it says that its clock is wrong", || {
            readyz(&cluster, node).contains("this node cannot lead: its clock is ")
        });
    }
    cluster.start_node(wrong);
    wait_until("it finds that its state is wrong", || {
        readyz(&cluster, wrong).contains("its state differs from that of n")
    });
    let (_, metrics) = cluster.daemon(wrong).ask_admin("/metrics");
    let found = "quota_ledger_cluster_digest_comparisons_total{outcome=\"own_differs\"} 1";
    assert!(metrics.lines().any(|line| line == found), "{metrics}");
    wait_until("it gives the lead up", || cluster.leads().is_none());

    // No event, nothing that falls due, no request.
    let end = cluster.wait_until_same();
    publish(&cluster.servers.urls(), "seen");
    for node in 0..NODES {
        assert_eq!(reserve(&cluster.daemon(node).api, "refused", TTL), 503);
    }
    loop {
        assert_eq!(cluster.wait_until_same(), end);
        assert_eq!(cluster.leads(), None);
        if Instant::now() > due + TWICE_SILENCE {
            break;
        }
    }
    for node in 0..NODES {
        let (status, text) = heal(&cluster, node);
        assert_eq!(status, 409, "{text}");
    }

    // With a node that can lead, all of it is decided, and the wrong one has no part in it.
    for node in others {
        std::fs::write(cluster.clock(node), "0").unwrap();
    }
    let leader = cluster.leader();
    assert_ne!(leader, wrong);
    wait_until("the event counts, and what was due has ended", || {
        let quota = cluster.daemon(leader).get(&path());
        let status = &quota["status"];
        (&status["used"][UNITS], &status["reserved"][UNITS]) == (&json!("1"), &json!("0"))
    });
    assert_eq!(reserve(&cluster.daemon(wrong).api, "granted", TTL), 201);
    let read = agent(PATIENCE).get(format!("{}{}", cluster.daemon(wrong).api, path()));
    assert_eq!(read.call().unwrap().status(), 503);

    // What it says that mends it.
    assert_eq!(cluster.take(wrong).stop().code(), Some(0));
    std::fs::remove_dir_all(cluster.home(wrong).join("data")).unwrap();
    cluster.start_node(wrong);
    wait_until("it is as the others", || cluster.daemon(wrong).is_ready());
    cluster.wait_until_same();
    let quota = cluster.daemon(wrong).get(&path());
    assert_eq!(quota["status"]["used"][UNITS], "1");
}

/// Stores a snapshot of what would be if the quota had been deleted, at the end of the entries as they are.
fn forget_quota(data: &Path) {
    let disk = Arc::new(RealDisk);
    let recovered = replay::recover(disk, data, Options::default(), |_, _| {}).unwrap();
    let Recovered { mut state, journal, reader, recovery, .. } = recovered;
    let head = state.head();
    state.apply(&Entry {
        sequence: head.sequence,
        time: head.time,
        actor: Actor::named("fault"),
        event: Event::QuotaDeleted { namespace: NAMESPACE.into(), name: QUOTA.into() },
    });
    replay::store(&reader.snapshots(), &state.image(), recovery.durable, 3).unwrap();
    journal.close().unwrap();
}

fn path() -> String {
    format!("/v1/namespaces/{NAMESPACE}/quotas/{QUOTA}")
}

fn put_quota(api: &str) {
    let manifest = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": QUOTA, "namespace": NAMESPACE},
        "spec": {"hard": {UNITS: "10"}}
    });
    let answer = agent(PATIENCE).put(format!("{api}{}", path()));
    assert_eq!(answer.send_json(manifest).unwrap().status(), 201);
}

/// The status of the answer to a request.
fn reserve(api: &str, uid: &str, ttl: Duration) -> u16 {
    let body = json!({
        "reservedBy": {"apiVersion": "example.com/v1", "kind": "Widget", "name": uid, "uid": uid},
        "reserved": {UNITS: "1"}, "ttl": format!("{}s", ttl.as_secs())
    });
    let path = format!("{api}/v1/namespaces/{NAMESPACE}/reservations");
    let answer = agent(PATIENCE).post(path).send_json(body);
    answer.unwrap().status().as_u16()
}

#[tokio::main(flavor = "current_thread")]
async fn publish(urls: &str, uid: &str) {
    let mut context = publisher::connect(urls).await;
    let event = json!({
        "type": "ADDED", "namespace": NAMESPACE, "resource": "widgets.example.com", "name": uid, "uid": uid,
        "resourceVersion": "1", "usage": {UNITS: "1"}
    });
    publisher::publish(urls, &mut context, 0, vec![event.to_string()]).await;
}

fn readyz(cluster: &Nodes, node: usize) -> String {
    cluster.daemon(node).ask_admin("/readyz?verbose").1
}

/// Asks a node to make the stream anew.
fn heal(cluster: &Nodes, node: usize) -> (u16, String) {
    let api = &cluster.daemon(node).api;
    let ledger = cluster.daemon(node).get("/v1/cluster")["ledger"].clone();
    let answer = agent(PATIENCE).post(format!("{api}/v1/cluster/heal"));
    let mut answer = answer.send_json(json!({"ledger": ledger})).unwrap();
    let text = answer.body_mut().read_to_string().unwrap();
    (answer.status().as_u16(), text)
}
