//! `quotactl bench` with the real daemon.

use std::{
    io::{BufRead as _, BufReader},
    process::{Child, ChildStderr, Stdio},
    sync::mpsc::{Receiver, Sender, channel},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{command, daemon::Daemon, problem, run, stub::Stub};

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

#[test]
fn a_quota_that_cannot_be_deleted_takes_no_result_away() {
    let stub = Stub::new(|_, request| match request.line.split(' ').next() {
        Some("DELETE") => (500, Vec::new(), problem("Internal", "it stays").to_string()),
        Some("PUT") => (200, Vec::new(), json!({}).to_string()),
        _ => (201, Vec::new(), json!({}).to_string()),
    });
    let run = run(&stub.url, &format!("bench {SHORT} -c 1"));
    assert_eq!(run.code, 1, "{run:?}");
    let report: Value = serde_json::from_str(&run.out).unwrap();
    assert_eq!(report["connections"], 1);
    let left = "quota quotactl-bench-0/quotactl-bench: it stays";
    assert!(run.err.contains(left), "{run:?}");
}

/// A measurement of many namespaces at a server that waits while the first quota is set.
struct Setting {
    child: Child,
    said: BufReader<ChildStderr>,
    stub: Stub,
    go_on: Sender<()>,
}

impl Setting {
    fn start() -> Self {
        let (begun, is_set): (Sender<()>, Receiver<()>) = channel();
        let (go_on, may_go_on): (Sender<()>, Receiver<()>) = channel();
        let stub = Stub::new(move |number, _| {
            if number == 0 {
                begun.send(()).unwrap();
                // Behind a test that has ended nobody waits.
                let _ = may_go_on.recv();
            }
            (200, Vec::new(), json!({}).to_string())
        });
        let mut child = command("bench --namespaces 500 -d 1s")
            .args(["--server", &stub.url])
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        is_set.recv().unwrap();
        let said = BufReader::new(child.stderr.take().unwrap());
        Self {
            child,
            said,
            stub,
            go_on,
        }
    }

    fn interrupt(&self) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line
    }
}

impl Drop for Setting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn an_interrupt_ends_the_setting_of_quotas() {
    let mut setting = Setting::start();
    setting.interrupt();
    assert_eq!(setting.line(), "interrupted: tidying up\n");
    setting.go_on.send(()).unwrap();
    assert_eq!(setting.line(), "error: interrupted\n");
    assert_eq!(setting.child.wait().unwrap().code(), Some(1));
    let asked = setting.stub.asked();
    let count = |method: &str| {
        let of_method = asked.iter().filter(|it| it.line.starts_with(method));
        of_method.count()
    };
    // Those that were under way are set, and taken away again.
    let set = count("PUT");
    assert!((1..=16).contains(&set), "{set} were set");
    assert_eq!(count("DELETE"), set);
}

#[test]
fn a_second_interrupt_ends_the_tidying_up() {
    let mut setting = Setting::start();
    setting.interrupt();
    assert_eq!(setting.line(), "interrupted: tidying up\n");
    setting.interrupt();
    assert_eq!(setting.child.wait().unwrap().code(), Some(130));
}
