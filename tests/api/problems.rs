//! Requests that cannot be read, or lead nowhere.

use serde_json::json;

use crate::world::{World, pods};

const ALL: &str = "/v1/namespaces/a/reservations";
const INIT: &str = "/v1/cluster/init";

#[tokio::test]
async fn paths_and_methods_that_are_not_there() {
    let world = World::new();
    world.get("/v2").await.is_refused(404, "NotFound");
    world.get("/v1/namespaces/a/nothing").await.is_refused(404, "NotFound");
    let refused = world.delete(ALL).await;
    refused.is_refused(405, "MethodNotAllowed");
    let allowed = refused.header("allow");
    assert!(allowed.contains("GET") && allowed.contains("POST"), "{allowed}");
    world.get(&format!("{ALL}/%ff")).await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn bodies_that_are_not_what_they_should_be() {
    let world = World::new();
    let json = [("content-type", "application/json")];
    for (text, named) in [
        ("", "EOF"),
        ("{", "EOF"),
        ("[]", "object"),
        (r#"{"reservedBy":{"uid":"u"},"reservd":{}}"#, "`reservd`"),
        (r#"{"reservedBy":{"uid":"u","colour":"red"},"reserved":{}}"#, "`colour`"),
        (r#"{"reservedBy":{"uid":7},"reserved":{}}"#, "integer `7`"),
        (r#"{"reservedBy":{"uid":"u"},"reserved":{"pods":"1","pods":"2"}}"#, "twice"),
        (r#"{"reservedBy":{"uid":"u"},"reservedBy":{"uid":"v"},"reserved":{}}"#, "duplicate"),
        (r#"{"reservedBy":{"uid":"u"},"reserved":["pods"]}"#, "quantities by resource name"),
    ] {
        let refused = world.call("POST", ALL, &json, text).await;
        refused.is_refused(400, "Malformed");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.contains(named), "{text}: {detail}");
    }
    let deep = format!(r#"{{"object":{}{}}}"#, "[".repeat(1000), "]".repeat(1000));
    let refused = world.call("POST", ALL, &json, deep).await;
    refused.is_refused(422, "Invalid");
    let many: serde_json::Map<_, _> =
        (0..257).map(|index| (format!("r{index}"), json!("1"))).collect();
    let body = json!({"reservedBy": {"uid": "u"}, "reserved": many});
    world.post(ALL, &body).await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn quantities_of_any_size_are_answered() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "1"})).await;
    for huge in
        ["1e999999", "99999999999999999999999999999999999999", "1E", "9223372036854775807Ei"]
    {
        let body = json!({"reservedBy": {"uid": "u"}, "reserved": {"requests.cpu": huge}});
        let reply = world.post(ALL, &body).await;
        assert!(matches!(reply.status, 403 | 422), "{huge}: {reply:?}");
    }
}

#[tokio::test]
async fn the_type_of_a_body_is_looked_at() {
    let world = World::new();
    let text = pods("u", 1).to_string();
    let xml = world.call("POST", ALL, &[("content-type", "text/xml")], text.clone()).await;
    xml.is_refused(415, "UnsupportedMediaType");
    for media_type in
        ["application/json; charset=utf-8", "application/merge-patch+json", "text/plain"]
    {
        let reply = world.call("POST", ALL, &[("content-type", media_type)], text.clone()).await;
        assert!(matches!(reply.status, 200 | 201), "{media_type}: {reply:?}");
    }
}

#[tokio::test]
async fn pages_of_other_origins_cannot_write() {
    let world = World::new();
    let text = pods("u", 1).to_string();
    let host = ("host", "127.0.0.1:8480");
    for origin in ["https://evil.example", "null", "http://127.0.0.1:80"] {
        let headers = [host, ("origin", origin)];
        let reply = world.call("POST", ALL, &headers, text.clone()).await;
        reply.is_refused(403, "CrossOrigin");
        let events = world.call("POST", "/v1/events", &headers, "x").await;
        events.is_refused(403, "CrossOrigin");
        let init = world.call("POST", INIT, &headers, "").await;
        init.is_refused(403, "CrossOrigin");
        for path in ["/v1/namespaces/a/reservations/u", "/v1/namespaces/a/quotas/q", "/v1/groups/g"]
        {
            let deleted = world.call("DELETE", path, &headers, "").await;
            deleted.is_refused(403, "CrossOrigin");
        }
    }
    let own = [host, ("origin", "http://127.0.0.1:8480")];
    world.call("POST", ALL, &own, text).await.is(201);
    // There is no cluster.
    let init = world.call("POST", INIT, &own, "").await;
    init.is_refused(404, "NotFound");
}

#[tokio::test]
async fn over_http2_the_uri_names_the_own_origin() {
    let world = World::new();
    let uri = |path: &str| format!("https://quotad.example:8480{path}");
    let quota = uri("/v1/namespaces/team-a/quotas/none");
    let own = [("origin", "https://quotad.example:8480")];
    let foreign = [("origin", "https://evil.example")];
    let text = pods("u", 1).to_string();
    for (method, uri) in
        [("POST", uri(ALL)), ("POST", uri("/v1/events")), ("DELETE", quota.clone())]
    {
        let reply = world.call(method, &uri, &foreign, text.clone()).await;
        reply.is_refused(403, "CrossOrigin");
    }
    world.call("POST", &uri(ALL), &own, text).await.is(201);
    let missing = world.call("DELETE", &quota, &own, "").await;
    missing.is_refused(404, "NotFound");
}

#[tokio::test]
async fn a_parameter_that_a_route_does_not_declare_is_refused() {
    let world = World::new();
    world.quota(json!({"pods": "3"})).await;
    let quota = "/v1/namespaces/a/quotas/q";
    for (method, path) in [
        ("GET", format!("{quota}?at=2020-01-01T00:00:00Z")),
        ("DELETE", format!("{quota}?dryRun=All")),
        ("PUT", format!("{quota}?fieldManager=me")),
        ("POST", format!("{ALL}?ttl=5m")),
        ("DELETE", format!("{ALL}/u?force")),
        ("POST", "/v1/reservations:batch?atomic=true".to_owned()),
        ("GET", "/v1/status?verbose=1".to_owned()),
        ("GET", "/v1/entries?fromSequence=1".to_owned()),
    ] {
        let refused = world.call(method, &path, &[], pods("u", 1).to_string()).await;
        refused.is_refused(400, "Malformed");
        let detail = refused.body["detail"].as_str().unwrap();
        assert!(detail.starts_with("unknown query parameter"), "{detail}");
    }
    world.get(quota).await.is(200);
    world.get("/v1/status?").await.is(200);
    assert!(world.get(ALL).await.items().is_empty());
}

#[tokio::test]
async fn a_long_selector_is_refused() {
    let world = World::new();
    let selector = |count| vec!["!a"; count].join(",");
    for list in ["/v1/quotas", "/v1/namespaces/a/quotas", "/v1/groups"] {
        let path = |count| format!("{list}?labelSelector={}", selector(count));
        world.get(&path(100)).await.is(200);
        let refused = world.get(&path(101)).await;
        refused.is_refused(400, "Malformed");
    }
}

#[tokio::test]
async fn a_reason_that_cannot_be_kept_is_refused() {
    let world = World::new();
    let long = "x".repeat(600);
    let path = "/v1/namespaces/a/quotas/q";
    let reply = world.call("PUT", path, &[("x-change-reason", &long)], "{}").await;
    reply.is_refused(400, "Malformed");
}
