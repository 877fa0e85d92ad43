//! The daemon itself: what kubectl writes is there for everybody, and after a crash.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{server::Kubectl, support::quotad::Quotad, write::stored};

#[test]
fn quotas_outlive_the_daemon() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    for kubectl in Kubectl::all_at(&daemon.api) {
        let name = format!("q{}", kubectl.minor);
        kubectl.prints(&["create", "quota", &name, "-n", "wire", "--hard=pods=10"]);
        kubectl.prints(&["label", "quota", &name, "-n", "wire", "team=a"]);
        let quota = daemon.get(&format!("/v1/namespaces/wire/quotas/{name}"));
        assert_eq!(quota["metadata"]["labels"], json!({"team": "a"}));
        assert_eq!(quota["spec"]["hard"], json!({"pods": "10"}));
        assert_eq!(quota["metadata"]["uid"], stored(&kubectl, &name)["metadata"]["uid"]);
    }
    let before = daemon.get("/api/v1/resourcequotas");
    daemon.kill();

    let daemon = Quotad::start(directory.path(), &[]);
    let after = daemon.get("/api/v1/resourcequotas");
    let specs = |list: &Value| -> Vec<Value> {
        let items = list["items"].as_array().unwrap().iter();
        items
            .map(|item| {
                json!([item["metadata"]["uid"], item["metadata"]["managedFields"], item["spec"]])
            })
            .collect()
    };
    assert_eq!(specs(&before), specs(&after));
    for kubectl in Kubectl::all_at(&daemon.api) {
        let name = format!("q{}", kubectl.minor);
        let patch = r#"-p={"spec":{"hard":{"pods":"11"}}}"#;
        kubectl.prints(&["patch", "quota", &name, "-n", "wire", patch]);
        assert_eq!(stored(&kubectl, &name)["spec"]["hard"]["pods"], "11");
    }
    assert!(daemon.stop().success());
}

#[test]
fn rights_health_and_all_are_answered_as_an_api_server_does() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    for kubectl in Kubectl::all_at(&daemon.api) {
        let name = format!("q{}", kubectl.minor);
        kubectl.prints(&["create", "quota", &name, "-n", "wire", "--hard=pods=10"]);
        let can = |question: &[&str]| kubectl.prints(&[&["auth", "can-i"], question].concat());
        assert_eq!(can(&["create", "quota", "-n", "wire"]), "yes\n");
        assert_eq!(can(&["delete", "resourcequotas", "-A"]), "yes\n");
        // "no" is exit code 1.
        kubectl.fails(&["auth", "can-i", "delete", "namespaces"]);
        kubectl.fails(&["auth", "can-i", "get", "pods.example.com"]);
        let listed = can(&["--list", "-n", "wire"]);
        assert!(listed.contains("resourcequotas") && listed.contains("/readyz"), "{listed}");
        if kubectl.minor >= 28 {
            let who = kubectl.prints(&["auth", "whoami", "-o", "jsonpath={.status.userInfo}"]);
            let who: Value = serde_json::from_str(&who).unwrap();
            assert_eq!(who["username"], "anonymous");
        }
        let all = kubectl.prints(&["get", "all", "-n", "wire", "-o", "name"]);
        assert!(all.contains(&format!("resourcequota/{name}")), "{all}");
        assert_eq!(kubectl.prints(&["get", "--raw", "/healthz"]), "ok");
        let ready = kubectl.prints(&["get", "--raw", "/readyz?verbose"]);
        assert!(ready.contains("readyz check passed"), "{ready}");
    }
    assert!(daemon.stop().success());
}

#[test]
fn namespaces_have_the_labels_that_a_source_has_reported() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    for name in ["red", "blue"] {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {
            "name": name, "uid": name, "resourceVersion": "1", "labels": {"team": name}}});
        let event = json!([{"type": "ADDED", "object": namespace}]);
        assert_eq!(daemon.post("/v1/events", &event).0, 200);
        let quota = json!({"spec": {"hard": {"pods": "2"}}});
        assert_eq!(daemon.put(&format!("/v1/namespaces/{name}/quotas/q"), &quota).0, 201);
    }
    for kubectl in Kubectl::all_at(&daemon.api) {
        for selector in ["team=red", "kubernetes.io/metadata.name=red", "team notin (blue)"] {
            let found = kubectl.prints(&["get", "ns", "-l", selector, "-o", "name"]);
            assert_eq!(found, "namespace/red\n", "{selector}");
        }
        let label = kubectl.prints(&["get", "ns", "red", "-o", "jsonpath={.metadata.labels.team}"]);
        assert_eq!(label, "red");
    }
    assert!(daemon.stop().success());
}

#[test]
fn denials_and_reservations_are_events() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let quota = json!({"spec": {"hard": {"pods": "2"}}});
    assert_eq!(daemon.put("/v1/namespaces/wire/quotas/q", &quota).0, 201);
    for (name, pods, status) in [("held", "1", 201), ("large", "5", 403)] {
        let holder = json!({"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name});
        let request = json!({"reservedBy": holder, "reserved": {"pods": pods}});
        let path = "/v1/namespaces/wire/reservations";
        assert_eq!(daemon.post(path, &request).0, status);
    }
    for kubectl in Kubectl::all_at(&daemon.api) {
        let table = kubectl.prints(&["get", "events", "-n", "wire"]);
        let row = |of: &str| {
            let mut rows = table.lines();
            rows.find(|row| row.contains(of)).unwrap_or_else(|| panic!("no {of}: {table}"))
        };
        let denied = row("ExceedsHard");
        for part in ["Warning", "/large", "exceeded quota: q, requested: pods=5"] {
            assert!(denied.contains(part), "{denied}");
        }
        let held = row("Reserved");
        for part in ["Normal", "pod/held", "pods=1 held until "] {
            assert!(held.contains(part), "{held}");
        }
        let all = kubectl.prints(&["get", "events", "-A", "-o", "json"]);
        let all: Value = serde_json::from_str(&all).unwrap();
        assert_eq!(all["items"].as_array().unwrap().len(), 2);
        assert_eq!(kubectl.prints(&["get", "events", "-n", "none"]), "");
    }
    assert!(daemon.stop().success());
}
