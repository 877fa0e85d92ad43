//! What kubectl does not ask for, but other clients do.

use quotad::kube::Limits;
use serde_json::{Value, json};

use crate::server::{LIMITS, Server};

pub(crate) const QUOTAS: &str = "/api/v1/namespaces/wire/resourcequotas";

pub(crate) fn create(server: &Server, name: &str, more: Value) -> Value {
    let mut quota = json!({"metadata": {"name": name}, "spec": {"hard": {"pods": "1"}}});
    json_patch::merge(&mut quota, &more);
    let (status, _, body) = server.request("POST", QUOTAS, &[], quota.to_string().as_bytes());
    assert_eq!(status, 201, "{body}");
    serde_json::from_str(&body).unwrap()
}

#[track_caller]
pub(crate) fn ask(
    server: &Server,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
    expected: u16,
) -> Value {
    let (status, _, answer) = server.request(method, path, headers, body.as_bytes());
    assert_eq!(status, expected, "{method} {path}: {answer}");
    serde_json::from_str(&answer).unwrap_or_else(|_| panic!("{answer}"))
}

#[test]
fn yaml_is_what_kubectl_makes_of_it_at_every_door() {
    let server = Server::start();
    let text = |name: &str| {
        format!(
            "apiVersion: v1\nkind: ResourceQuota\nmetadata: {{name: {name}}}\n\
             spec: {{hard: {{pods: 010, requests.cpu: 0777, services: \"010\", limits.cpu: }}}}\n"
        )
    };
    let expected = json!({"pods": "8", "requests.cpu": "511", "services": "10"});
    let yaml = [("content-type", "application/yaml")];
    let apply = [("content-type", "application/apply-patch+yaml")];
    let (of_a, of_b) = (format!("{QUOTAS}/a"), format!("{QUOTAS}/b?fieldManager=x"));
    let json = r#"{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "b"},
        "spec": {"hard": {"pods": 8, "requests.cpu": 511, "services": "010", "limits.cpu": null}}}"#;
    for (method, path, headers, body, status) in [
        ("POST", QUOTAS, yaml, &*text("a"), 201),
        ("PUT", &of_a, yaml, &text("a"), 200),
        ("PATCH", &of_b, apply, &text("b"), 201),
        ("PATCH", &of_b, apply, json, 200),
    ] {
        let made = ask(&server, method, path, &headers, body, status);
        assert_eq!(made["spec"]["hard"], expected, "{method} {path}");
    }
    let refused = ask(&server, "POST", QUOTAS, &yaml, "a: 1\na: 2\n", 400);
    assert_eq!(
        refused["message"],
        "the body cannot be read: the key \"a\" is there twice at line 2 column 1"
    );
    let refused = ask(&server, "GET", &format!("{QUOTAS}?limit=1&limit=2"), &[], "", 400);
    assert_eq!(refused["message"], "cannot read the query: duplicate field `limit`");
    let refused = ask(&server, "POST", QUOTAS, &[], r#"{"metadata": 5}"#, 400);
    let message = refused["message"].as_str().unwrap();
    assert!(message.contains("expected an object"), "{message}");
}

/// However much there is to tell of few quotas.
#[test]
fn a_list_of_very_wide_quotas_has_to_be_continued() {
    let server = Server::start();
    for name in ["a", "b", "c"] {
        server.set_wide("wire", name, 80_000);
    }
    let page = ask(&server, "GET", QUOTAS, &[], "", 200);
    let names = |page: &Value| {
        let items = page["items"].as_array().unwrap();
        let names = items.iter().map(|item| item["metadata"]["name"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&page), ["a", "b"]);
    let more = page["metadata"]["continue"].as_str().unwrap();
    let path = format!("{QUOTAS}?continue={more}");
    let page = ask(&server, "GET", &path, &[], "", 200);
    assert_eq!(names(&page), ["c"]);
    assert_eq!(page["metadata"]["continue"], Value::Null);
}

#[test]
fn lists_come_in_pages() {
    let server = Server::with(Limits { page: 2, watch_streams: 1.into(), ..LIMITS });
    for name in ["a", "b", "c", "d", "e"] {
        create(
            &server,
            name,
            json!({"metadata": {"labels": {"odd": if "ace".contains(name) { "yes" } else { "no" }}}}),
        );
    }
    for path in [QUOTAS, "/api/v1/resourcequotas"] {
        let (mut names, mut after) = (Vec::new(), String::new());
        loop {
            let page = ask(
                &server,
                "GET",
                &format!("{path}?limit=2&labelSelector=odd%3Dyes&continue={after}"),
                &[],
                "",
                200,
            );
            assert_eq!(page["kind"], "ResourceQuotaList");
            names.extend(
                page["items"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|item| item["metadata"]["name"].clone()),
            );
            let Some(next) = page["metadata"]["continue"].as_str() else {
                break;
            };
            after = next.to_owned();
        }
        assert_eq!(names, ["a", "c", "e"]);
    }
    ask(&server, "GET", &format!("{QUOTAS}?continue=%20"), &[], "", 400);
    let partial = [("accept", "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")];
    let list = ask(&server, "GET", QUOTAS, &partial, "", 200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(list["items"][0].get("spec"), None);
}

#[test]
fn errors_are_status_objects() {
    let server = Server::start();
    create(&server, "q", json!({}));
    let quota = format!("{QUOTAS}/q");
    let json_type = [("content-type", "application/json")];
    for (method, path, headers, body, code, reason) in [
        ("GET", format!("{QUOTAS}/none"), &[][..], "", 404, "NotFound"),
        ("GET", format!("{QUOTAS}?labelSelector=a%20b"), &[], "", 400, "BadRequest"),
        ("GET", format!("{QUOTAS}?fieldSelector=spec.x%3D1"), &[], "", 400, "BadRequest"),
        ("GET", format!("{QUOTAS}?resourceVersion=99999"), &[], "", 504, "Timeout"),
        ("GET", QUOTAS.to_owned(), &[("accept", "text/html")], "", 406, "NotAcceptable"),
        ("PUT", format!("{quota}/status"), &[], "{}", 405, "MethodNotAllowed"),
        ("POST", "/api/v1/namespaces".to_owned(), &[], "{}", 405, "MethodNotAllowed"),
        (
            "POST",
            QUOTAS.to_owned(),
            &[("content-type", "text/csv")],
            "a",
            415,
            "UnsupportedMediaType",
        ),
        ("POST", QUOTAS.to_owned(), &[("origin", "http://evil")], "{}", 403, "Forbidden"),
        ("POST", QUOTAS.to_owned(), &[], "{", 400, "BadRequest"),
        ("POST", QUOTAS.to_owned(), &[], r#"{"kind":"Pod","apiVersion":"v1"}"#, 400, "BadRequest"),
        (
            "POST",
            QUOTAS.to_owned(),
            &[],
            r#"{"metadata":{"namespace":"other"}}"#,
            400,
            "BadRequest",
        ),
        ("POST", QUOTAS.to_owned(), &[], r#"{"metadata":{"name":"X!"}}"#, 422, "Invalid"),
        (
            "POST",
            format!("{QUOTAS}?dryRun=Some"),
            &[],
            r#"{"metadata":{"name":"x"}}"#,
            422,
            "Invalid",
        ),
        ("PATCH", quota.clone(), &json_type, "{}", 415, "UnsupportedMediaType"),
        (
            "PATCH",
            quota.clone(),
            &[("content-type", "application/apply-patch+yaml")],
            "{}",
            422,
            "Invalid",
        ),
        ("DELETE", quota.clone(), &json_type, "[]", 400, "BadRequest"),
        ("DELETE", quota.clone(), &json_type, "7", 400, "BadRequest"),
        ("DELETE", quota.clone(), &json_type, r#"{"preconditions":{"uid":"x"}}"#, 409, "Conflict"),
        (
            "DELETE",
            quota.clone(),
            &json_type,
            r#"{"preconditions":{"resourceVersion":"99"}}"#,
            409,
            "Conflict",
        ),
        ("PUT", quota.clone(), &[], r#"{"metadata":{"name":"q","uid":"other"}}"#, 409, "Conflict"),
        ("PUT", quota.clone(), &[], r#"{"metadata":{"name":"other"}}"#, 400, "BadRequest"),
    ] {
        let status = ask(&server, method, &path, headers, body, code);
        assert_eq!(
            (&status["kind"], &status["reason"]),
            (&json!("Status"), &json!(reason)),
            "{method} {path}"
        );
        assert_eq!(status["code"], code);
    }
}

#[test]
fn a_version_moves_with_the_figures() {
    let server = Server::start();
    let created = create(&server, "q", json!({}));
    create(&server, "other", json!({}));
    let version = || {
        let quota = ask(&server, "GET", &format!("{QUOTAS}/q"), &[], "", 200);
        quota["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap()
    };
    assert_eq!(created["metadata"]["resourceVersion"], "1");
    assert_eq!(version(), 1);
    server.observe("elsewhere", "p1", &[("pods", "1")]);
    assert_eq!(version(), 1);
    server.observe("wire", "p2", &[("pods", "1")]);
    assert_eq!(version(), 4);
}

#[test]
fn finalizers_hold_a_quota_up() {
    let server = Server::start();
    create(&server, "q", json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    let quota = format!("{QUOTAS}/q");
    let deleted = ask(&server, "DELETE", &quota, &[], "", 200);
    assert!(deleted["metadata"]["deletionTimestamp"].is_string(), "{deleted}");
    let still = ask(&server, "GET", &quota, &[], "", 200);
    assert_eq!(still["metadata"]["deletionTimestamp"], deleted["metadata"]["deletionTimestamp"]);
    let patch = [("content-type", "application/merge-patch+json")];
    ask(&server, "PATCH", &quota, &patch, r#"{"metadata":{"finalizers":null}}"#, 200);
    ask(&server, "GET", &quota, &[], "", 404);
}

#[test]
fn names_can_be_generated_and_collections_deleted() {
    let server = Server::start();
    let created = create(&server, "", json!({"metadata": {"name": null, "generateName": "team-"}}));
    let name = created["metadata"]["name"].as_str().unwrap();
    assert!(name.starts_with("team-") && name.len() == 10, "{name}");
    create(&server, "kept", json!({"metadata": {"labels": {"keep": "yes"}}}));
    let deleted = ask(&server, "DELETE", &format!("{QUOTAS}?labelSelector=!keep"), &[], "", 200);
    assert_eq!(deleted["items"][0]["metadata"]["name"], name);
    assert_eq!(ask(&server, "GET", QUOTAS, &[], "", 200)["items"].as_array().unwrap().len(), 1);
}

/// However wide its quotas are, and however few of them are read at once.
#[test]
fn a_collection_of_many_pages_is_deleted_as_a_whole() {
    let server = Server::with(Limits { page: 2, ..LIMITS });
    for name in ["a", "b", "c"] {
        server.set_wide("wire", name, 80_000);
    }
    create(&server, "d", json!({"metadata": {"finalizers": ["example.com/hold"]}}));
    create(&server, "e", json!({}));
    let deleted = ask(&server, "DELETE", QUOTAS, &[], "", 200);
    let names = |list: &Value| {
        let items = list["items"].as_array().unwrap();
        let names = items.iter().map(|item| item["metadata"]["name"].clone());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(&deleted), ["a", "b", "c", "d", "e"]);
    assert_eq!(deleted["kind"], "ResourceQuotaList");
    assert_eq!(deleted["metadata"]["continue"], Value::Null);
    let left = ask(&server, "GET", QUOTAS, &[], "", 200);
    assert_eq!(names(&left), ["d"]);
    let table = [("accept", "application/json;as=Table;g=meta.k8s.io;v=v1")];
    let waiting = ask(&server, "DELETE", QUOTAS, &table, "", 200);
    assert_eq!(waiting["rows"][0]["cells"][0], "d");
    assert_eq!(waiting["kind"], "Table");
}

#[test]
fn a_quota_of_the_cluster_is_changed_there() {
    let server = Server::start();
    let quota = create(&server, "q", json!({}));
    server.adopt("wire", "q", quota["metadata"]["uid"].as_str().unwrap());
    let path = format!("{QUOTAS}/q");
    let refused = |method, headers: &[(&str, &str)], body: &str| {
        let status = ask(&server, method, &path, headers, body, 409);
        assert_eq!(status["reason"], "Conflict", "{status}");
        let message = status["message"].as_str().unwrap();
        let place = "kubectl -n wire edit resourcequota q";
        assert!(message.contains(place), "{message}");
    };
    let mut more = quota.clone();
    more["spec"]["hard"]["pods"] = json!("2");
    refused("PUT", &[], &more.to_string());
    let merge = [("content-type", "application/merge-patch+json")];
    refused("PATCH", &merge, r#"{"spec":{"hard":{"pods":"2"}}}"#);
    refused("DELETE", &[], "");
    // What changes nothing is no edit.
    ask(&server, "PUT", &path, &[], &quota.to_string(), 200);
    create(&server, "own", json!({}));
    ask(&server, "DELETE", &format!("{QUOTAS}/own"), &[], "", 200);
}

#[test]
fn a_group_of_the_cluster_is_changed_there() {
    let server = Server::start();
    server.adopt_group("g");
    let path = "/apis/quota.openshift.io/v1/clusterresourcequotas/g";
    let mut group = ask(&server, "GET", path, &[], "", 200);
    assert_eq!(group["metadata"]["labels"], json!({"a": "b"}));
    assert!(!group.to_string().contains("adoptedVersion"), "{group}");
    group["spec"]["quota"]["hard"] = json!({"pods": "2"});
    let merge = [("content-type", "application/merge-patch+json")];
    for (method, headers, body) in [
        ("PUT", &[][..], group.to_string()),
        ("PATCH", &merge[..], r#"{"spec":{"quota":{"hard":{"pods":"2"}}}}"#.to_owned()),
        ("DELETE", &[][..], String::new()),
    ] {
        let status = ask(&server, method, path, headers, &body, 409);
        let message = status["message"].as_str().unwrap();
        assert!(message.contains("kubectl edit clusterresourcequota g"), "{message}");
    }
}

#[test]
fn no_more_warnings_are_sent_than_clients_read() {
    let server = Server::start();
    let spec: serde_json::Map<_, _> =
        (0..4000).map(|number| (format!("unknown{number}"), json!(1))).collect();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec});
    let path = "/api/v1/namespaces/team-a/resourcequotas?fieldValidation=Warn";
    let headers = [("content-type", "application/json")];
    let (status, head, body) = server.request("POST", path, &headers, quota.to_string().as_bytes());
    assert_eq!(status, 201, "{body}");
    let warnings: Vec<_> = head.lines().filter(|line| line.starts_with("warning: ")).collect();
    assert_eq!(warnings.len(), 16);
    assert_eq!(warnings[15], "warning: 299 - \"3985 more warnings were left out\"");
}
