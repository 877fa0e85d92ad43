//! Watches as informers use them: from a version, with selectors, until they are gone.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use quotad::kube::Limits;
use serde_json::{Value, json};

use crate::{
    server::{LIMITS, Server},
    wire::{QUOTAS, ask, create},
};

/// The first events of a watch.
pub(crate) fn watched(server: &Server, query: &str, events: usize) -> Vec<Value> {
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET {QUOTAS}?watch=1&{query} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    // Lines of other kinds are the head, and the lengths of chunks.
    let lines =
        BufReader::new(stream).lines().map(Result::unwrap).filter(|line| line.starts_with('{'));
    lines.take(events).map(|line| serde_json::from_str(&line).unwrap()).collect()
}

/// What each event is, and of which quota.
fn summary(events: &[Value]) -> Vec<(&str, &str)> {
    fn text(value: &Value) -> &str {
        value.as_str().unwrap_or_default()
    }
    events
        .iter()
        .map(|event| (text(&event["type"]), text(&event["object"]["metadata"]["name"])))
        .collect()
}

#[test]
fn a_watch_resumes_where_it_was() {
    let server = Server::start();
    for name in ["kept", "changed", "ended"] {
        create(&server, name, json!({}));
    }
    let list = ask(&server, "GET", QUOTAS, &[], "", 200);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let patch = [("content-type", "application/merge-patch+json")];
    ask(
        &server,
        "PATCH",
        &format!("{QUOTAS}/changed"),
        &patch,
        r#"{"spec":{"hard":{"pods":"2"}}}"#,
        200,
    );
    ask(&server, "DELETE", &format!("{QUOTAS}/ended"), &[], "", 200);
    create(&server, "added", json!({}));
    create(&server, "brief", json!({}));
    ask(&server, "DELETE", &format!("{QUOTAS}/brief"), &[], "", 200);

    let events = watched(&server, &format!("resourceVersion={version}"), 3);
    assert_eq!(
        summary(&events),
        [("MODIFIED", "changed"), ("DELETED", "ended"), ("ADDED", "added")]
    );
    let all = [("ADDED", "added"), ("ADDED", "changed"), ("ADDED", "kept")];
    assert_eq!(summary(&watched(&server, "", 3)), all);
    let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let events = watched(&server, query, 4);
    assert_eq!(summary(&events[..3]), all);
    let mark = &events[3]["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"];
    assert_eq!((&events[3]["type"], mark), (&json!("BOOKMARK"), &json!("true")));
    let gone =
        ask(&server, "GET", &format!("{QUOTAS}?watch=1&resourceVersion=99999"), &[], "", 504);
    assert_eq!(gone["reason"], "Timeout");
    ask(&server, "GET", &format!("{QUOTAS}?watch=1&resourceVersionMatch=Exact"), &[], "", 422);
}

#[test]
fn a_watch_with_a_selector_tells_what_comes_and_goes_for_it() {
    let server = Server::start();
    create(&server, "in", json!({"metadata": {"labels": {"team": "a"}}}));
    create(&server, "out", json!({"metadata": {"labels": {"team": "b"}}}));
    let list = ask(&server, "GET", QUOTAS, &[], "", 200);
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let patch = [("content-type", "application/merge-patch+json")];
    for (name, team) in [("in", "b"), ("out", "a")] {
        let labels = json!({"metadata": {"labels": {"team": team}}}).to_string();
        ask(&server, "PATCH", &format!("{QUOTAS}/{name}"), &patch, &labels, 200);
    }
    let events = watched(&server, &format!("resourceVersion={version}&labelSelector=team%3Da"), 2);
    assert_eq!(summary(&events), [("DELETED", "in"), ("ADDED", "out")]);
}

#[test]
fn what_was_before_the_start_is_gone() {
    let server = Server::with_history(3);
    let path = format!("{QUOTAS}?watch=1&resourceVersion=2");
    let gone = ask(&server, "GET", &path, &[], "", 410);
    assert_eq!(gone["message"], "too old resource version: 2 (3)");
    assert_eq!(gone["reason"], "Expired");
    create(&server, "new", json!({}));
    assert_eq!(summary(&watched(&server, "resourceVersion=3", 1)), [("ADDED", "new")]);
}

/// Whoever makes and deletes most quotas is the one who has to list again.
#[test]
fn a_flood_of_one_namespace_leaves_the_watches_of_others() {
    let server = Server::with(Limits { quota_changes_bytes: 50_000, ..LIMITS });
    create(&server, "brief", json!({}));
    ask(&server, "DELETE", &format!("{QUOTAS}/brief"), &[], "", 200);
    let flood = "/api/v1/namespaces/flood/resourcequotas";
    let note = json!({"note": "x".repeat(20_000)});
    let quota = json!({
        "metadata": {"name": "q", "annotations": note}, "spec": {"hard": {"pods": "1"}},
    });
    for _ in 0..4 {
        ask(&server, "POST", flood, &[], &quota.to_string(), 201);
        ask(&server, "DELETE", &format!("{flood}/q"), &[], "", 200);
    }
    create(&server, "kept", json!({}));
    let events = watched(&server, "resourceVersion=1", 2);
    assert_eq!(
        summary(&events),
        [("DELETED", "brief"), ("ADDED", "kept")],
        "the flood is none of this namespace"
    );
    for path in [flood, "/api/v1/resourcequotas"] {
        let path = format!("{path}?watch=1&resourceVersion=1");
        let gone = ask(&server, "GET", &path, &[], "", 410);
        assert_eq!(gone["reason"], "Expired");
    }
}

#[test]
fn watches_are_bounded() {
    let server = Server::with(Limits { page: 2, watch_streams: 1.into(), ..LIMITS });
    create(&server, "q", json!({}));
    let mut stream = TcpStream::connect(server.address).unwrap();
    write!(stream, "GET {QUOTAS}?watch=1 HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
    assert!(BufReader::new(&stream).lines().any(|line| line.unwrap().starts_with('{')));
    let (status, head, _) = server.request("GET", &format!("{QUOTAS}?watch=1"), &[], b"");
    assert_eq!(status, 429);
    assert!(head.contains("retry-after: 1"), "{head}");
}
