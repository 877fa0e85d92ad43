//! The webhook of a real daemon.

use std::net::SocketAddr;

use rustix::process::{Signal, kill_process};
use serde_json::json;
use tempfile::TempDir;

use super::{
    harness::recorded,
    support::{programs::certificates, quotad::Quotad},
    tls::{HOST, client, connect, post, review},
};

#[tokio::test]
async fn a_daemon_serves_its_webhook() {
    let directory = TempDir::new().unwrap();
    certificates(directory.path(), HOST);
    let config = "listen = \"127.0.0.1:0\"\n[admin]\nlisten = \"127.0.0.1:0\"\n\
        [admission]\nlisten = \"127.0.0.1:0\"\ncharge = [\"deployments.apps\"]\n\
        [tls]\ncert = \"tls.crt\"\nkey = \"tls.key\"\nclient_ca = \"ca.crt\"\n\
        allowed_names = [\"kube-apiserver\"]\n[log]\nformat = \"json\"\n";
    std::fs::write(directory.path().join("config.toml"), config).unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let hook: SocketAddr = daemon.ready["admission"].as_str().unwrap().parse().unwrap();

    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "4"}}});
    let path = "/v1/namespaces/team-a/quotas/q";
    assert_eq!(daemon.put(path, &quota).0, 201);
    let mut stream = connect(hook, &client(directory.path())).await.unwrap();
    let (_, admitted) = review(&mut stream, &recorded("deployment-create")).await.unwrap();
    assert_eq!(admitted["response"]["allowed"], true, "{admitted}");
    let (_, denied) = review(&mut stream, &recorded("deployment-scale")).await.unwrap();
    // No event has shown the deployment yet.
    assert_eq!(denied["response"]["status"]["code"], 409, "{denied}");

    // The room of a request that the API server's own quota plugin refuses is free again, and the refusal is reported.
    let hold = &admitted["response"]["auditAnnotations"]["hold"];
    let message = "deployments.apps \"web\" is forbidden: exceeded quota: q, requested: pods=1, \
        used: pods=4, limited: pods=4";
    let failed = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "items": [{
        "stage": "ResponseComplete", "verb": "create", "objectRef": {"namespace": "team-a"},
        "responseStatus": {"code": 403, "message": message},
        "annotations": {"admission.quota-ledger.local/hold": hold}
    }]});
    let (status, answer) = post(&mut stream, "/audit", &failed).await.unwrap();
    assert_eq!((status.as_u16(), &answer["released"]), (200, &json!(1)));
    let (status, readiness) = daemon.ask_admin("/readyz");
    assert!(
        status == 200 && readiness.contains("quota plugin has refused 1 creations"),
        "{readiness}"
    );
    let (_, metrics) = daemon.ask_admin("/metrics");
    assert!(metrics.contains("quota_ledger_plugin_denials_total 1"));
    assert!(metrics.contains("quota_ledger_audit_events_total{outcome=\"released\"} 1"));

    // Also what nothing is held for: its quota is only there, or it took the place of an earlier creation. What this
    // webhook has refused itself is none of the plugin's.
    let refused = |message: &str| {
        json!({"kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata",
            "auditID": "7e2b1a42-3a36-4f5d-93ae-8b0e1c2d3e4f", "stage": "ResponseComplete",
            "requestURI": "/api/v1/namespaces/team-a/pods?fieldManager=kubectl-create", "verb": "create",
            "user": {"username": "alice", "groups": ["system:authenticated"], "extra": {"a/b": ["c"]}},
            "sourceIPs": ["10.0.0.1"], "userAgent": "kubectl/v1.36.2 (linux/amd64) kubernetes/0123abc",
            "objectRef": {"resource": "pods", "namespace": "team-a", "name": "web", "apiVersion": "v1"},
            "responseStatus": {"metadata": {}, "status": "Failure", "message": message, "reason": "Forbidden",
                "details": {"name": "web", "kind": "pods"}, "code": 403},
            "requestReceivedTimestamp": "2026-11-22T10:00:00.000000Z",
            "stageTimestamp": "2026-11-22T10:00:00.010000Z",
            "annotations": {"authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": ""}})
    };
    let message = "pods \"web\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=4, limited: pods=4";
    let own =
        format!("admission webhook \"admission.quota-ledger.local\" denied the request: {message}");
    let failed = json!({"kind": "EventList", "apiVersion": "audit.k8s.io/v1", "metadata": {},
        "items": [refused(message), refused(&own)]});
    let (status, answer) = post(&mut stream, "/audit", &failed).await.unwrap();
    assert_eq!((status.as_u16(), &answer["released"]), (200, &json!(0)));
    let (_, metrics) = daemon.ask_admin("/metrics");
    assert!(metrics.contains("quota_ledger_plugin_denials_total 2"), "{metrics}");

    kill_process(daemon.pid(), Signal::TERM).unwrap();
    drop(stream);
    assert!(daemon.wait().success());
}

#[tokio::test]
async fn what_callers_send_is_logged_in_short_and_not_line_by_line() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);

    let mut bad = recorded("pod-create");
    bad["request"]["uid"] = json!("");
    bad["request"]["operation"] = json!({ "x".repeat(1 << 20): 1 });
    for _ in 0..50 {
        let (status, answer) = daemon.post("/admit", &bad);
        assert_eq!(status, 400, "{answer}");
        assert!(answer.to_string().len() < 4096);
    }
    bad = json!({"apiVersion": "x".repeat(1 << 20)});
    daemon.post("/admit", &bad);
    daemon.stop();
    let log = std::fs::read_to_string(directory.path().join("quotad.log")).unwrap();
    let lines = log.lines().filter(|line| line.contains("not decided"));
    let lines = lines.count();
    assert!((1..=40).contains(&lines), "{lines}");
    assert!(log.lines().all(|line| line.len() < 4096));
}

#[tokio::test]
async fn denials_by_http_are_logged_as_the_webhooks_are() {
    let directory = TempDir::new().unwrap();
    let daemon = Quotad::start(directory.path(), &[]);
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "0"}}});
    let path = "/v1/namespaces/team-a/quotas/q";
    assert_eq!(daemon.put(path, &quota).0, 201);
    let reserve_request = |name: &str| {
        json!({"namespace": "team-a", "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": name},
            "reserved": {"pods": "1"}})
    };
    let logged = |name: &str| {
        let log = std::fs::read_to_string(directory.path().join("quotad.log")).unwrap();
        let lines: Vec<serde_json::Value> =
            log.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        lines.into_iter().find(|line| line["message"] == "denied" && line["name"] == name)
    };
    let until =
        |name: &'static str| super::support::until("a line about a denial", move || logged(name));

    let path = "/v1/namespaces/team-a/reservations";
    let (status, denied) = daemon.post(path, &reserve_request("alone"));
    assert_eq!(status, 403, "{denied}");
    let line = until("alone").await;
    assert_eq!(line["namespace"], "team-a");
    assert_eq!(line["resource"], "pods");
    assert!(line["refusal"].as_str().unwrap().contains("exceeded quota: q"), "{line}");

    for (name, atomic) in [("first", false), ("second", true)] {
        let batch = json!({"atomic": atomic, "items": [reserve_request(name)]});
        daemon.post("/v1/reservations:batch", &batch);
        assert_eq!(until(name).await["namespace"], "team-a");
    }
    daemon.post("/admit", &recorded("pod-create"));
    let name = recorded("pod-create")["request"]["name"].as_str().unwrap().to_owned();
    assert_eq!(until(name.leak()).await["resource"], "pods");
}
