//! Callers of a real daemon: tokens, roles, certificates, and what is never logged.

#![expect(clippy::unwrap_used, reason = "where a test panics says what is wrong")]

mod lists;
mod rewritten;

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    process::Command,
    sync::Arc,
};

use quota_testkit::{
    certificates::{self, Authority, Pair, authority, signed},
    exchange::exchange,
    programs::create_token,
    quotad::Quotad,
};
use rustix::process::{Signal, kill_process};
use rustls::{
    ClientConnection, StreamOwned,
    pki_types::ServerName,
    version::{TLS12, TLS13},
};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Starts a daemon that knows the tokens of this directory, and logs all that can be logged.
fn start(directory: &Path, more: &[&str]) -> Quotad {
    let all = [&["--auth.tokens_file=tokens.toml", "--log.level=trace"], more].concat();
    Quotad::start(directory, &all)
}

/// Sends a request with a token; status and body.
fn call(daemon: &Quotad, token: &str, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let authorization = format!("Bearer {token}");
    let headers = [("authorization", authorization.as_str())];
    let headers = if token.is_empty() { &[][..] } else { &headers };
    daemon.call(method, path, headers, body)
}

/// Has the daemon read its files again, and waits until it says what came of that.
fn reload(daemon: &Quotad, message: &str) {
    let since = daemon.log_bytes();
    kill_process(daemon.pid(), Signal::HUP).unwrap();
    daemon.logged_since(since, message);
}

/// Stops a daemon; all that it has logged.
fn stop(daemon: Quotad, directory: &Path) -> String {
    assert_eq!(daemon.stop().code(), Some(0));
    fs::read_to_string(directory.join("quotad.log")).unwrap()
}

fn quota() -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"requests.cpu": "10"}},
    })
}

fn reservation(uid: &str) -> Value {
    json!({"reservedBy": {"uid": uid}, "reserved": {"requests.cpu": "1"}})
}

fn batch(atomic: bool) -> Value {
    let item = |namespace: &str, uid: &str| {
        let mut item = reservation(uid);
        item["namespace"] = namespace.into();
        item
    };
    json!({"atomic": atomic, "items": [item("team-a", "u2"), item("other", "u3")]})
}

/// The busiest requests pass by the router, unless they are written in an unusual way.
#[test]
fn reservations_are_answered_alike_past_the_router_and_through_it() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let ci = &create_token(&file, "--principal ci --role reserve -n team-*");
    let admin = &create_token(&file, "--principal root --role admin,read -A");
    let daemon = start(directory.path(), &[]);
    let quotas = "/v1/namespaces/team-a/quotas/q";
    assert_eq!(call(&daemon, admin, "PUT", quotas, &quota()).0, 201);

    let both = [("team-a", "uid-1"), ("team%2Da", "uid-2")].map(|(namespace, uid)| {
        let all = format!("/v1/namespaces/{namespace}/reservations");
        let (one, none) = (format!("{all}/{uid}"), format!("{all}/nobody"));
        let text = |(status, answer): (u16, Value)| {
            let shown = ["reason", "detail", "errors", "state", "reserved", "reservedBy"];
            let shown = shown.map(|field| answer[field].clone());
            format!("{status} {shown:?}").replace(uid, "uid")
        };
        [
            ("", "POST", &all, &reservation(uid)),
            (admin, "POST", &all, &reservation(uid)),
            (ci, "POST", &all, &json!({ "reserved": 1 })),
            (ci, "POST", &all, &json!([])),
            (ci, "POST", &all, &json!({})),
            (ci, "POST", &all, &Value::Null),
            (ci, "POST", &all, &reservation(uid)),
            (ci, "POST", &all, &reservation(uid)),
            ("qlt_a_b", "DELETE", &one, &Value::Null),
            (admin, "DELETE", &one, &Value::Null),
            (ci, "DELETE", &none, &Value::Null),
            (ci, "DELETE", &one, &Value::Null),
            (ci, "DELETE", &one, &Value::Null),
        ]
        .map(|(token, method, path, body)| text(call(&daemon, token, method, path, body)))
    });
    let [past, through] = &both;
    assert_eq!(past, through);
    let statuses = past.each_ref().map(|answer| &answer[..3]);
    assert_eq!(statuses[..2], ["401", "403"]);
    assert_eq!(statuses[6..12], ["201", "200", "401", "403", "404", "204"]);
    let (_, metrics) = daemon.ask_admin("/metrics");
    let route = "route=\"/v1/namespaces/{namespace}/reservations/{uid}\",method=\"DELETE\"";
    for (code, count) in [(401, 2), (403, 2), (404, 2)] {
        let line = format!("quota_ledger_http_requests_total{{{route},code=\"{code}\"}} {count}");
        let shown = metrics.lines().any(|shown| shown == line);
        assert!(shown, "{line}: {metrics}");
    }
}

#[test]
fn a_report_has_the_rows_that_its_caller_may_read() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let one = &create_token(&file, "--principal one --role read -n team-a");
    let reserve = &create_token(&file, "--principal ci --role reserve -n team-a");
    let admin = &create_token(&file, "--principal root --role admin,read,reserve -A");
    let daemon = start(directory.path(), &[]);
    for namespace in ["team-a", "team-b"] {
        let quotas = format!("/v1/namespaces/{namespace}/quotas/q");
        assert_eq!(call(&daemon, admin, "PUT", &quotas, &quota()).0, 201);
        let path = format!("/v1/namespaces/{namespace}/reservations");
        let body = reservation(&format!("uid-{namespace}"));
        assert_eq!(call(&daemon, admin, "POST", &path, &body).0, 201);
    }
    let report = |token: &str, more: &str| {
        let path = format!("/v1/report?from=2020-01-01T00:00:00Z{more}");
        call(&daemon, token, "GET", &path, &Value::Null)
    };
    let (status, all) = report(admin, "");
    assert_eq!((status, all["rows"].as_array().unwrap().len()), (200, 2), "{all}");
    let (_, named) = report(admin, "&namespace=team-a");
    for by in ["namespace", "label:team", "kind"] {
        let (status, own) = report(one, &format!("&by={by}"));
        assert_eq!((status, own["rows"].as_array().unwrap().len()), (200, 1), "{own}");
        // Another tenant is in no number, the total included.
        let figure = |report: &Value| report["total"]["requests.cpu"]["grants"].clone();
        assert_eq!((figure(&own), figure(&named)), (json!(1), json!(1)));
        assert!(!own.to_string().contains("team-b"), "{own}");
    }
    for forbidden in ["&namespace=team-b", "&namespace=team-a,team-b", "&by=group", "&group=g"] {
        let (status, problem) = report(one, forbidden);
        let reason = problem["reason"].as_str();
        assert_eq!((status, reason), (403, Some("Forbidden")), "{forbidden}");
    }
    assert_eq!(report(reserve, "").0, 403);
    for (more, status) in
        [("&to=2019-01-01T00:00:00Z", 400), ("&by=x", 422), ("&labelSelector=a===", 400)]
    {
        assert_eq!(report(admin, more).0, status, "{more}");
    }
}

#[test]
fn callers_may_do_what_their_tokens_say() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let ci = create_token(&file, "--principal ci --role reserve -n team-*");
    let admin = create_token(&file, "--principal root --role admin,read -A");
    let daemon = start(directory.path(), &[]);
    let quotas = "/v1/namespaces/team-a/quotas/q";
    let reservations = "/v1/namespaces/team-a/reservations";

    assert_eq!(call(&daemon, "", "PUT", quotas, &quota()).0, 401);
    assert_eq!(call(&daemon, "qlt_a_b", "PUT", quotas, &quota()).0, 401);
    let (status, problem) = call(&daemon, &ci, "PUT", quotas, &quota());
    assert_eq!((status, &problem["reason"]), (403, &json!("Forbidden")));
    assert_eq!(problem["detail"], "ci needs the role admin in the namespace team-a");
    assert_eq!(call(&daemon, &admin, "PUT", quotas, &quota()).0, 201);
    assert_eq!(call(&daemon, &admin, "POST", reservations, &reservation("u1")).0, 403);
    assert_eq!(call(&daemon, &ci, "POST", reservations, &reservation("u1")).0, 201);
    let other = "/v1/namespaces/other/reservations";
    assert_eq!(call(&daemon, &ci, "POST", other, &reservation("u9")).0, 403);

    let path = "/v1/reservations:batch";
    let (status, problem) = call(&daemon, &ci, "POST", path, &batch(true));
    assert_eq!((status, &problem["index"]), (403, &json!(1)), "{problem}");
    assert_eq!(problem["reason"], "Forbidden");
    let (status, answer) = call(&daemon, &ci, "POST", path, &batch(false));
    assert_eq!(status, 200, "{answer}");
    assert_eq!(answer["items"][0]["status"], 201, "{answer}");
    assert_eq!(answer["items"][1]["status"], 403, "{answer}");
    assert_eq!(answer["items"][1]["detail"], "ci needs the role reserve in the namespace other");

    // The principals are the actors.
    let (_, entries) = call(&daemon, &admin, "GET", "/v1/entries?namespace=team-a", &Value::Null);
    let actors: Vec<_> = entries["items"].as_array().unwrap().iter().collect();
    let actors: Vec<_> = actors.iter().map(|entry| &entry["actor"]["principal"]).collect();
    assert_eq!(actors, ["root", "ci", "ci"], "{entries}");

    // A new file comes into force, an invalid one does not, and no secret is shown.
    let before = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{before}\n{admin}")).unwrap();
    reload(&daemon, "the new tokens file cannot be used, the old one stays");
    assert_eq!(call(&daemon, &ci, "GET", reservations, &Value::Null).0, 200);
    let without_ci = before.split("[[tokens]]").last().unwrap();
    fs::write(&file, format!("[[tokens]]{without_ci}")).unwrap();
    reload(&daemon, "a new tokens file is in force");
    assert_eq!(call(&daemon, &ci, "GET", reservations, &Value::Null).0, 401);
    assert_eq!(call(&daemon, &admin, "GET", reservations, &Value::Null).0, 200);

    let (_, metrics) = daemon.ask_admin("/metrics");
    for line in [
        "quota_ledger_auth_refused_total{reason=\"missing\"} 1",
        "quota_ledger_auth_refused_total{reason=\"unknown\"} 2",
        "quota_ledger_auth_refused_total{reason=\"role\"} 2",
        "quota_ledger_auth_refused_total{reason=\"namespace\"} 3",
        "quota_ledger_tokens_reload_failures_total 1",
    ] {
        assert!(metrics.lines().any(|shown| shown == line), "{line}: {metrics}");
    }
    let log = stop(daemon, directory.path());
    for token in [&ci, &admin] {
        let secret = token.rsplit('_').next().unwrap();
        assert!(!log.contains(&secret[..16]), "a secret was logged");
    }
    assert!(log.contains("request refused"));
}

#[test]
fn nothing_is_served_without_the_file_that_is_wanted() {
    let directory = TempDir::new().unwrap();
    let exit_code = |argument: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_quotad"));
        command.current_dir(directory.path()).env_clear().arg("--admin.listen=127.0.0.1:0");
        let output = command.args(["--listen=127.0.0.1:0", argument]).output().unwrap();
        let log = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), log)
    };
    let (code, log) = exit_code("--auth.tokens_file=nowhere.toml");
    assert_eq!(code, Some(3), "{log}");
    assert!(log.contains("auth.tokens_file = nowhere.toml: cannot be read"), "{log}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_quotad"));
    command.current_dir(directory.path()).env_clear();
    let output = command.arg("--listen=0.0.0.0:0").output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    let log = String::from_utf8(output.stderr).unwrap();
    assert!(log.contains("auth.allow_anonymous_non_loopback"), "{log}");
}

/// A connection of somebody with this certificate, or without one.
fn connect(
    daemon: &Quotad,
    authority: &Authority,
    own: Option<&Pair>,
) -> impl Read + Write + use<> {
    let client = certificates::client(&authority.pem(), own, &[&TLS13, &TLS12]);
    let server = ServerName::try_from("quota.svc").unwrap();
    let connection = ClientConnection::new(Arc::new(client), server).unwrap();
    let stream = TcpStream::connect(daemon.ready["api"].as_str().unwrap()).unwrap();
    StreamOwned::new(connection, stream)
}

#[test]
fn certificates_are_principals() {
    let directory = TempDir::new().unwrap();
    let authority = authority();
    fs::write(directory.path().join("ca.pem"), authority.pem()).unwrap();
    signed(&authority, &["quota.svc"]).write(directory.path(), "quota");
    let file = directory.path().join("tokens.toml");
    let reader = create_token(&file, "--principal reader --role read -A");
    let record = "\n[[certificates]]\nname = \"bridge.svc\"\nprincipal = \"bridge\"\n\
                  roles = [\"ingest\"]\nnamespaces = [\"*\"]\n";
    fs::write(&file, fs::read_to_string(&file).unwrap() + record).unwrap();
    let daemon = start(
        directory.path(),
        &[
            "--tls.cert=quota.crt",
            "--tls.key=quota.key",
            "--tls.client_ca=ca.pem",
            "--tls.allowed_names=kube-apiserver",
            "--tls.api=true",
        ],
    );
    let [bridge, stranger] = ["bridge.svc", "stranger.svc"].map(|name| signed(&authority, &[name]));
    let (bridge, stranger) = (Some(&bridge), Some(&stranger));
    let call = |own, token: &str, method: &str, path: &str, body: &str| {
        let authorization = format!("Bearer {token}");
        let mut headers = vec![("content-type", "application/json"), ("connection", "close")];
        if !token.is_empty() {
            headers.push(("authorization", &authorization));
        }
        let mut stream = connect(&daemon, &authority, own);
        let answer = exchange(&mut stream, (method, path), &headers, body.as_bytes()).unwrap();
        (answer.status, answer.json())
    };
    let event = json!([{
        "type": "ADDED", "namespace": "team-a", "resource": "widgets.example.com",
        "name": "w1", "uid": "w1", "resourceVersion": "1", "usage": {},
    }]);
    let (status, answer) = call(bridge, "", "POST", "/v1/events", &event.to_string());
    assert_eq!((status, &answer["accepted"]), (200, &json!(1)), "{answer}");
    assert_eq!(call(bridge, "", "GET", "/v1/quotas", "").0, 403);
    assert_eq!(call(stranger, "", "GET", "/v1/quotas", "").0, 401);
    assert_eq!(call(None, "", "GET", "/v1/quotas", "").0, 401);
    let (status, entries) = call(None, &reader, "GET", "/v1/entries", "");
    assert_eq!(status, 200);
    assert_eq!(entries["items"][0]["actor"]["principal"], "bridge", "{entries}");
    // The token counts, not the certificate.
    assert_eq!(call(bridge, &reader, "GET", "/v1/entries", "").0, 200);
    assert_eq!(call(bridge, "qlt_a_b", "POST", "/v1/events", "").0, 401);
}

#[test]
fn limits_are_simulated_by_who_may_set_them() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let team = &create_token(&file, "--principal team --role admin,reserve -n team-a");
    let reader = &create_token(&file, "--principal reader --role read -A");
    let guest = &create_token(&file, "--principal guest --role read -n team-a");
    let root = &create_token(&file, "--principal root --role admin -A");
    let daemon = start(directory.path(), &[]);
    let quotas = "/v1/namespaces/team-a/quotas/q";
    assert_eq!(call(&daemon, team, "PUT", quotas, &quota()).0, 201);
    let reservations = "/v1/namespaces/team-a/reservations";
    let reserved = call(&daemon, team, "POST", reservations, &reservation("u1"));
    assert_eq!(reserved.0, 201, "{reserved:?}");

    let asked = |namespace: &str| {
        let mut quota = quota();
        quota["metadata"]["namespace"] = namespace.into();
        quota["spec"]["hard"]["requests.cpu"] = "0".into();
        json!({"from": "2020-01-01T00:00:00Z", "quotas": [quota]})
    };
    let group = json!({"from": "2020-01-01T00:00:00Z", "delete": [{"kind": "ClusterResourceQuota", "name": "g"}]});
    let deletes = |namespace: &str| {
        let name = json!({"kind": "ResourceQuota", "namespace": namespace, "name": "q"});
        json!({"from": "2020-01-01T00:00:00Z", "delete": [name]})
    };
    let all = json!({"from": "2020-01-01T00:00:00Z"});
    for (token, body, status) in [
        (team, asked("team-a"), 200),
        (team, deletes("team-a"), 200),
        (team, asked("other"), 403),
        (team, deletes("other"), 403),
        (team, group.clone(), 403),
        (team, all.clone(), 403),
        (reader, asked("team-a"), 403),
        (root, asked("other"), 200),
        (root, group, 404),
        (root, all, 200),
    ] {
        let (given, answer) = call(&daemon, token, "POST", "/v1/simulate", &body);
        assert_eq!(given, status, "{body}: {answer}");
        if status == 403 {
            assert_eq!(answer["reason"], "Forbidden", "{answer}");
        }
    }
    let (_, answer) = call(&daemon, team, "POST", "/v1/simulate", &asked("team-a"));
    assert_eq!((&answer["refused"], &answer["identity"]["decisions"]), (&json!(1), &json!(1)));
    let suggestions = "/v1/suggestions?from=2020-01-01T00:00:00Z";
    let of = |namespace: &str| format!("{suggestions}&namespace={namespace}");
    assert_eq!(call(&daemon, reader, "GET", &of("team-a"), &Value::Null).0, 200);
    assert_eq!(call(&daemon, team, "GET", suggestions, &Value::Null).0, 403);
    // Without a namespace, it is of those that one may read: an admin's quota elsewhere is not among them.
    let elsewhere = "/v1/namespaces/other/quotas/q";
    assert_eq!(call(&daemon, root, "PUT", elsewhere, &quota()).0, 201);
    for (token, found) in [(guest, json!(["team-a"])), (reader, json!(["other", "team-a"]))] {
        let (status, answer) = call(&daemon, token, "GET", suggestions, &Value::Null);
        let items = answer["items"].as_array().unwrap().iter();
        let mut namespaces: Vec<_> =
            items.map(|item| item["namespace"].as_str().unwrap()).collect();
        namespaces.dedup();
        namespaces.sort_unstable();
        assert_eq!((status, json!(namespaces)), (200, found), "{answer}");
    }
    stop(daemon, directory.path());
}
