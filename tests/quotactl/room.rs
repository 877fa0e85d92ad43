//! What is shown as available, and what would fit, with the real daemon.

use serde_json::{Value, json};

use super::daemon::Daemon;

const LIMITS: &str = r#"
apiVersion: v1
kind: ResourceQuota
metadata: {name: own, namespace: web}
spec: {hard: {pods: "20", requests.cpu: "10"}}
---
apiVersion: quota.openshift.io/v1
kind: ClusterResourceQuota
metadata: {name: company}
spec:
  selector: {labels: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: In, values: [web, api]}]}}
  quota: {hard: {pods: "5"}}
"#;

/// A namespace with 20 pods of its own in a group with 5, of which 3 are used elsewhere.
fn shared() -> Daemon {
    let daemon = Daemon::start();
    daemon.done("apply -f -", LIMITS);
    let event = json!({"type": "ADDED", "namespace": "api", "resource": "widgets", "name": "w", "uid": "w",
                       "usage": {"pods": "3"}});
    daemon.done("push -", &format!("{event}\n"));
    daemon
}

fn cells(row: &str) -> Vec<&str> {
    row.split_whitespace().collect()
}

#[test]
fn what_a_group_leaves_is_what_is_available() {
    let daemon = shared();
    for command in ["get usage -n web", "describe namespace web"] {
        let shown = daemon.done(command, "");
        let row = |name: &str| {
            let mut rows = shown.lines().map(cells);
            let row = rows.find(|row| row.starts_with(&[name, "pods"]));
            row.unwrap_or_else(|| panic!("no {name}: {shown}"))
        };
        assert_eq!(row("group/company"), ["group/company", "pods", "5", "3", "0", "2", "60%", "-"]);
        assert_eq!(row("own"), ["own", "pods", "20", "0", "0", "2", "0%", "group/company"]);
    }
    let top = daemon.rows("top");
    let row = top.iter().find(|row| row[0] == "web").unwrap();
    assert!(row.contains(&"group/company/pods".to_owned()), "{row:?}");
    let limits = daemon.rows("top -n web");
    assert_eq!(limits[1][..2], ["group/company", "pods"], "{limits:?}");
    let usage: Value = serde_json::from_str(&daemon.done("get usage -n web -o json", "")).unwrap();
    assert_eq!(usage["room"]["pods"]["available"], "2");
}

#[test]
fn groups_are_shown_in_the_units_of_all_views() {
    let daemon = Daemon::start();
    let company = LIMITS
        .replace("hard: {pods: \"5\"}", "hard: {requests.cpu: \"20\", requests.memory: 2880Gi}");
    daemon.done("apply -f -", &company);
    let event = json!({"type": "ADDED", "namespace": "api", "resource": "widgets", "name": "w", "uid": "w",
                       "usage": {"requests.cpu": "1500m", "requests.memory": "1536Mi"}});
    daemon.done("push -", &format!("{event}\n"));
    let shown = daemon.done("get groups", "");
    assert!(shown.contains("requests.cpu: 1.5/20, requests.memory: 1.5Gi/2880Gi"), "{shown}");
}

/// As in Kubernetes, every namespace has a label with its name, whether a source has reported it or not.
#[test]
fn a_namespace_is_selected_by_its_name() {
    let daemon = shared();
    daemon.done("reserve --request pods=1 -n web", "");
    for (name, found) in [("web", true), ("none", false)] {
        for command in ["get namespaces", "get usage -A", "top", "report --since 1h", "suggest"] {
            let shown =
                daemon.done(&format!("{command} -l kubernetes.io/metadata.name={name}"), "");
            assert_eq!(shown.contains("web"), found, "{command}: {shown}");
        }
    }
}

fn workload(kind: &str, version: &str, spec: &Value) -> String {
    json!({"apiVersion": version, "kind": kind, "metadata": {"name": "shop", "namespace": "web"}, "spec": spec}).to_string()
}

#[test]
fn a_workload_is_checked_with_its_pods() {
    let daemon = shared();
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}});
    let template =
        json!({"metadata": {"labels": {"app": "shop"}}, "spec": {"containers": [container]}});
    let deployment = |replicas: u64| {
        let spec = json!({"replicas": replicas, "selector": {}, "template": template});
        workload("Deployment", "apps/v1", &spec)
    };
    let short = daemon.run("check -f -", &deployment(50));
    assert_eq!(short.code, 10, "{short:?}");
    let first = short.out.lines().next().unwrap();
    let expected = "Deployment/shop fits; 2 of its 50 pods would: exceeded quota: own, requested: ";
    assert!(first.starts_with(expected), "{short:?}");
    assert!(short.out.contains("company"), "{short:?}");
    let object_alone = daemon.run("check --pods=false -f -", &deployment(50));
    assert_eq!(
        (object_alone.code, object_alone.out.lines().next()),
        (0, Some("Deployment/shop fits"))
    );
    let fits = daemon.run("check -f -", &deployment(2));
    assert_eq!(fits.code, 0, "{fits:?}");
    assert!(fits.out.starts_with("Deployment/shop fits, and so do its 2 pods\n"), "{fits:?}");

    let job = json!({"parallelism": 4, "completions": 3, "template": template});
    let cron = json!({"schedule": "@daily", "jobTemplate": {"spec": job}});
    for (kind, version, spec) in [
        ("Job", "batch/v1", &job),
        ("CronJob", "batch/v1", &cron),
        ("StatefulSet", "apps/v1", &json!({"replicas": 3, "template": template})),
    ] {
        let short = daemon.run("check -f -", &workload(kind, version, spec));
        assert_eq!(short.code, 10, "{short:?}");
        assert!(
            short.out.starts_with(&format!("{kind}/shop fits; 2 of its 3 pods would: ")),
            "{short:?}"
        );
    }
    // Containers that do not say what a quota demands.
    let nothing =
        json!({"replicas": 3, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
    let none = daemon.run("check -f -", &workload("ReplicaSet", "apps/v1", &nothing));
    assert_eq!(none.code, 10, "{none:?}");
    assert!(
        none.out.contains("0 of its 3 pods would: failed quota: own: must specify"),
        "{none:?}"
    );

    let verdict: Value =
        serde_json::from_str(&daemon.run("check -o json -f -", &deployment(50)).out).unwrap();
    assert_eq!(verdict["fits"], true);
    assert_eq!(verdict["pods"]["fit"], 2);
    assert_eq!(verdict["pods"]["replicas"], 50);
    assert_eq!(verdict["pods"]["reason"], "ExceedsHard");
}

#[test]
fn entries_name_what_is_gone_also_after_a_restart() {
    let daemon = Daemon::start();
    let event = |kind: &str| json!({"type": kind, "namespace": "web", "resource": "pods", "name": "shop", "uid": "p1", "usage": {"requests.cpu": "2"}});
    daemon.done("push -", &format!("{}\n", event("ADDED")));
    daemon.done("push -", &format!("{}\n", event("DELETED")));
    let all = daemon.rows("get entries");
    let found = all.iter().find(|row| row[2] == "ObjectDeleted").unwrap();
    let command = format!("get entries --from {} --limit 1", found[0]);
    let check = |daemon: &Daemon| {
        let rows = daemon.rows(&command);
        let row = &rows[1];
        assert!(row.contains(&"pods/shop".to_owned()), "{row:?}");
        assert!(row.iter().any(|cell| cell.contains("requests.cpu=2")), "{row:?}");
    };
    check(&daemon);
    check(&daemon.restarted());
}
