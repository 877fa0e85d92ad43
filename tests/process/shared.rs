//! What callers share, as an operator sees it.

use crate::support::{quotad::Quotad, until};
use serde_json::{Map, Value, json};
use tempfile::TempDir;

/// A metric without labels.
fn metric(daemon: &Quotad, name: &str) -> u64 {
    let (_, metrics) = daemon.ask_admin("/metrics");
    let value = metrics.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    value.map_or(0, |value| value.parse().unwrap())
}

/// What is used of processor time in a namespace.
fn used_cpu(daemon: &Quotad, namespace: &str) -> Value {
    let usage = daemon.get(&format!("/v1/namespaces/{namespace}/usage"));
    let resources = usage["resources"].as_array().unwrap();
    let cpu = resources.iter().find(|it| it["resource"] == "requests.cpu");
    cpu.unwrap()["used"].clone()
}

/// Few items may be wide, and then they are not made where others wait.
#[test]
fn lists_of_few_wide_items_are_large_answers() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let amounts: Map<_, _> =
        (0..64).map(|number| (format!("example.com/r{number}"), json!("1"))).collect();
    let hard: Map<_, _> = amounts.keys().map(|name| (name.clone(), json!("20"))).collect();
    let body = json!({"spec": {"hard": hard}});
    let (status, set) = daemon.put("/v1/namespaces/wide/quotas/q", &body);
    assert_eq!(status, 201, "{set}");
    for number in 0..40 {
        let request = |reserved: &Value| json!({"reservedBy": {"uid": format!("u{number}")}, "reserved": reserved});
        let (wide, narrow) = (Value::from(amounts.clone()), json!({"pods": "1"}));
        let granted = if number < 20 { 201 } else { 403 };
        let path = "/v1/namespaces/wide/reservations";
        assert_eq!(daemon.post(path, &request(&wide)).0, granted);
        let path = "/v1/namespaces/narrow/reservations";
        assert_eq!(daemon.post(path, &request(&narrow)).0, 201);
    }
    let object = |number: u32, namespace: &str, usage: &Value| {
        json!({"type": "ADDED", "namespace": namespace, "resource": "widgets.example.com",
            "name": format!("w{number}"), "uid": format!("o{number}"), "resourceVersion": "1",
            "usage": usage})
    };
    for (namespace, usage) in [("wide", amounts.into()), ("narrow", json!({"pods": "1"}))] {
        let events = (0..20).map(|number| object(number, namespace, &usage));
        assert_eq!(daemon.post("/v1/events", &events.collect()).0, 200);
    }
    let mut made = Vec::new();
    for namespace in ["narrow", "wide"] {
        for list in ["reservations", "objects", "denials"] {
            let before = metric(&daemon, "quota_ledger_large_answers_total");
            daemon.get(&format!("/v1/namespaces/{namespace}/{list}"));
            let after = metric(&daemon, "quota_ledger_large_answers_total");
            made.push((namespace, list, after - before));
        }
    }
    let expected = ["narrow", "wide"].into_iter().flat_map(|namespace| {
        let large = u64::from(namespace == "wide");
        ["reservations", "objects", "denials"].map(|list| (namespace, list, large))
    });
    assert_eq!(made, expected.collect::<Vec<_>>());
    for path in [
        "/v1/objects",
        "/v1/denials",
        "/v1/entries?namespace=wide",
        // A quota shows each amount of its reservations.
        "/v1/namespaces/wide/quotas/q",
        "/api/v1/namespaces/wide/resourcequotas/q",
    ] {
        let before = metric(&daemon, "quota_ledger_large_answers_total");
        daemon.get(path);
        let after = metric(&daemon, "quota_ledger_large_answers_total");
        assert_eq!(after - before, 1, "{path}");
    }
}

/// What takes long is not done where others wait, even if its answer is short.
#[test]
fn long_manifests_are_read_as_large_answers_are_made() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let large = |work: &dyn Fn()| {
        let before = metric(&daemon, "quota_ledger_large_answers_total");
        work();
        metric(&daemon, "quota_ledger_large_answers_total") - before
    };
    let put = |path: &str, body: &Value| {
        let (status, set) = daemon.put(&format!("/v1/{path}"), body);
        assert_eq!(status, 201, "{set}");
    };
    let noted = |bytes: usize| json!({"annotations": {"note": "x".repeat(bytes)}});
    for (bytes, expected) in [(1000, 0), (100_000, 2)] {
        let quota = json!({"metadata": noted(bytes), "spec": {"hard": {"pods": "1"}}});
        let group = json!({"apiVersion": "quota.openshift.io/v1", "kind": "ClusterResourceQuota",
            "metadata": noted(bytes), "spec": {"selector": {"annotations": {"a": "b"}},
            "quota": {"hard": {"pods": "1"}}}});
        // The manifest is read, and the answer shows it.
        let quotas = || put(&format!("namespaces/noted/quotas/q{bytes}"), &quota);
        assert_eq!(large(&quotas), expected);
        let groups = || put(&format!("groups/g{bytes}"), &group);
        assert_eq!(large(&groups), expected);
    }
}

/// A check beside many limits is decided where reservations are, and records nothing.
#[test]
fn a_check_beside_many_limits_answers_as_one_beside_few() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let hard: Map<_, _> =
        (0..64).map(|number| (format!("example.com/r{number}"), json!("20"))).collect();
    let body = json!({"spec": {"hard": hard}});
    for number in 0..16 {
        let path = format!("/v1/namespaces/wide/quotas/q{number}");
        assert_eq!(daemon.put(&path, &body).0, 201);
    }
    assert_eq!(daemon.put("/v1/namespaces/narrow/quotas/q", &body).0, 201);
    let sequence = || daemon.get("/v1/status")["asOf"]["sequence"].clone();
    let before = sequence();
    for (amount, fits) in [("20", true), ("21", false)] {
        for namespace in ["narrow", "wide"] {
            let body = json!({"reservedBy": {"uid": "u"}, "reserved": {"example.com/r1": amount}});
            let (status, verdict) =
                daemon.post(&format!("/v1/namespaces/{namespace}/check"), &body);
            assert_eq!((status, &verdict["fits"]), (200, &json!(fits)), "{verdict}");
            assert_eq!(verdict["asOf"]["sequence"], before);
        }
    }
    assert_eq!(sequence(), before);
}

/// Whoever makes up uids harms nobody, and is seen.
#[tokio::test]
async fn objects_of_one_uid_in_two_namespaces_count_in_both_and_are_told() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    for (namespace, cpu) in [("a", "1"), ("b", "2")] {
        let events = json!([{"type": "ADDED", "namespace": namespace, "resource": "pods",
            "name": "web", "uid": "same", "resourceVersion": "5", "usage": {"requests.cpu": cpu}}]);
        assert_eq!(daemon.post("/v1/events", &events).0, 200);
    }
    for (namespace, cpu) in [("a", "1"), ("b", "2")] {
        assert_eq!(used_cpu(&daemon, namespace), cpu, "{namespace}");
    }
    let seen = || (metric(&daemon, "quota_ledger_uid_collisions") == 1).then_some(());
    until("the collision is told", seen).await;
    let gone = json!([{"type": "DELETED", "namespace": "b", "resource": "pods", "name": "web",
        "uid": "same", "resourceVersion": "6"}]);
    assert_eq!(daemon.post("/v1/events", &gone).0, 200);
    assert_eq!(used_cpu(&daemon, "a"), "1");
    let over = || (metric(&daemon, "quota_ledger_uid_collisions") == 0).then_some(());
    until("it is over", over).await;
}
