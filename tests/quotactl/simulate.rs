//! `simulate`, with the real daemon and without one.

use std::fs;

use serde_json::Value;

use super::{daemon::Daemon, run};

const QUOTA: &str = "\
apiVersion: v1
kind: ResourceQuota
metadata:
  name: compute
  namespace: team-a
spec:
  hard:
    pods: 6
";

/// Three reservations of two pods, and one that is denied.
fn history(daemon: &Daemon) {
    daemon.done("apply -f -", QUOTA);
    for number in 1..=3 {
        daemon.done(
            &format!(
                "reserve --uid u{number} --kind Pod --name web-{number} --request pods=2 -n team-a"
            ),
            "",
        );
    }
    let denied = daemon.run("reserve --uid u4 --request pods=1 -n team-a", "");
    assert_eq!(denied.code, 10, "{denied:?}");
}

#[test]
fn a_lower_limit_fails_a_check_of_a_change() {
    let daemon = Daemon::start();
    history(&daemon);
    let lower = QUOTA.replace("pods: 6", "pods: 5");
    let simulate = "simulate -f - --since 1h";
    let kept = daemon.run(&format!("{simulate} --fail-on-refusal"), QUOTA);
    assert_eq!(kept.code, 0, "{kept:?}");
    assert!(kept.out.contains("of 3 grants, 3 would have been granted, 0 refused"), "{}", kept.out);
    let shown = daemon.done(simulate, &lower);
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    let limit = &rows[1];
    assert_eq!(limit[..7], ["team-a", "compute", "pods", "5", "6", "3", "1"], "{shown}");
    assert!(shown.contains("Pod/web-3"), "{shown}");
    let refused = daemon.run(&format!("{simulate} --fail-on-refusal"), &lower);
    assert_eq!((refused.code, refused.out.lines().count()), (10, shown.lines().count()));
    assert!(refused.err.contains("not simulated: retries"), "{}", refused.err);
    assert_eq!(daemon.run("get quota compute -n team-a -o json", "").code, 0);

    // So does a change that is only looked at.
    let differs = daemon.run("diff -f - --since 1h", &lower);
    assert_eq!(differs.code, 12, "{differs:?}");
    assert!(
        differs.out.contains("+  spec.hard[pods]: 5")
            && differs.out.contains("of 3 grants, 2 would have been granted, 1 refused"),
        "{}",
        differs.out
    );
    let unknown = daemon.run("simulate --delete quota/nobody -n team-a --since 1h", "");
    assert_eq!(unknown.code, 11, "{unknown:?}");

    let more: Value = serde_json::from_str(
        &daemon.done(&format!("{simulate} -o json"), &QUOTA.replace("pods: 6", "pods: 7")),
    )
    .unwrap();
    assert_eq!((&more["refused"], &more["denialsGranted"]), (&0.into(), &1.into()), "{more}");
    let less: Value =
        serde_json::from_str(&daemon.done(&format!("{simulate} -o json"), QUOTA)).unwrap();
    assert_eq!(less["denialsGranted"], 0, "{less}");
    let deleted = daemon.done("simulate --delete quota/compute -n team-a --since 1h -o json", "");
    let deleted: Value = serde_json::from_str(&deleted).unwrap();
    assert_eq!(
        (&deleted["refused"], &deleted["denialsGranted"]),
        (&0.into(), &1.into()),
        "{deleted}"
    );

    let directory = daemon.stop();
    let data = directory.path().join("data");
    let data = if data.is_dir() { data } else { directory.path().to_path_buf() };
    let file = directory.path().join("lower.yaml");
    fs::write(&file, &lower).unwrap();
    let offline = format!(
        "ledger simulate --data-dir {} -f {} --since 1h --fail-on-refusal",
        data.display(),
        file.display()
    );
    let offline = run("", &offline);
    assert_eq!(offline.code, 10, "{offline:?}");
    assert!(
        offline.out.contains("of 3 grants, 2 would have been granted, 1 refused"),
        "{}",
        offline.out
    );
    let unknown = format!(
        "ledger simulate --data-dir {} --delete quota/nobody -n team-a --since 1h",
        data.display()
    );
    assert_eq!(run("", &unknown).code, 11);
}

#[test]
fn what_is_wrong_with_limits_is_named_with_its_lines() {
    let daemon = Daemon::start();
    let wrong = format!(
        "{}---\n{}",
        QUOTA.replace("pods: 6", "pods: x"),
        QUOTA.replace("pods: 6", "pods: 1\n    requests.cpu: -1")
    );
    let run = daemon.run("simulate -f - --since 1h", &wrong);
    assert_eq!((run.code, run.out.as_str()), (1, ""), "{run:?}");
    assert!(run.err.contains("standard input:8: spec.hard[pods]: "), "{}", run.err);
    assert!(run.err.contains("standard input:18: spec.hard[requests.cpu]: "), "{}", run.err);
    // What the daemon finds is shown in the same way.
    let twice = format!("{QUOTA}---\n{QUOTA}");
    let run = daemon.run("simulate -f - --since 1h", &twice);
    assert_eq!(run.code, 1, "{run:?}");
    assert!(run.err.contains("standard input:13: metadata.name: "), "{}", run.err);
    assert_eq!(daemon.run("simulate", "").code, 2);
    assert_eq!(daemon.run("simulate --since 1h", "").code, 2);
    assert_eq!(daemon.run("simulate --delete pod/x --since 1h", "").code, 2);
}

/// Suggested limits are manifests that would have refused nothing.
#[test]
fn what_is_suggested_refuses_nothing() {
    let daemon = Daemon::start();
    history(&daemon);
    let event = serde_json::json!({"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {
        "name": "team-b", "uid": "ns-b", "resourceVersion": "1", "labels": {"team": "b"}}}});
    daemon.done("push -", &format!("{event}\n"));
    let other = QUOTA.replace("team-a", "team-b").replace("pods: 6", "requests.cpu: 40");
    let other = other.replace(
        "name: compute",
        "name: compute\n  annotations: {quota-ledger.io/soft: '{\"requests.cpu\": \"9\"}'}",
    );
    daemon.done("apply -f -", &other);
    for (uid, cpu) in [("b1", "1500m"), ("b2", "5")] {
        daemon.done(&format!("reserve --uid {uid} --request requests.cpu={cpu} -n team-b"), "");
    }
    daemon.done("release b1 -n team-b", "");
    let shown = daemon.done("suggest -A", "");
    let rows: Vec<Vec<&str>> =
        shown.lines().map(|line| line.split_whitespace().collect()).collect();
    // The limit was reached, and a request denied.
    assert_eq!(rows[1][..8], ["team-a", "compute", "pods", "6", "6", "6", "8", "+2"], "{shown}");
    assert_eq!(rows[1][9], "1", "{shown}");
    assert_eq!(
        rows[2][..8],
        ["team-b", "compute", "requests.cpu", "40", "6.5", "6.5", "9", "-31"],
        "{shown}"
    );
    let labelled = daemon.done("suggest -l team=b -o json", "");
    let labelled: Value = serde_json::from_str(&labelled).unwrap();
    assert_eq!(labelled["items"].as_array().unwrap().len(), 1, "{labelled}");
    assert_eq!(daemon.rows("suggest -n team-a").len(), 2);

    for headroom in ["0%", "20%"] {
        let manifests = daemon.done(&format!("suggest -A --headroom {headroom} -o yaml"), "");
        assert!(!manifests.contains("resourceVersion"), "{manifests}");
        let simulated = daemon.run("simulate -f - --since 30d --fail-on-refusal", &manifests);
        assert_eq!(simulated.code, 0, "{simulated:?}");
        assert!(
            simulated.out.contains("of 5 grants, 5 would have been granted, 0 refused"),
            "{}",
            simulated.out
        );
        daemon.done("apply --dry-run -f -", &manifests);
    }
    let suggested = daemon.done("suggest -A -o yaml --percentile 90", "");
    for wrong in ["suggest --percentile 101", "suggest --headroom x", "suggest --since yesterday"] {
        assert_eq!(daemon.run(wrong, "").code, 2, "{wrong}");
    }
    let directory = daemon.stop();
    let data = directory.path().join("data");
    let offline = |more: &str| {
        let line = format!("ledger suggest --data-dir {} {more}", data.display());
        let run = run("", &line);
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    };
    assert_eq!(offline("-n team-a").lines().count(), 2);
    // Denials are no entries: without them a limit that was reached rises nevertheless.
    assert_eq!(offline("-o yaml --percentile 90"), suggested);
}
