//! `quotactl bench` with the real daemon.

use serde_json::Value;

use super::{daemon::Daemon, run};

/// Short: that it measures is tested here, not how fast it is. Long enough for requests that begin and end in it beside other tests.
const SHORT: &str = "--duration 1s --warmup 50ms -o json";

fn measured(daemon: &Daemon, arguments: &str) -> Value {
    let run = run(&daemon.url, &format!("bench {SHORT} {arguments}"));
    assert_eq!(run.code, 0, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert!(report["operations"].as_u64().unwrap() > 0, "{report}");
    assert_eq!(report["errors"], 0, "{report}");
    assert_eq!(report["denied"], 0, "{report}");
    let latency = |name: &str| report["latency"][name].as_f64().unwrap();
    assert!(latency("minUs") > 0.0);
    assert!(latency("p50Us") <= latency("p99Us") && latency("p99Us") <= latency("maxUs"));
    report
}

fn nothing_is_left(daemon: &Daemon) {
    for what in ["quotas", "reservations", "objects"] {
        let left = run(&daemon.url, &format!("get {what} -A"));
        assert_eq!((left.code, &*left.out), (0, ""), "{left:?}");
    }
}

#[test]
fn a_measurement_counts_what_was_done_and_leaves_nothing() {
    let daemon = Daemon::start();
    let report = measured(&daemon, "-c 4");
    assert_eq!(report["loop"], "closed");
    assert_eq!(report["connections"], 4);
    let kinds = &report["byKind"];
    assert!(kinds["reserve"]["operations"].as_u64().unwrap() > 0);
    assert!(kinds["release"]["operations"].as_u64().unwrap() > 0);
    nothing_is_left(&daemon);

    let report = measured(&daemon, "-c 3 --namespaces 5 --batch 10 -n team");
    let done = report["operations"].as_u64().unwrap();
    assert_eq!(report["statuses"]["200"].as_u64().unwrap() * 10, done);
    nothing_is_left(&daemon);

    measured(&daemon, "-c 2 --release 30 --namespaces 3");
    nothing_is_left(&daemon);

    let report = measured(&daemon, "-c 2 --events --batch 7");
    let events = report["byKind"]["events"]["operations"].as_u64().unwrap();
    assert!(events.is_multiple_of(7), "{events}");
    nothing_is_left(&daemon);

    let report = measured(&daemon, "-c 2 --rate 200");
    assert_eq!(report["loop"], "open");
    assert!(report["latency"]["requests"].as_u64().unwrap() <= 240);
    nothing_is_left(&daemon);
}

#[test]
fn quotas_can_be_kept_and_denials_are_counted() {
    let daemon = Daemon::start();
    measured(&daemon, "-c 1 --keep");
    let kept = run(&daemon.url, "get quotas -A -o name");
    assert!(kept.out.contains("quotactl-bench"), "{kept:?}");

    // More than the quota of the measurement allows for: each is denied, and nothing is done.
    let arguments = format!("bench {SHORT} -c 1 --resources pods=2P");
    let denied = run(&daemon.url, &arguments);
    assert_eq!(denied.code, 1, "{denied:?}");
    let report: Value = serde_json::from_str(&denied.out).unwrap();
    assert_eq!(report["operations"], 0);
    assert!(report["denied"].as_u64().unwrap() > 0);
    assert_eq!(report["statuses"]["403"], report["denied"]);
}

#[test]
fn a_measurement_that_cannot_be_is_refused() {
    let nowhere = "http://127.0.0.1:1";
    assert_eq!(run(nowhere, "bench -d 1s").code, 1);
    assert_eq!(run("https://127.0.0.1:1", "bench -d 1s").code, 2);
    let contradiction = "bench --batch 2 --release 50";
    assert_eq!(run(nowhere, contradiction).code, 2);
}
