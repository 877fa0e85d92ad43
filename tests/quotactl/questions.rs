//! Commands that explain, with the real daemon.

use serde_json::{Value, json};

use super::{
    daemon::{Daemon, QUOTA, pod},
    run,
    stub::Stub,
};

/// A daemon with a quota of two processors, of which one and a half are reserved, and a denial.
fn crowded() -> Daemon {
    let daemon = Daemon::start();
    daemon.done("apply -f - --reason INC-7", QUOTA);
    let web = pod("web", "u1", "1500m").to_string();
    daemon.done("reserve -f - --ttl 5m", &web);
    let denied = daemon.run("reserve -f -", &pod("api", "u2", "1").to_string());
    assert_eq!(denied.code, 10, "{denied:?}");
    daemon
}

#[test]
fn manifests_are_read_as_kubectl_reads_them() {
    let daemon = Daemon::start();
    let manifest = "\
apiVersion: v1
kind: ResourceQuotaList
items:
- metadata: {name: a, namespace: team-a}
  spec: {hard: {pods: 010, requests.cpu: 0777, limits.cpu: }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings}
";
    let run = daemon.run("apply -f -", manifest);
    assert_eq!((run.code, &*run.out), (1, "resourcequota/a created\n"), "{run:?}");
    assert!(run.err.contains("left out ConfigMap settings of \"v1\""), "{run:?}");
    let quota: Value =
        serde_json::from_str(&daemon.done("get quota a -n team-a -o json", "")).unwrap();
    assert_eq!(quota["spec"]["hard"], json!({"pods": "8", "requests.cpu": "511"}));
    let same = daemon.run("diff -f -", manifest);
    assert_eq!((same.code, &*same.out), (1, ""), "{same:?}");
    let json = r#"{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a", "namespace": "team-a"},
        "spec": {"hard": {"pods": 8, "requests.cpu": 511, "limits.cpu": null}}}"#;
    assert_eq!(daemon.done("apply -f -", json), "resourcequota/a unchanged\n");

    let pods = |cpu: &str| {
        format!(
            "apiVersion: v1\nkind: PodList\nitems:\n- metadata: {{name: p, namespace: team-a}}\n  \
         spec: {{containers: [{{name: c, resources: {{requests: {{cpu: {cpu}}}, limits: {{cpu: }}}}}}]}}\n"
        )
    };
    assert_eq!(daemon.run("check -f -", &pods("0777")).code, 0);
    let denied = daemon.run("check -f -", &pods("\"0777\""));
    assert_eq!(denied.code, 10, "{denied:?}");

    let twice = daemon.run("apply -f -", "kind: A\nkind: B\n");
    assert_eq!(
        twice.err,
        "error: standard input: cannot read the YAML: the key \"kind\" is there twice at line 2 column 1\n"
    );
    let gone = daemon.run("delete -f -", manifest);
    assert_eq!((gone.code, &*gone.out), (1, "resourcequota/a deleted\n"), "{gone:?}");
}

#[test]
fn limits_below_what_is_taken_are_warned_of() {
    let daemon = crowded();
    let less = QUOTA.replace("requests.cpu: 2, pods: 2", "requests.cpu: 1, pods: 2, memory: 0");
    let warning = "warning: resourcequota/compute: the new limit of requests.cpu, 1, is below what is taken: 0 used + 1500m reserved\n";
    for (command, code) in [("diff", 12), ("apply --dry-run", 0), ("apply", 0)] {
        let run = daemon.run(&format!("{command} -f -"), &less);
        assert_eq!((run.code, &*run.err), (code, warning), "{command}: {run:?}");
    }
    let again = daemon.run("apply -f -", &less);
    assert_eq!(again.err, "", "only new limits: {again:?}");
    let other = QUOTA.replace("compute", "other").replace("pods: 2", "pods: 0");
    let warning = "warning: resourcequota/other: the new limit of pods, 0, is below what is taken: 0 used + 1 reserved\n";
    for command in ["diff", "apply --dry-run", "apply"] {
        let run = daemon.run(&format!("{command} -f -"), &other);
        assert_eq!(run.err, warning, "{command}: {run:?}");
    }
}

#[test]
fn what_would_change_is_shown_and_not_done() {
    let daemon = Daemon::start();
    let new = daemon.run("diff -f -", QUOTA);
    assert_eq!(new.code, 12, "{new:?}");
    assert!(new.out.contains("+  spec.hard[pods]: 2\n"), "{new:?}");
    let dry = "apply --dry-run -f -";
    assert_eq!(daemon.done(dry, QUOTA), "resourcequota/compute created (dry run)\n");
    assert_eq!(daemon.run("get quota compute -n team-a", "").code, 11);

    daemon.done("apply -f -", QUOTA);
    let same = daemon.run("diff -f -", QUOTA);
    assert_eq!((same.code, &*same.out), (0, ""), "{same:?}");
    assert_eq!(daemon.done(dry, QUOTA), "resourcequota/compute unchanged (dry run)\n");
    let more = QUOTA.replace("pods: 2", "pods: 3");
    assert_eq!(daemon.done(dry, &more), "resourcequota/compute configured (dry run)\n");
    let differs = daemon.run("diff -f -", &more);
    assert_eq!(
        (differs.code, &*differs.out),
        (12, "resourcequota/compute in team-a:\n-  spec.hard[pods]: 2\n+  spec.hard[pods]: 3\n")
    );
    let wrong = daemon.run(dry, &QUOTA.replace("pods: 2", "pods: -2"));
    assert!(wrong.code == 1 && wrong.err.contains("spec.hard[pods]"), "{wrong:?}");
    assert_eq!(daemon.done("apply -f -", QUOTA), "resourcequota/compute unchanged\n");
}

#[test]
fn a_number_is_explained_by_what_makes_it() {
    let daemon = crowded();
    let out = daemon.done("explain requests.cpu --quota compute -n team-a", "");
    let mut lines = out.lines();
    assert_eq!(
        lines.next(),
        Some("requests.cpu of quota compute in team-a: 0 used + 1.5 reserved of 2 (75%)")
    );
    let row: Vec<_> = lines.nth(1).unwrap().split_whitespace().collect();
    assert_eq!(row[..5], ["reservation", "pods", "web", "1.5", "2"]);
    let out = daemon.done("explain pods -n team-a -o name", "");
    assert_eq!(out, "reservation/u1\n");
    assert_eq!(daemon.run("explain pods --quota none -n team-a", "").code, 11);
    let before = daemon.done("explain pods --quota compute -n team-a --sequence 1", "");
    assert!(before.starts_with("pods of quota compute in team-a: 0 used + 0 reserved"), "{before}");
}

#[test]
fn a_reservation_that_has_ended_is_not_granted_again() {
    let daemon = crowded();
    daemon.done("release u1 -n team-a", "");
    let again = daemon.run("reserve -f - --ttl 5m", &pod("web", "u1", "1500m").to_string());
    assert_eq!((again.code, again.out.as_str()), (12, ""), "{again:?}");
    assert!(again.err.contains("has ended"), "{}", again.err);
    let out = daemon.done("explain requests.cpu --quota compute -n team-a", "");
    assert!(out.contains("0 used + 0 reserved"), "{out}");
}

#[test]
fn denials_say_what_was_short_and_where_to_look() {
    let daemon = crowded();
    let rows = daemon.rows("denials");
    assert_eq!(rows[1][1..4], ["team-a", "pods/api", "ExceedsHard"]);
    assert_eq!(rows[1][4..].join(" "), "compute/requests.cpu: 1 wanted, 0.5 left");
    assert_eq!(daemon.run("denials -n elsewhere", "").out, "");
    // What is used does not expire: the hint is another one.
    daemon.done("commit u1 -n team-a", "");
    let denied = daemon.run("reserve -f -", &pod("api", "u2", "1").to_string());
    let hint = "hint: quotactl explain requests.cpu --quota compute -n team-a shows what takes the room, \
                quotactl denials -n team-a what was denied lately";
    assert!(denied.err.contains(hint), "{}", denied.err);
    let never = daemon.run("reserve -f -", &pod("big", "u3", "5").to_string());
    assert!(never.err.contains("would not allow it even if"), "{}", never.err);
}

#[test]
fn the_fullest_come_first() {
    let daemon = crowded();
    daemon.done("apply -f -", &QUOTA.replace("team-a", "team-b"));
    let rows = daemon.rows("top");
    assert_eq!(rows[1][..4], ["team-a", "75%", "########..", "compute/requests.cpu"]);
    assert_eq!(rows[2][0], "team-b");
    let rows = daemon.rows("top -n team-a");
    assert_eq!(rows[1][1..3], ["requests.cpu", "75%"]);
    assert_eq!(rows[2][1..3], ["pods", "50%"]);
    assert_eq!(daemon.rows("top --limit 1").len(), 2);
}

#[test]
fn history_is_a_line_for_each_limit() {
    let daemon = crowded();
    let out = daemon.done("history requests.cpu -n team-a --since 10s --step 5s", "");
    let row = out.lines().nth(1).unwrap();
    assert!(row.starts_with("compute   requests.cpu"), "{out}");
    assert!(row.ends_with("1.5      2    75%"), "{out}");
    let points = daemon.done("history -n team-a --since 10s --step 5s -o json", "");
    let points: Value = serde_json::from_str(&points).unwrap();
    assert_eq!(points["points"].as_array().unwrap().len(), 2);
}

#[test]
fn the_daemon_is_described() {
    let daemon = crowded();
    let out = daemon.done("status", "");
    assert!(out.contains("Grants:   yes\n") && out.contains("Entries:  1 to 2"), "{out}");
    let version = daemon.done("version -o json", "");
    let version: Value = serde_json::from_str(&version).unwrap();
    assert!(version["client"].is_string() && version["server"].is_string());
    let nobody = super::run("http://127.0.0.1:1", "version");
    assert!(nobody.code == 1 && nobody.out.starts_with("Client: "), "{nobody:?}");
    assert_eq!(super::run("http://127.0.0.1:1", "version --client").code, 0);
}

#[test]
fn things_are_described_whole() {
    let daemon = crowded();
    let out = daemon.done("describe reservation u1 -n team-a", "");
    assert!(out.contains("State:      pending\n") && out.contains("requests.cpu"), "{out}");
    daemon.done("release u1 -n team-a", "");
    let out = daemon.done("describe reservation u1 -n team-a", "");
    assert!(out.contains("State:      released\n") && out.contains("Ended:"), "{out}");
    let out = daemon.done("describe namespace team-a", "");
    for part in ["Usage:", "Pending reservations:\n<none>", "compute/requests.cpu: 1 wanted"] {
        assert!(out.contains(part), "{part}: {out}");
    }
    assert_eq!(daemon.run("describe namespace nobody", "").code, 11);
}

#[test]
fn namespaces_without_a_quota_are_shown_too() {
    let daemon = Daemon::start();
    daemon.done("reserve --uid u1 --request pods=1 -n free", "");
    daemon.done("apply -f -", QUOTA);
    let usage = daemon.rows("get usage -A --no-headers");
    let names: Vec<_> = usage.iter().map(|row| &*row[0]).collect();
    assert_eq!(names, ["free", "team-a", "team-a"], "{usage:?}");
    let reservations = daemon.done("get reservations -A -o name", "");
    assert_eq!(reservations, "reservation/u1\n");
    let then = daemon.done("get usage -A --sequence 1 -o json", "");
    let then: Value = serde_json::from_str(&then).unwrap();
    assert_eq!(then["items"].as_array().unwrap().len(), 1, "{then}");
    assert_eq!(then["asOf"]["sequence"], 1);
}

#[test]
fn a_joined_list_lags_if_a_part_of_it_does() {
    let time = "2020-01-01T00:00:00Z";
    let stub = Stub::new(move |_, request| {
        let as_of = json!({"sequence": 4, "time": time});
        let names: Vec<_> = ["a", "b"]
            .map(|name| json!({"namespace": name, "quotas": 0, "reservations": 1}))
            .into();
        let path = request.line.split(['?', ' ']).nth(1).unwrap();
        let body = match path {
            "/v1/usage" => json!({"items": names, "asOf": as_of}),
            "/v1/namespaces/b/reservations" => {
                json!({"items": [], "asOf": as_of, "lagging": true})
            }
            _ => json!({"items": [], "asOf": as_of}),
        };
        (200, Vec::new(), body.to_string())
    });
    let listed = run(&stub.url, "get reservations -A -o json");
    assert_eq!(listed.code, 0, "{listed:?}");
    assert!(listed.err.contains("behind a source"), "{listed:?}");
    let json: Value = serde_json::from_str(&listed.out).unwrap();
    assert_eq!((&json["asOf"]["sequence"], &json["lagging"]), (&json!(4), &json!(true)));
}

#[test]
fn a_namespace_that_fills_up_between_two_pages_is_not_missed() {
    let usage = |name: &str| json!({"namespace": name, "quotas": 1, "reservations": 0});
    let stub = Stub::new(move |_, request| {
        let line = &request.line;
        let body = match line.split(['?', ' ']).nth(1).unwrap() {
            "/v1/usage" if !line.contains("continue=") => {
                json!({"items": [usage("a")], "continue": "further"})
            }
            "/v1/usage" => json!({"items": [usage("b")]}),
            "/v1/quotas" => json!({"items": [{"metadata": {"name": "q", "namespace": "c"}}]}),
            _ => json!({"items": []}),
        };
        (200, Vec::new(), body.to_string())
    });
    assert_eq!(run(&stub.url, "get reservations -A").code, 0);
    let asked = stub.asked();
    let lines = asked.iter().map(|request| &*request.line);
    let lists: Vec<_> = lines.filter(|it| it.contains("/reservations?")).collect();
    let of = |name| format!("GET /v1/namespaces/{name}/reservations?limit=500");
    assert_eq!(lists, ["a", "b", "c"].map(of));
}

#[test]
fn an_empty_ledger_is_said_to_be_empty() {
    let daemon = Daemon::start();
    let status = daemon.done("status", "");
    assert!(status.contains("\nEntries:  none yet\n"), "{status}");
    let top = daemon.run("top", "");
    assert_eq!((top.code, &*top.err), (0, "No resources found\n"), "{top:?}");
    let top = daemon.run("top -n a", "");
    assert_eq!(top.err, "No resources found in a namespace.\n", "{top:?}");
}

#[test]
fn the_last_entries_are_shown_in_order_with_their_reasons() {
    let daemon = crowded();
    let rows = daemon.rows("get entries --tail 2 -o wide");
    assert_eq!((&*rows[1][0], &*rows[2][0]), ("1", "2"));
    assert_eq!(rows[1].last().unwrap(), "INC-7");
    assert_eq!(daemon.rows("get entries --tail 1")[1][0], "2");
    assert_eq!(daemon.run("get entries --tail 1 --from 1", "").code, 2);
}
