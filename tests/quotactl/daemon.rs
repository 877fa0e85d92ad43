//! `quotactl` with the real daemon.

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdout, Stdio},
    time::Instant,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    Run, command, run_with,
    support::{PATIENCE, quotad::Quotad},
};

pub(super) const QUOTA: &str = "
apiVersion: v1
kind: ResourceQuota
metadata: {name: compute, namespace: team-a}
spec:
  hard: {requests.cpu: 2, pods: 2}
";

pub(super) fn pod(name: &str, uid: &str, cpu: &str) -> Value {
    let container = json!({"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "team-a", "uid": uid, "resourceVersion": "5"},
        "spec": {"containers": [container]}
    })
}

pub(super) struct Daemon {
    quotad: Quotad,
    pub(super) url: String,
    directory: TempDir,
}

impl Daemon {
    pub(super) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let quotad = Quotad::start(directory.path(), &[]);
        Self { url: quotad.api.clone(), quotad, directory }
    }

    /// The text of its metrics.
    pub(super) fn metrics(&self) -> String {
        self.quotad.ask_admin("/metrics").1
    }

    /// The answer to an API server that asks whether it may create an object.
    pub(super) fn admit(&self, namespace: &str, object: &Value) -> Value {
        let metadata = &object["metadata"];
        let review = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {
                "uid": "r-1", "operation": "CREATE", "namespace": namespace, "name": metadata["name"],
                "kind": {"group": "", "version": "v1", "kind": object["kind"]},
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "userInfo": {"username": "kubernetes-admin"}, "object": object,
            },
        });
        let (status, answer) = self.quotad.post("/admit", &review);
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub(super) fn run(&self, arguments: &str, input: &str) -> Run {
        run_with(&self.url, arguments, input)
    }

    /// Runs what has to succeed, and gives what it prints.
    pub(super) fn done(&self, arguments: &str, input: &str) -> String {
        let run = self.run(arguments, input);
        assert_eq!(run.code, 0, "{arguments}: {run:?}");
        run.out
    }

    pub(super) fn rows(&self, arguments: &str) -> Vec<Vec<String>> {
        let out = self.done(arguments, "");
        let words = |line: &str| line.split_whitespace().map(str::to_owned).collect();
        out.lines().map(words).collect()
    }

    /// The same ledger in another process.
    pub(super) fn restarted(self) -> Self {
        let directory = self.stop();
        let quotad = Quotad::start(directory.path(), &[]);
        Self { url: quotad.api.clone(), quotad, directory }
    }

    /// Stops it; the ledger stays.
    pub(super) fn stop(self) -> TempDir {
        assert_eq!(self.quotad.stop().code(), Some(0));
        self.directory
    }
}

#[test]
fn quotas_come_and_go() {
    let daemon = Daemon::start();
    assert_eq!(daemon.done("apply -f -", QUOTA), "resourcequota/compute created\n");
    assert_eq!(daemon.done("apply -f -", QUOTA), "resourcequota/compute unchanged\n");
    let more = QUOTA.replace("pods: 2", "pods: 3");
    assert_eq!(daemon.done("apply -f -", &more), "resourcequota/compute configured\n");
    let wrong = daemon.run("apply -f -", &QUOTA.replace("pods: 2", "pods: -2"));
    assert_eq!((wrong.code, wrong.out.as_str()), (1, ""));
    assert!(wrong.err.contains("spec.hard[pods]"), "{}", wrong.err);
    let rows = daemon.rows("get quota -A");
    assert_eq!(rows[1][..7], ["team-a", "compute", "pods", "0%", "0", "0", "3"]);
    let rows = daemon.rows("describe quota compute -n team-a");
    assert!(rows.contains(&["pods", "0", "0", "3"].map(str::to_owned).to_vec()), "{rows:?}");
    daemon.done("delete quota compute -n team-a", "");
    assert_eq!(daemon.run("get quota compute -n team-a", "").code, 11);
    assert_eq!(daemon.run("delete quota compute -n team-a", "").code, 11);
}

#[test]
fn a_reservation_lives_its_life() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let web = pod("web", "u1", "1500m").to_string();
    assert_eq!(daemon.run("check -f -", &web).code, 0);
    assert!(
        daemon.done("reserve -f - --ttl 60s", &web).starts_with("reservation/u1 granted, held")
    );
    assert!(
        daemon.done("reserve -f - --ttl 60s", &web).starts_with("reservation/u1 granted before")
    );
    let reused = daemon.run("reserve --uid u1 --request pods=1 -n team-a", "");
    assert_eq!(reused.code, 12, "{reused:?}");

    let large = pod("large", "u2", "1").to_string();
    let checked = daemon.run("check -f -", &large);
    assert_eq!((checked.code, checked.err.as_str()), (10, ""));
    assert!(
        checked.out.starts_with("Pod/large does not fit: exceeded quota: compute, "),
        "{}",
        checked.out
    );
    let denied = daemon.run("reserve -f -", &large);
    assert_eq!((denied.code, denied.out.as_str()), (10, ""));
    assert!(denied.err.starts_with("error: ") && denied.err.contains("exceeded quota: compute, "));
    assert!(denied.err.contains("\nQUOTA "), "{}", denied.err);

    let pending = daemon.rows("get reservations -n team-a");
    assert_eq!((&*pending[1][0], &*pending[1][1], &*pending[1][3]), ("u1", "Pod/web", "pending"));
    assert!(
        daemon.done("extend u1 --ttl 90s -n team-a", "").starts_with("reservation/u1 extended")
    );
    assert_eq!(daemon.done("commit u1 -n team-a", ""), "reservation/u1 committed\n");
    assert_eq!(daemon.run("extend u1 --ttl 90s -n team-a", "").code, 12);
    assert_eq!(daemon.run("release unknown -n team-a", "").code, 11);
    let state: Value =
        serde_json::from_str(&daemon.done("get reservations u1 -n team-a -o json", "")).unwrap();
    assert_eq!(state["state"], "committed");
    let small = "reserve --uid u3 --kind Pod --name s --request pods=1 -n team-a";
    daemon.done(small, "");
    assert_eq!(daemon.done("release u3 -n team-a", ""), "reservation/u3 released\n");
    assert_eq!(daemon.done("release u3 -n team-a", ""), "reservation/u3 released\n");
    let ended = daemon.run(small, "");
    assert_eq!((ended.code, ended.out.as_str()), (12, ""), "{ended:?}");
    assert!(ended.err.contains("released"), "{}", ended.err);
}

/// A publisher may keep `push -` running, and say something now and then.
#[test]
fn an_event_counts_while_more_may_come() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let mut child = command("push -")
        .args(["--server", &daemon.url])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for number in 1..=2 {
        let name = format!("p{number}");
        let event = json!({"type": "ADDED", "object": pod(&name, &name, "1")});
        writeln!(input, "{event}").unwrap();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let usage = daemon.rows("get usage -n team-a");
            let pods = usage.iter().find(|row| row[1] == "pods");
            if pods.is_some_and(|row| row[3] == number.to_string()) {
                break;
            }
            assert!(Instant::now() < deadline, "{name} does not count");
        }
    }
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, "2 accepted, 0 ignored, 0 rejected\n");
}

#[test]
fn events_are_pushed_and_explained() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let event = |uid: &str| json!({"type": "ADDED", "object": pod(uid, uid, "1500m")});
    let events = format!("{}\n{}\nnonsense\n{}\n", event("p1"), event("p2"), event("p1"));
    let pushed = daemon.run("push -", &events);
    assert_eq!(pushed.code, 1, "{pushed:?}");
    assert_eq!(pushed.out, "2 accepted, 1 ignored, 1 rejected\n");
    assert!(pushed.err.starts_with("line 3: "), "{}", pushed.err);

    let usage = daemon.rows("get usage -n team-a");
    let cpu = ["compute", "requests.cpu", "2", "3", "0", "-1", "150%"].map(str::to_owned).to_vec();
    assert!(usage.contains(&cpu), "{usage:?}");
    let everywhere = daemon.rows("get usage -A");
    assert_eq!(everywhere.len(), usage.len());
    assert_eq!(everywhere[1][0], "team-a");
    let objects = daemon.rows("get objects pods -n team-a");
    assert_eq!((&*objects[1][0], &*objects[1][1], &*objects[2][1]), ("pods", "p1", "p2"));
    assert_eq!(daemon.rows("get objects -A")[1][0], "team-a");
    let letters = daemon.rows("get dead-letters");
    assert_eq!((letters.len(), letters[1][2].as_str()), (2, "http"));
    let entries = daemon.rows("get entries --limit 2");
    assert_eq!((&*entries[1][2], &*entries[2][2]), ("QuotaSet", "ObjectObserved"));
    let named = daemon.done("get entries -n elsewhere -o name", "");
    assert_eq!(named, "");
}

#[test]
fn a_watch_tells_what_happens() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let mut watch = command("watch --from 1 -o json")
        .args(["--server", &daemon.url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    assert_eq!(next(&mut lines)["event"]["type"], "QuotaSet");
    daemon.done("delete quota compute -n team-a", "");
    assert_eq!(next(&mut lines)["event"]["type"], "QuotaDeleted");
    watch.kill().unwrap();
    watch.wait().unwrap();
}

fn next(lines: &mut std::io::Lines<BufReader<ChildStdout>>) -> Value {
    serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap()
}

#[test]
fn what_the_daemon_wrote_is_read_without_it() {
    let daemon = Daemon::start();
    daemon.done("apply -f -", QUOTA);
    let event = json!({"type": "ADDED", "object": pod("p1", "p1", "1")});
    daemon.done("push -", &event.to_string());
    let busy = format!("ledger stat --data-dir {}", daemon.directory.path().join("data").display());
    assert_eq!(daemon.run(&busy, "").code, 1);
    let directory = daemon.stop();
    let data = directory.path().join("data");
    let ledger = |arguments: &str| {
        let run = run_with(
            "http://127.0.0.1:1",
            &format!("ledger {arguments} --data-dir {}", data.display()),
            "",
        );
        assert_eq!(run.code, 0, "{run:?}");
        run.out
    };
    assert!(ledger("verify").starts_with("whole: "));
    let state: Value = serde_json::from_str(&ledger("replay -o json")).unwrap();
    assert_eq!(state["objects"], 1);
    let sums = state["namespaces"][0]["resources"].as_array().unwrap();
    assert!(
        sums.contains(&json!({"resource": "requests.cpu", "used": "1", "reserved": "0"})),
        "{sums:?}"
    );
    let copy = directory.path().join("copy");
    let exported = directory.path().join("ledger.ndjson");
    ledger(&format!("export {}", exported.display()));
    let import = format!("ledger import {} --data-dir {}", exported.display(), copy.display());
    assert_eq!(run_with("http://127.0.0.1:1", &import, "").code, 0);
    let replayed = format!("ledger replay -o json --data-dir {}", copy.display());
    let copied: Value =
        serde_json::from_str(&run_with("http://127.0.0.1:1", &replayed, "").out).unwrap();
    assert_eq!(copied["digest"], state["digest"]);
    assert!(fs::metadata(exported).unwrap().len() > 0);
}
