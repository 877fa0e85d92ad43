//! Groups, with the real daemon.

use serde_json::Value;

use super::daemon::Daemon;

const GROUP: &str = r#"
apiVersion: quota.openshift.io/v1
kind: ClusterResourceQuota
metadata:
  name: red
  annotations: {quota-ledger.io/soft: '{"pods": "8"}'}
spec:
  selector: {labels: {matchLabels: {team: red}}}
  quota: {hard: {pods: "10"}}
"#;

/// A namespace of the team, with so many pods that count.
fn namespace(daemon: &Daemon, name: &str, pods: u32) {
    let namespace = serde_json::json!({"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": name, "uid": format!("ns-{name}"), "resourceVersion": "1", "labels": {"team": "red"}}}});
    let usage = serde_json::json!({"type": "ADDED", "namespace": name, "resource": "widgets", "name": "w",
        "uid": format!("w-{name}"), "usage": {"pods": pods.to_string()}});
    daemon.done("push -", &format!("{namespace}\n{usage}\n"));
}

#[test]
fn a_group_is_applied_shown_and_deleted() {
    let daemon = Daemon::start();
    assert_eq!(daemon.run("diff -f -", GROUP).code, 12);
    let dry = daemon.done("apply --dry-run -f -", GROUP);
    assert_eq!(dry, "clusterresourcequota/red created (dry run)\n");
    assert_eq!(daemon.run("get group red", "").code, 11);
    let new = daemon.done("apply -f -", GROUP);
    assert_eq!(new, "clusterresourcequota/red created\n");
    let same = daemon.done("apply -f -", GROUP);
    assert_eq!(same, "clusterresourcequota/red unchanged\n");
    assert_eq!(daemon.run("diff -f -", GROUP).code, 0);
    let more = GROUP.replace("\"10\"", "\"12\"");
    let differs = daemon.run("diff -f -", &more);
    assert_eq!(differs.code, 12);
    assert_eq!(
        differs.out,
        "clusterresourcequota/red:\n-  spec.quota.hard[pods]: 10\n+  spec.quota.hard[pods]: 12\n"
    );

    namespace(&daemon, "web", 3);
    namespace(&daemon, "api", 2);
    let less = GROUP.replace("\"10\"", "\"4\"").replace("\"8\"", "\"1\"");
    let each = less
        .replace("annotations: {", "annotations: {quota-ledger.io/each: 'true', ")
        .replace("\"4\"", "\"2\"");
    for (manifest, warning) in [
        (&less, "the new limit of pods, 4, is below what is taken: 5 used + 0 reserved"),
        (&each, "the new limit of pods, 2, is below what is taken: 3 used + 0 reserved"),
        (&GROUP.to_owned(), ""),
    ] {
        for command in ["diff", "apply --dry-run", "apply"] {
            let run = daemon.run(&format!("{command} -f -"), manifest);
            assert!(run.err.contains(warning), "{command}: {run:?}");
            assert!(!warning.is_empty() || run.err.is_empty(), "{command}: {run:?}");
        }
    }
    let table = daemon.done("get groups", "");
    assert!(table.contains("NAMESPACES") && table.contains("pods: 5/10"), "{table}");
    assert_eq!(daemon.done("get group -o name", ""), "clusterresourcequota/red\n");
    let json: Value = serde_json::from_str(&daemon.done("get group red -o json", "")).unwrap();
    assert_eq!(json["status"]["namespaces"][0]["namespace"], "api");
    let described = daemon.done("describe group red", "");
    for line in ["Namespaces:   team=red", "Enforcement:  enforce", "web         pods: 3"] {
        assert!(described.contains(line), "{line}: {described}");
    }

    let bad = GROUP.replace("\"10\"", "\"-1\"");
    let refused = daemon.run("apply -f -", &bad);
    assert_eq!(refused.code, 1);
    assert!(refused.err.contains("spec.quota.hard[pods]"), "{}", refused.err);
    let gone = daemon.done("delete group red", "");
    assert_eq!(gone, "clusterresourcequota/red deleted\n");
    assert_eq!(daemon.run("delete group red", "").code, 11);
    daemon.done("apply -f -", GROUP);
    daemon.done("delete -f -", GROUP);
    assert_eq!(daemon.run("describe group red", "").code, 11);
}

#[test]
fn what_a_limit_that_is_only_noted_would_have_denied_is_counted() {
    let daemon = Daemon::start();
    let annotation = "quota-ledger.io/soft: '{\"pods\": \"8\"}'";
    let noted = GROUP.replace(annotation, "quota-ledger.io/enforcement: audit");
    daemon.done("apply -f -", &noted);
    namespace(&daemon, "web", 10);
    let counted = || {
        let text = daemon.metrics();
        let name = "quota_ledger_audited_limits_passed_total ";
        text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
    };
    assert_eq!(counted().as_deref(), Some("0"));
    let body = r#"{"reservedBy":{"uid":"u1"},"reserved":{"pods":"1"}}"#;
    daemon.done("check -n web -f -", body);
    assert_eq!(counted().as_deref(), Some("0"), "nothing was granted");
    for _ in 0..2 {
        daemon.done("reserve -n web --uid u1 --request pods=1", "");
        assert_eq!(counted().as_deref(), Some("1"), "once for each grant");
    }
    daemon.done("reserve -n other --uid u2 --request services=1", "");
    assert_eq!(counted().as_deref(), Some("1"));
}
