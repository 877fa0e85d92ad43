//! `quotactl` as its users meet it: arguments in; output, messages and exit codes out.

#![expect(clippy::unwrap_used, reason = "where a test panics says what is wrong")]

mod amounts;
mod compacted;
mod contexts;
mod daemon;
mod damaged;
mod drift;
mod forms;
mod groups;
mod ledger;
mod look;
mod offers;
mod questions;
mod readme;
mod reports;
mod room;
mod secure;
mod simulate;
mod stub;
use quota_testkit as support;
mod token;
mod transcripts;
mod watching;

use std::{
    io::Write,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use stub::Stub;

/// What a run gave.
#[derive(Debug)]
struct Run {
    code: i32,
    out: String,
    err: String,
}

fn command(arguments: &str) -> Command {
    let mut command = Command::new(crate::support::programs::quotactl());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("QUOTACTL_")) {
        command.env_remove(name);
    }
    // Contexts of who runs the tests are no part of them.
    command.env("QUOTACTL_CONFIG", "/dev/null");
    command.args(arguments.split_whitespace());
    command
}

fn run_with(server: &str, arguments: &str, input: &str) -> Run {
    let mut child = command(arguments)
        .args(["--server", server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that does not read its input closes it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Run {
        code: output.status.code().unwrap(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn run(server: &str, arguments: &str) -> Run {
    run_with(server, arguments, "")
}

fn quota(version: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "q", "namespace": "team-a", "resourceVersion": version,
                     "creationTimestamp": "2020-01-01T00:00:00Z"},
        "spec": {"hard": {"pods": "10"}},
        "status": {"hard": {"pods": "10"}, "used": {"pods": "3"}, "reserved": {"pods": "1"}, "reservations": []}
    })
}

fn problem(reason: &str, detail: &str) -> Value {
    json!({"type": "about:blank", "title": "T", "reason": reason, "detail": detail})
}

#[test]
fn quotas_are_shown_in_each_form() {
    let stub = Stub::always(200, json!({"items": [quota("5")], "asOf": {"sequence": 5}}));
    let table = run(&stub.url, "get quotas -n team-a");
    assert_eq!(table.code, 0, "{table:?}");
    let words: Vec<_> = table.out.split_whitespace().collect();
    assert_eq!(words[..5], ["NAME", "REQUEST", "LIMIT", "RESERVED", "AGE"]);
    assert_eq!(words[5..11], ["q", "pods:", "3/10", "<none>", "pods:", "1"]);
    assert_eq!(stub.asked()[0].line, "GET /v1/namespaces/team-a/quotas?limit=500");

    assert_eq!(run(&stub.url, "get quota -A -o name").out, "resourcequota/q\n");
    assert_eq!(stub.asked()[1].line, "GET /v1/quotas?limit=500");
    let json: Value = serde_json::from_str(&run(&stub.url, "get quota -o json").out).unwrap();
    assert_eq!(json["items"][0]["metadata"]["name"], "q");
    assert!(run(&stub.url, "get quota -o yaml").out.contains("resourceVersion: \"5\""));
    assert_eq!(run(&stub.url, "get quota --no-headers").out.lines().count(), 1);
}

#[test]
fn an_empty_list_prints_nothing_but_a_note() {
    let stub = Stub::always(200, json!({"items": []}));
    for arguments in ["get quota", "get reservations", "get objects", "get entries"] {
        let run = run(&stub.url, arguments);
        assert_eq!((run.code, run.out.as_str()), (0, ""), "{arguments}");
        assert!(run.err.starts_with("No "), "{}", run.err);
    }
}

#[test]
fn lists_are_asked_for_page_by_page() {
    let stub = Stub::new(|number, _| {
        let next = if number == 0 { json!("t/1") } else { Value::Null };
        (200, Vec::new(), json!({"items": [quota("1")], "continue": next}).to_string())
    });
    assert_eq!(run(&stub.url, "get quota -o name").out.lines().count(), 2);
    assert_eq!(stub.asked()[1].line, "GET /v1/namespaces/default/quotas?limit=500&continue=t%2F1");
}

#[test]
fn what_is_not_there_ends_with_11() {
    let stub = Stub::always(404, problem("NotFound", "quota \"q\" not found"));
    for arguments in
        ["get quota q", "describe quota q", "delete quota q", "get reservations u", "release u"]
    {
        let run = run(&stub.url, arguments);
        assert_eq!((run.code, run.out.as_str()), (11, ""), "{arguments}");
        assert!(
            run.err.starts_with("error: quota \"q\" not found\nhint: quotactl get quota"),
            "{run:?}"
        );
    }
}

#[test]
fn what_contradicts_the_ledger_ends_with_12() {
    let cases = [
        (409, "AlreadyObserved", "extend u --ttl 60s"),
        (409, "AlreadyReleased", "commit u --request cpu=1"),
        (410, "ReservationExpired", "extend u --ttl 60s"),
        (422, "UidReused", "reserve --uid u --request cpu=1"),
    ];
    for (status, reason, arguments) in cases {
        let stub = Stub::always(status, problem(reason, "it is so"));
        let run = run(&stub.url, arguments);
        assert_eq!((run.code, run.err.as_str()), (12, "error: it is so\n"), "{reason}");
    }
}

#[test]
fn a_daemon_that_is_not_there_is_said_to_be_that() {
    let run = run("http://127.0.0.1:1", "get quota");
    assert_eq!((run.code, run.out.as_str()), (1, ""));
    let lines: Vec<_> = run.err.lines().collect();
    assert!(lines[0].starts_with("error: http://127.0.0.1:1: "), "{}", run.err);
    assert!(lines[1].starts_with("hint: check that quotad runs there"));
    assert_eq!(lines.len(), 2);
}

#[test]
fn something_else_than_quotad_is_said_to_be_that() {
    let stub = Stub::new(|_, _| (502, Vec::new(), "<html>".to_owned()));
    let run = run(&stub.url, "get quota");
    assert_eq!(run.code, 1);
    assert!(run.err.contains("answers 502") && run.err.contains("hint: "), "{}", run.err);
}

#[test]
fn a_wrong_command_line_ends_with_2() {
    for arguments in [
        "get quotta",
        "reserve --uid u",
        "extend u",
        "get usage --at 2020-01-01T00:00:00Z --sequence 4",
        "get quota -o xml",
        "commit u --request cpu=many",
        "push",
        "reserve --uid= --request pods=1",
        "reserve --uid=ä -f x.yaml",
        "get quota q -A",
        "describe quota q -A",
        "get reservations u -A",
        "describe reservation u -A",
        "extend u --ttl 60s -A",
        "commit u -A",
        "release u -A",
        "explain pods -A",
        "history -A",
        "describe namespace a -A",
        "reserve --uid u --request pods=1 -A",
        "delete -n a",
        "delete -f x.yaml quota q",
    ] {
        let run = run("http://127.0.0.1:1", arguments);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{arguments}: {run:?}");
    }
    assert!(run("http://127.0.0.1:1", "get quotta").err.contains("'quota'"));
    let wrong = run("unix:///x", "get quota");
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.starts_with("error: --server unix:///x: not a URL"), "{}", wrong.err);
}

#[test]
fn what_is_given_as_empty_is_not_given() {
    let stub = Stub::always(200, json!({"items": []}));
    for arguments in ["get quota -n= --context=", "get quota --namespace="] {
        assert_eq!(run(&stub.url, arguments).code, 0, "{arguments}");
    }
    let output = command("get quota")
        .args(["--server", &stub.url])
        .envs([("QUOTACTL_NAMESPACE", ""), ("QUOTACTL_CONTEXT", "")])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let asked = stub.asked();
    let line = "GET /v1/namespaces/default/quotas?limit=500";
    assert!(asked.iter().all(|request| request.line == line), "{asked:?}");
    assert_eq!(asked.len(), 3);
}

#[test]
fn help_version_and_completions_are_data() {
    for arguments in ["--help", "--version", "completions bash", "reserve --help"] {
        let output = command(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments}");
        assert!(!output.stdout.is_empty() && output.stderr.is_empty(), "{arguments}");
    }
}

#[test]
fn a_reader_that_went_away_is_no_failure() {
    let entry = json!({"sequence": 1, "time": "2020-01-01T00:00:00Z", "actor": {"principal": "p"},
                       "event": {"type": "QuotaSet"}, "padding": "x".repeat(1 << 20)});
    let stub = Stub::always(200, json!({"items": [entry]}));
    let mut child = command("get entries -o json")
        .args(["--server", &stub.url])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn apply_tells_what_it_did() {
    let manifest =
        "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: q}\nspec: {hard: {pods: 10}}\n";
    let said = |before: Option<&'static str>, status, after: &'static str| {
        let stub = Stub::new(move |_, request| match (request.line.starts_with("GET"), before) {
            (true, None) => (404, Vec::new(), problem("NotFound", "no").to_string()),
            (true, Some(version)) => (200, Vec::new(), quota(version).to_string()),
            _ => {
                let warning = vec![("Warning", "299 - \"it is odd\"")];
                (status, warning, quota(after).to_string())
            }
        });
        let run = run_with(&stub.url, "apply -f - -n team-a", manifest);
        assert_eq!((run.code, run.err.as_str()), (0, "warning: it is odd\n"));
        let mut asked = stub.asked().into_iter();
        let put = asked.find(|request| request.line.starts_with("PUT")).unwrap();
        assert_eq!(put.line, "PUT /v1/namespaces/team-a/quotas/q");
        assert_eq!(serde_json::from_str::<Value>(&put.body).unwrap()["spec"]["hard"]["pods"], 10);
        run.out
    };
    assert_eq!(said(None, 201, "1"), "resourcequota/q created\n");
    assert_eq!(said(Some("1"), 200, "2"), "resourcequota/q configured\n");
    assert_eq!(said(Some("2"), 200, "2"), "resourcequota/q unchanged\n");
}

#[test]
fn apply_names_what_is_wrong_and_goes_on() {
    let stub = Stub::new(|_, request| match request.line.as_str() {
        line if line.starts_with("GET") => (404, Vec::new(), problem("NotFound", "no").to_string()),
        line if line.ends_with("/bad") => {
            (422, Vec::new(), problem("Invalid", "spec.hard[x]: wrong").to_string())
        }
        _ => (201, Vec::new(), quota("1").to_string()),
    });
    let of = |name: &str| {
        format!("apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {name}, namespace: a}}\n")
    };
    let manifests = format!("{}---\n{}---\nkind: Pod\napiVersion: v1\n", of("bad"), of("good"));
    let run = run_with(&stub.url, "apply -f -", &manifests);
    assert_eq!((run.code, run.out.as_str()), (1, "resourcequota/good created\n"));
    assert_eq!(
        run.err,
        "error: standard input: spec.hard[x]: wrong\n\
         error: standard input: left out a Pod of \"v1\": neither a v1 ResourceQuota nor a quota.openshift.io/v1 ClusterResourceQuota\n"
    );
    let elsewhere = run_with(&stub.url, "-n b apply -f -", &of("good"));
    assert_eq!(elsewhere.code, 2);
    assert!(elsewhere.err.contains("namespace a, but --namespace b"), "{}", elsewhere.err);
}

#[test]
fn quotas_are_deleted_by_name_or_manifest() {
    let stub = Stub::new(|_, _| (204, Vec::new(), String::new()));
    let run = run_with(&stub.url, "delete -n default quota a b", "");
    assert_eq!(
        (run.code, run.out.as_str()),
        (0, "resourcequota/a deleted\nresourcequota/b deleted\n")
    );
    let manifest = "apiVersion: v1\nkind: ResourceQuota\nmetadata: {name: c, namespace: x}\n";
    assert_eq!(run_with(&stub.url, "delete -f -", manifest).out, "resourcequota/c deleted\n");
    let named = run_with(&stub.url, "delete quota d -o json", "");
    let named: Value = serde_json::from_str(&named.out).unwrap();
    assert_eq!(named["metadata"], json!({"namespace": "default", "name": "d"}));
    let group = run_with(&stub.url, "delete group g -o json", "");
    let group: Value = serde_json::from_str(&group.out).unwrap();
    assert_eq!(group, json!({"name": "g"}));
    let lines: Vec<_> = stub.asked().into_iter().map(|request| request.line).collect();
    assert_eq!(
        lines,
        [
            "DELETE /v1/namespaces/default/quotas/a",
            "DELETE /v1/namespaces/default/quotas/b",
            "DELETE /v1/namespaces/x/quotas/c",
            "DELETE /v1/namespaces/default/quotas/d",
            "DELETE /v1/groups/g"
        ]
    );
}

#[test]
fn publishers_are_asked_to_list_again() {
    let answer = json!({"clusters": ["prod", "dev"], "resources": ["pods"], "waitSeconds": 7});
    let stub = Stub::always(202, answer);
    let some = run(&stub.url, "relist --resource pods,services");
    assert_eq!(some.code, 0, "{some:?}");
    assert_eq!(
        some.out.lines().collect::<Vec<_>>(),
        [
            "prod is requested to list pods, services in 7s, since another relist was requested recently",
            "dev is requested to list pods, services in 7s, since another relist was requested recently",
        ]
    );
    assert_eq!(stub.asked()[0].line, "POST /v1/relist");
    let body: Value = serde_json::from_str(&stub.asked()[0].body).unwrap();
    assert_eq!(body, json!({"resources": ["pods", "services"]}));
    let all = Stub::always(202, json!({"clusters": ["prod"], "waitSeconds": 0}));
    assert_eq!(run(&all.url, "relist").out, "prod is requested to list everything now\n");
    let none = Stub::always(404, problem("NotFound", "there is no stream"));
    assert_eq!(run(&none.url, "relist").code, 11);
}

#[test]
fn what_others_named_does_not_steer_the_terminal() {
    let odd =
        "q\u{1b}]0;owned\u{7}\u{9b}31m\nresourcequota/forged\u{7f}\u{202e}\u{2028}\u{2066}\u{200f}";
    let quota = json!({
        "metadata": {"name": odd, "namespace": odd},
        "spec": {"hard": {odd: "1"}, "scopes": [odd]},
        "status": {"hard": {odd: "1"}, "used": {odd: "2"}, "reserved": {odd: "1"},
            "reservations": [{"reservedBy": {"kind": odd, "name": odd, "uid": "u-1"}, "reserved": {odd: "1"},
                "expirationTime": "2020-01-01T00:00:00Z"}]},
    });
    let stub = Stub::always(200, json!({"items": [quota]}));
    for form in ["table", "wide", "name", "json", "yaml"] {
        for arguments in ["get quota", "describe quota"] {
            let run = run(&stub.url, &format!("{arguments} -o {form}"));
            assert_eq!(run.code, 0, "{run:?}");
            let steers = |c: char| {
                c.is_control() && c != '\n' || "\u{202e}\u{2028}\u{2066}\u{200f}".contains(c)
            };
            assert!(!run.out.contains(steers) && !run.err.contains(steers), "{run:?}");
            let forged = run.out.lines().any(|line| line.starts_with("resourcequota/forged"));
            assert!(!forged || form == "yaml", "{run:?}");
            if form == "json" {
                let shown: Value = serde_json::from_str(&run.out).unwrap();
                assert_eq!(shown.pointer("/items/0/metadata/name").unwrap(), odd);
            }
        }
    }
    let stub = Stub::always(403, problem("ExceedsHard", odd));
    let run = run(&stub.url, "get quota");
    assert!(
        !run.err.trim_end().contains(|c: char| c.is_control() && c != '\n' || c == '\u{202e}'),
        "{run:?}"
    );
}
