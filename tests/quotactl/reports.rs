//! Reports and histories, with the real daemon.

use serde_json::{Value, json};

use super::{
    command,
    daemon::{Daemon, QUOTA, pod},
};

fn event(kind: &str, object: &Value) -> String {
    json!({"type": kind, "object": object}).to_string()
}

/// A namespace of a team.
fn namespace(name: &str, team: &str) -> String {
    let object = json!({"apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "uid": format!("ns-{name}"), "resourceVersion": "1", "labels": {"team": team}}});
    event("ADDED", &object)
}

/// A daemon with a quota, a pod that lived for a moment, one that lives, a reservation, and a denial.
fn consumed() -> Daemon {
    let daemon = Daemon::start();
    daemon.done("push -", &namespace("team-a", "blue"));
    daemon.done("apply -f -", QUOTA);
    let brief = pod("brief", "u0", "2");
    daemon.done("push -", &event("ADDED", &brief));
    daemon.done("push -", &event("DELETED", &brief));
    daemon.done("push -", &event("ADDED", &pod("web", "u1", "1500m")));
    let reserved = pod("api", "u2", "250m").to_string();
    daemon.done("reserve -f - --ttl 5m", &reserved);
    let denied = daemon.run("reserve -f -", &pod("big", "u3", "1").to_string());
    assert_eq!(denied.code, 10, "{denied:?}");
    daemon
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn number(value: &Value) -> f64 {
    value.as_str().unwrap().parse().unwrap()
}

#[test]
fn what_lived_for_a_moment_is_in_the_history() {
    let daemon = consumed();
    let history = "history requests.cpu -n team-a --since 1h";
    let rows = daemon.rows(history);
    let titles = ["MIN", "MAX", "MEAN", "P95", "NOW", "HARD", "USE%"];
    assert_eq!(rows[0][3..], titles);
    // The mean of the moments since the quota was set; all else is exact.
    let row = &rows[1];
    assert_eq!(row[..2], ["compute", "requests.cpu"], "{rows:?}");
    assert_eq!(row[row.len() - 3..], ["1.75", "2", "87%"], "{rows:?}");
    assert!(row.contains(&"2".to_owned()), "{rows:?}");
    let told = json_of(&daemon.done(&format!("{history} --step 10m -o json"), ""));
    let points = told["points"].as_array().unwrap();
    assert_eq!(points.len(), 6);
    let last = &points[5]["quotas"][0]["resources"][1];
    assert_eq!(last["resource"], "requests.cpu");
    assert_eq!(
        (&last["used"], &last["reserved"], &last["hard"]),
        (&json!("1500m"), &json!("250m"), &json!("2"))
    );
    assert_eq!(last["min"]["used"], "0");
    assert_eq!(last["max"]["used"], "2");
    assert_eq!(last["max"]["taken"], "2");
    assert_eq!(last["last"]["taken"], "1750m");
    let summary = told["summary"].as_array().unwrap();
    let of_quota = summary.iter().find(|it| it["quota"] == "compute").unwrap();
    assert_eq!(of_quota["max"]["hard"], "2");
    let csv = daemon.done(&format!("{history} -o csv"), "");
    assert!(
        csv.starts_with("QUOTA,RESOURCE,TAKEN,MIN,MAX,")
            && csv.contains("\r\ncompute,requests.cpu,"),
        "{csv}"
    );
}

#[test]
fn a_report_says_what_was_consumed_and_the_directory_says_the_same() {
    let daemon = consumed();
    let first = &json_of(&daemon.done("get entries --from 1 --limit 1 -o json", ""))["items"][0];
    let from = first["time"].as_str().unwrap().to_owned();
    let to = json_of(&daemon.done("status -o json", ""))["asOf"]["time"].clone();
    let to = to.as_str().unwrap().to_owned();
    // The last entry is behind the period.
    let period = format!("--from {from} --to {to}");
    let report = |more: &str| json_of(&daemon.done(&format!("report {period} -o json {more}"), ""));
    let told = report("");
    assert_eq!(told["firstSequence"], 1);
    assert_eq!(told["firstHash"].as_str().unwrap().len(), 64);
    let row = &told["rows"][0];
    assert_eq!(row["key"], json!({"namespace": "team-a"}));
    let cpu = &row["resources"]["requests.cpu"];
    assert_eq!((&cpu["peak"], &cpu["hard"]), (&json!("2"), &json!("2")));
    assert!(number(&cpu["consumed"]) > 0.0 && number(&cpu["limitHours"]) > 0.0, "{cpu}");
    assert!(cpu["timeFull"].as_str().unwrap().ends_with('s'), "{cpu}");
    assert_eq!(told["total"]["requests.cpu"], *cpu);
    let rows = [
        ("--by kind", json!({"kind": "pods"})),
        ("--by workload", json!({"kind": "pods"})),
        ("--by label:team", json!({"label:team": "blue"})),
        ("-l team=blue", json!({"namespace": "team-a"})),
    ];
    for (more, key) in &rows {
        let told = report(more);
        assert_eq!(told["rows"][0]["key"], *key, "{told}");
        let found = &told["rows"][0]["resources"]["requests.cpu"];
        assert_eq!(found["consumed"], cpu["consumed"], "{more}: {told}");
    }
    assert_eq!(report("-l team=red")["rows"], json!([]));
    let only = report("--resource pods");
    assert_eq!(only["total"].as_object().unwrap().len(), 1);
    let csv = daemon.done(&format!("report {period} -o csv"), "");
    let head = "namespace,resource,consumed,reservedConsumed,mean,peak,peakTime,peakSequence,p95,hard,limitHours,\
                timeFullSeconds,grants,denials,from,to,firstSequence,lastSequence,firstHash,lastHash\r\n";
    assert!(csv.starts_with(head) && csv.contains("\r\nteam-a,requests.cpu,"), "{csv}");
    let now = daemon.done("report --last 1h", "");
    let row = now.lines().find(|line| line.contains("requests.cpu")).unwrap();
    assert!(row.starts_with("team-a ") && row.ends_with(" 1         1"), "{now}");
    assert!(now.lines().any(|line| line.starts_with("TOTAL ")), "{now}");

    let parts: Vec<Value> = ["namespace", "kind", "workload", "label:team"]
        .iter()
        .map(|by| report(&format!("--by {by}")))
        .collect();
    let home = daemon.stop();
    let data = home.path().join("data");
    for (by, mut expected) in ["namespace", "kind", "workload", "label:team"].into_iter().zip(parts)
    {
        let line =
            format!("ledger report --data-dir {} {period} --by {by} -o json", data.display());
        let output = command(&line).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap();
        // Denials are no entries.
        expected.as_object_mut().unwrap().remove("denialsSince");
        let rows = expected["rows"].as_array_mut().unwrap().iter_mut();
        for row in rows {
            for figures in row["resources"].as_object_mut().unwrap().values_mut() {
                figures.as_object_mut().unwrap().remove("denials");
            }
        }
        for figures in expected["total"].as_object_mut().unwrap().values_mut() {
            figures.as_object_mut().unwrap().remove("denials");
        }
        assert_eq!(found, expected, "{by}");
    }
}

#[test]
fn what_cannot_be_reported_is_refused() {
    let daemon = consumed();
    for (arguments, code, said) in [
        ("report", 2, "--last, --month, or --from"),
        ("report --last 1h --by color", 2, "not namespace, group"),
        ("report --month 2026-13", 2, "not a month"),
        ("report --from 1h --to 2h", 2, "not before its end"),
        ("report --last 1h -n nowhere", 11, "namespace nowhere not found"),
        ("report --last 1h --group nobody", 11, "group nobody not found"),
        ("report --last 1h -l team===", 1, "unable to parse requirement"),
        ("history --group nobody", 11, "group nobody not found"),
    ] {
        let run = daemon.run(arguments, "");
        assert!(run.code == code && run.err.contains(said), "{arguments}: {run:?}");
    }
}

#[test]
fn a_group_has_a_history_and_a_report() {
    let daemon = consumed();
    daemon.done(
        "apply -f -",
        "
apiVersion: quota.openshift.io/v1
kind: ClusterResourceQuota
metadata: {name: blue}
spec:
  selector: {labels: {matchLabels: {team: blue}}}
  quota: {hard: {requests.cpu: 4}}
",
    );
    let told = json_of(&daemon.done("history --group blue --since 1h -o json", ""));
    let summary = &told["summary"][0];
    assert_eq!(summary["quota"], "blue");
    assert_eq!(
        (&summary["last"]["used"], &summary["last"]["hard"]),
        (&json!("1500m"), &json!("4"))
    );
    let rows = daemon.rows("history --group blue");
    assert_eq!(rows[1][..2], ["blue", "requests.cpu"]);
    let told = json_of(&daemon.done("report --last 1h --by group -o json", ""));
    assert_eq!(told["rows"][0]["key"], json!({"group": "blue"}));
    assert_eq!(told["rows"][0]["resources"]["requests.cpu"]["peak"], "1750m");
    let told = json_of(&daemon.done("report --last 1h --group blue -o json", ""));
    assert_eq!(told["rows"][0]["key"], json!({"namespace": "team-a"}));
}
