//! What commands show: namespaces, what is full, the past, a group as a whole.

use serde_json::{Value, json};

use super::daemon::Daemon;

const COMPANY: &str = r#"
apiVersion: quota.openshift.io/v1
kind: ClusterResourceQuota
metadata: {name: company}
spec:
  selector: {labels: {matchLabels: {company: x}}}
  quota: {hard: {pods: "10", requests.memory: 32212254720}}
"#;

fn quota(namespace: &str, pods: u32) -> String {
    format!(
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: q, namespace: {namespace}}}\n\
         spec: {{hard: {{pods: \"{pods}\"}}}}\n---\n"
    )
}

/// Three namespaces of a group, with 1 of 2, 3 of 4 and 0 of 8 pods.
fn company() -> Daemon {
    let daemon = Daemon::start();
    let mut events = String::new();
    for (name, team) in [("api", "red"), ("web", "red"), ("data", "blue")] {
        let metadata = json!({"name": name, "uid": format!("ns-{name}"), "resourceVersion": "1",
                              "labels": {"company": "x", "team": team}});
        let namespace = json!({"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}});
        events.push_str(&format!("{namespace}\n"));
    }
    daemon.done("push -", &events);
    daemon.done("apply -f -", COMPANY);
    daemon.done("apply -f -", &(quota("api", 2) + &quota("web", 4) + &quota("data", 8)));
    let used = |namespace: &str, name: &str, pods: u32| {
        let event = json!({"type": "ADDED", "namespace": namespace, "resource": "widgets", "name": name, "uid": name,
                           "usage": {"pods": pods.to_string()}});
        daemon.done("push -", &format!("{event}\n"));
    };
    used("api", "a1", 1);
    used("web", "w1", 2);
    daemon.done("reserve --uid held --kind Pod --name w2 --request pods=1 -n web", "");
    daemon
}

fn names(rows: &[Vec<String>]) -> Vec<&str> {
    rows[1..].iter().map(|row| &*row[0]).collect()
}

#[test]
fn namespaces_are_listed_and_chosen_by_label() {
    let daemon = company();
    let rows = daemon.rows("get namespaces");
    assert_eq!(names(&rows), ["api", "data", "web"]);
    assert_eq!(rows[3][..5], ["web", "1", "1", "75%", "q/pods"]);
    let red = daemon.rows("get ns -l team=red -o wide");
    assert_eq!(names(&red), ["api", "web"]);
    assert!(
        red[1].contains(&"company=x,kubernetes.io/metadata.name=api,team=red".to_owned()),
        "{red:?}"
    );
    assert_eq!(names(&daemon.rows("top -l team=red")), ["web", "api"]);
    let usage = daemon.rows("get usage -A -l team=blue");
    assert!(usage[1..].iter().all(|row| row[0] == "data"), "{usage:?}");
    assert_eq!(daemon.run("get usage -l team=blue", "").code, 2);
    let described = daemon.done("describe namespace web", "");
    for part in
        ["Labels:     company=x, kubernetes.io/metadata.name=web, team=red", "Groups:     company"]
    {
        assert!(described.contains(part), "{described}");
    }
}

#[test]
fn top_says_how_many_there_are_sorts_and_has_a_minimum() {
    let daemon = company();
    let two = daemon.run("top --limit 2", "");
    assert_eq!(two.out.lines().count(), 3, "{two:?}");
    assert!(two.err.contains("2 of 3 namespaces"), "{two:?}");
    assert_eq!(names(&daemon.rows("top --sort name")), ["api", "data", "web"]);
    assert_eq!(names(&daemon.rows("top --sort pending --limit 1")), ["web"]);
    assert_eq!(names(&daemon.rows("top --min 75")), ["web"]);
    assert_eq!(daemon.run("top --min full", "").code, 2);
    let all = daemon.rows("get quota -A");
    let web = all.iter().find(|row| row[0] == "web").unwrap();
    assert_eq!(web[..7], ["web", "q", "pods", "75%", "2", "1", "4"]);
}

#[test]
fn tables_are_also_comma_separated_with_exact_amounts() {
    let daemon = company();
    let csv = daemon.done("get usage -n web -o csv", "");
    let mut lines = csv.split("\r\n");
    let titles = "QUOTA,RESOURCE,HARD,USED,RESERVED,AVAILABLE,USE%";
    assert!(lines.next().unwrap().starts_with(titles), "{csv}");
    assert!(csv.contains("q,pods,4,2,1,1,75%"), "{csv}");
    assert!(csv.contains("group/company,requests.memory,32212254720,"), "{csv}");
    // People read it in one suffix.
    let shown = daemon.done("get usage -n web", "");
    assert!(shown.contains("30Gi") && !shown.contains("32212254720"), "{shown}");
    let wide = daemon.done("describe group company", "");
    assert!(wide.contains("30Gi") && !wide.contains("32212254720"), "{wide}");
}

#[test]
fn a_time_is_written_out_or_a_duration_before_now() {
    let daemon = company();
    let now = daemon.done("get usage -n web --at 0s -o json", "");
    let now: Value = serde_json::from_str(&now).unwrap();
    assert_eq!(now["quotas"][0]["resources"][0]["used"], "2");
    for command in
        ["get usage -n web", "top", "get groups", "get namespaces", "explain pods -n web"]
    {
        // Before the ledger began there was nothing.
        let run = daemon.run(&format!("{command} --at 2020-01-01T00:00:00Z"), "");
        let is_sum = run.out.starts_with("pods in web: 0 used");
        assert!(is_sum || !run.out.contains("web"), "{command}: {run:?}");
        assert_eq!(daemon.run(&format!("{command} --at yesterday"), "").code, 2);
    }
    let groups = daemon.rows("get groups --at 0s");
    assert_eq!(names(&groups), ["company"]);
    let all = daemon.rows("get entries").len();
    assert_eq!(daemon.rows("get entries --from 1h").len(), all);
    assert_eq!(daemon.done("get entries --from 0s", ""), "");
    assert_eq!(daemon.done("get entries --to 1h", ""), "");
    let third = daemon.done("get entries --from 3 --limit 1 -o json", "");
    let third: Value = serde_json::from_str(&third).unwrap();
    let time = third["items"][0]["time"].as_str().unwrap();
    let from = daemon.done(&format!("get entries --from {time} -o json"), "");
    let from: Value = serde_json::from_str(&from).unwrap();
    assert!(from["items"][0]["sequence"].as_u64().unwrap() <= 3, "{from}");
    assert_eq!(daemon.run("reserve --request pods=9 -n web", "").code, 10);
    assert_eq!(daemon.rows("denials --since 1h").len(), 2);
    assert_eq!(daemon.rows("get denials --since 1h").len(), 2);
    assert_eq!(daemon.done("denials --to 1h", ""), "");
}

#[test]
fn a_group_is_explained_over_all_its_namespaces() {
    let daemon = company();
    let out = daemon.done("explain pods --group company", "");
    let first = out.lines().next().unwrap();
    assert_eq!(first, "pods of group company: 3 used + 1 reserved of 10 (40%)");
    let rows: Vec<Vec<&str>> =
        out.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..5], ["web", "object", "widgets", "w1", "2"]);
    assert_eq!(rows.len(), 3, "{out}");
    assert!(rows.iter().any(|row| row[..2] == ["api", "object"]), "{out}");
    assert!(rows.iter().any(|row| row[..2] == ["web", "reservation"]), "{out}");
    let some = daemon.done("explain pods --group company --limit 1 -o json", "");
    let some: Value = serde_json::from_str(&some).unwrap();
    assert_eq!(some["items"].as_array().unwrap().len(), 1);
    assert_eq!(daemon.run("explain services --group company", "").code, 11);
    assert_eq!(daemon.run("explain pods --group none", "").code, 11);
}

#[test]
fn an_unknown_resource_is_unknown_and_a_uid_is_made_up() {
    let daemon = company();
    let unknown = daemon.run("explain pdos -n web", "");
    assert_eq!(unknown.code, 11, "{unknown:?}");
    assert!(
        unknown.err.contains("unknown resource pdos") && unknown.err.contains("did you mean pods?"),
        "{unknown:?}"
    );
    assert_eq!(daemon.run("explain pods -n data", "").code, 0);

    let granted = daemon.done("reserve --request pods=1 -n data", "");
    let uid = granted.strip_prefix("reservation/").unwrap();
    let uid = uid.split_whitespace().next().unwrap();
    assert_eq!(uid.len(), 36, "{granted}");
    daemon.done(&format!("release {uid} -n data"), "");
    let pod =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: data}\nspec: {containers: []}\n";
    let [a, b] = [(); 2].map(|()| daemon.done("reserve -f -", pod));
    assert_ne!(a, b);
}
