//! Lists over all namespaces are those of the namespaces that the caller may read.

use std::io::{BufRead as _, BufReader, Read as _};

use quota_testkit::{PATIENCE, quotad::Quotad};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{call, create_token, quota, reservation, start};

const KUBE: &str = "/api/v1/resourcequotas";
const GROUPS: &str = "/apis/quota.openshift.io/v1/clusterresourcequotas";

/// A daemon with the namespaces `pay-a`, `pay-b` and `other`, all in the group `company`; `other` is in the group
/// `theirs` alone. Its directory, an admin and a tenant of `pay-*`.
fn shared() -> (TempDir, Quotad, String, String) {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("tokens.toml");
    let admin = create_token(&file, "--principal root --role admin,read,reserve,ingest -A");
    let tenant = create_token(&file, "--principal tenant --role read -n pay-*");
    let daemon = start(directory.path(), &[]);
    for (number, namespace) in ["other", "pay-a", "pay-b"].iter().enumerate() {
        let path = format!("/v1/namespaces/{namespace}/quotas/q");
        assert_eq!(call(&daemon, &admin, "PUT", &path, &quota()).0, 201);
        let path = format!("/v1/namespaces/{namespace}/reservations");
        let mut small = reservation(&format!("small-{namespace}"));
        small["reserved"]["requests.cpu"] = (number + 1).to_string().into();
        assert_eq!(call(&daemon, &admin, "POST", &path, &small).0, 201);
        let mut large = reservation(&format!("large-{namespace}"));
        large["reserved"]["requests.cpu"] = "99".into();
        assert_eq!(call(&daemon, &admin, "POST", &path, &large).0, 403);
        let event = json!([{"type": "ADDED", "namespace": namespace, "resource": "widgets", "name": format!("w-{namespace}"),
                            "uid": format!("w-{namespace}"), "usage": {"pods": "1"}}]);
        assert_eq!(call(&daemon, &admin, "POST", "/v1/events", &event).0, 200);
    }
    select(&daemon, &admin, "company", &["other", "pay-a", "pay-b"]);
    select(&daemon, &admin, "theirs", &["other"]);
    (directory, daemon, admin, tenant)
}

/// Has a group count these namespaces.
fn select(daemon: &Quotad, admin: &str, group: &str, members: &[&str]) {
    let expression =
        json!({"key": "kubernetes.io/metadata.name", "operator": "In", "values": members});
    let content =
        json!({"selector": {"labels": {"matchExpressions": [expression]}}, "hard": {"pods": "9"}});
    let path = format!("/v1/groups/{group}");
    assert!(matches!(call(daemon, admin, "PUT", &path, &content).0, 200 | 201));
}

/// All items of a list, page by page.
fn items(daemon: &Quotad, token: &str, path: &str) -> Vec<Value> {
    let (mut items, mut next) = (Vec::new(), None::<String>);
    loop {
        let more = next.as_ref().map_or_else(String::new, |next| format!("&continue={next}"));
        let (status, answer) =
            call(daemon, token, "GET", &format!("{path}?limit=1{more}"), &Value::Null);
        assert_eq!(status, 200, "{path}: {answer}");
        assert!(!answer.to_string().contains("other"), "{path}: {answer}");
        items.extend(answer["items"].as_array().unwrap().iter().cloned());
        next = ["/continue", "/metadata/continue"].iter().find_map(|place| {
            let token = answer.pointer(place)?.as_str()?;
            (!token.is_empty()).then(|| token.to_owned())
        });
        if next.is_none() {
            return items;
        }
    }
}

#[test]
fn a_list_is_that_of_the_namespaces_that_the_caller_may_read() {
    let (_directory, daemon, admin, tenant) = shared();
    for (path, place) in [
        ("/v1/quotas", "/metadata/namespace"),
        ("/v1/usage", "/namespace"),
        ("/v1/denials", "/namespace"),
        ("/v1/objects", "/namespace"),
        (KUBE, "/metadata/namespace"),
        ("/api/v1/namespaces", "/metadata/name"),
    ] {
        let mut found: Vec<_> = items(&daemon, &tenant, path)
            .iter()
            .map(|item| item.pointer(place).unwrap().as_str().unwrap().to_owned())
            .collect();
        found.sort_unstable();
        assert_eq!(found, ["pay-a", "pay-b"], "{path}");
    }
    let entries = items(&daemon, &tenant, "/v1/entries");
    let place = |entry: &Value| entry["event"]["namespace"].as_str().unwrap().to_owned();
    assert!(entries.len() >= 6 && entries.iter().all(|entry| place(entry).starts_with("pay-")));

    let groups = items(&daemon, &tenant, "/v1/groups");
    assert_eq!(groups.len(), 1, "{groups:?}");
    assert_eq!(
        (&groups[0]["name"], &groups[0]["status"]["members"]),
        (&json!("company"), &json!(2))
    );
    let kube = items(&daemon, &tenant, GROUPS);
    assert_eq!(kube.len(), 1, "{kube:?}");
    assert_eq!(kube[0]["metadata"]["name"], "company");
    let members = json!([{"namespace": "pay-a", "used": {"pods": "1"}, "reserved": {"pods": "0"}},
                         {"namespace": "pay-b", "used": {"pods": "1"}, "reserved": {"pods": "0"}}]);
    let read = |path: &str| call(&daemon, &tenant, "GET", path, &Value::Null);
    let (status, usage) = read("/v1/groups/company/usage");
    assert_eq!((status, &usage["namespaces"]), (200, &members));
    let (status, group) = read("/v1/groups/company");
    assert_eq!((status, &group["status"]["namespaces"]), (200, &members));
    assert!(!group.to_string().contains("other"), "{group}");
    for path in ["/v1/groups/theirs", "/v1/groups/theirs/usage", &format!("{GROUPS}/theirs")] {
        assert_eq!(read(path).0, 404, "{path}");
    }
    // What is not filtered is refused.
    assert_eq!(read("/v1/dead-letters").0, 403);
    assert_eq!(read("/v1/entries?namespace=other").0, 403);

    let (_, status) = read("/v1/status");
    assert_eq!(status["caller"]["namespaces"], json!(["pay-*"]));
    let all = call(&daemon, &admin, "GET", "/v1/quotas", &Value::Null).1;
    assert_eq!(all["items"].as_array().unwrap().len(), 3);
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn a_watch_over_all_namespaces_is_of_those_that_the_caller_may_read() {
    let (_directory, daemon, admin, tenant) = shared();
    let authorization = format!("Bearer {tenant}");
    let open = |path: &str| {
        let headers = [("authorization", authorization.as_str())];
        let answer = daemon.send(PATIENCE, ("GET", path), &headers, &Value::Null);
        assert_eq!(answer.status(), 200, "{path}");
        BufReader::new(answer.into_body().into_reader())
    };
    // The objects of the beginning: the watch ends when its time is over.
    let mut lines = String::new();
    open(&format!("{KUBE}?watch=true&timeoutSeconds=1")).read_to_string(&mut lines).unwrap();
    let objects: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of: Vec<_> = objects
        .iter()
        .filter(|event| event["type"] == "ADDED")
        .map(|event| event["object"]["metadata"]["namespace"].as_str().unwrap())
        .collect();
    assert_eq!(of, ["pay-a", "pay-b"]);

    // Server-sent events: those of the beginning up to the last entry of this tenant.
    let last = call(
        &daemon,
        &admin,
        "GET",
        "/v1/entries?namespace=pay-b&order=desc&limit=1",
        &Value::Null,
    )
    .1;
    let last = last["items"][0]["sequence"].to_string();
    let mut text = String::new();
    for line in open("/v1/watch?from=1").lines() {
        let line = line.unwrap();
        text.push_str(&line);
        if line.strip_prefix("id:").is_some_and(|id| id.trim() == last) {
            break;
        }
    }
    assert!(text.contains("pay-a") && !text.contains("other"), "{text}");
    assert_eq!(daemon.stop().code(), Some(0));
}

/// Which groups a caller sees changes with their members.
#[test]
fn a_watch_of_groups_is_of_those_with_a_namespace_that_the_caller_may_read() {
    let (_directory, daemon, admin, tenant) = shared();
    let headers = [("authorization", &*format!("Bearer {tenant}"))];
    let path = format!("{GROUPS}?watch=true");
    let answer = daemon.send(PATIENCE, ("GET", &*path), &headers, &Value::Null);
    assert_eq!(answer.status(), 200);
    let mut lines = BufReader::new(answer.into_body().into_reader()).lines();
    // The next event that is not a mere change of numbers: its type, group and members.
    let mut next = || loop {
        let line = lines.next().unwrap().unwrap();
        assert!(!line.contains("other"), "{line}");
        let event: Value = serde_json::from_str(&line).unwrap();
        let object = &event["object"];
        let members = object["status"]["namespaces"].as_array().unwrap().iter();
        let members: Vec<_> = members.map(|member| member["namespace"].to_string()).collect();
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        if event["type"] != "MODIFIED" {
            return (event["type"].as_str().unwrap().to_owned(), name, members.join(","));
        }
    };
    let event = |kind: &str, group: &str, members: &str| {
        (kind.to_owned(), group.to_owned(), members.to_owned())
    };
    assert_eq!(next(), event("ADDED", "company", "\"pay-a\",\"pay-b\""));
    select(&daemon, &admin, "theirs", &["other", "pay-a"]);
    assert_eq!(next(), event("ADDED", "theirs", "\"pay-a\""));
    select(&daemon, &admin, "company", &["other"]);
    assert_eq!(next(), event("DELETED", "company", ""));
    // The deletion of one that the caller does not see is no news.
    for group in ["company", "theirs"] {
        let path = format!("/v1/groups/{group}");
        assert_eq!(call(&daemon, &admin, "DELETE", &path, &Value::Null).0, 204);
    }
    assert_eq!(next(), event("DELETED", "theirs", ""));

    // The members are others than at this version, so there is no way on from there.
    let again = format!("{GROUPS}?watch=true&timeoutSeconds=1&resourceVersion=1");
    let (status, answer) = call(&daemon, &tenant, "GET", &again, &Value::Null);
    assert_eq!((status, &answer["reason"]), (410, &json!("Expired")), "{answer}");
    assert_eq!(daemon.stop().code(), Some(0));
}

#[test]
fn the_history_of_a_group_is_of_the_time_in_which_the_caller_sees_it() {
    let (_directory, daemon, admin, tenant) = shared();
    let widget = |kind: &str| {
        let event = json!([{"type": kind, "namespace": "other", "resource": "widgets", "name": "x", "uid": "x",
                            "usage": {"pods": "6"}}]);
        assert_eq!(call(&daemon, &admin, "POST", "/v1/events", &event).0, 200);
    };
    widget("ADDED");
    widget("DELETED");
    let status = call(&daemon, &admin, "GET", "/v1/status", &Value::Null).1;
    let from = status["oldest"]["time"].as_str().unwrap();
    let peak = |token: &str, group: &str| {
        let path = format!("/v1/groups/{group}/usage/history?from={from}");
        let (status, history) = call(&daemon, token, "GET", &path, &Value::Null);
        (status, history["summary"][0]["max"]["used"].clone())
    };
    assert_eq!(peak(&tenant, "company"), (200, json!("9")));
    assert_eq!(peak(&admin, "theirs"), (200, json!("7")));
    assert_eq!(peak(&tenant, "theirs"), (404, Value::Null));
    select(&daemon, &admin, "theirs", &["other", "pay-a"]);
    assert_eq!(peak(&tenant, "theirs"), (200, json!("2")));
    select(&daemon, &admin, "theirs", &["other"]);
    widget("ADDED");
    assert_eq!(peak(&tenant, "theirs"), (200, json!("2")));
    assert_eq!(daemon.stop().code(), Some(0));
}
