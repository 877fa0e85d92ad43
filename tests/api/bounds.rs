//! What one request may carry, and what one namespace may have.

use serde_json::{Map, Value, json};

use crate::world::World;

const RESERVATIONS: &str = "/v1/namespaces/a/reservations";

fn amounts(names: impl IntoIterator<Item = String>) -> Value {
    let amounts: Map<_, _> = names.into_iter().map(|name| (name, json!("1"))).collect();
    amounts.into()
}

fn reserve_request(uid: &str, reserved: &Value) -> Value {
    json!({"reservedBy": {"uid": uid}, "reserved": reserved})
}

fn names(from: usize, count: usize) -> impl Iterator<Item = String> {
    (from..from + count).map(|number| format!("example.com/r{number}"))
}

#[tokio::test]
async fn a_reservation_is_for_so_many_resources_with_so_long_names() {
    let world = World::new();
    let reserve = async |uid: &str, reserved: Value| {
        world.post(RESERVATIONS, &reserve_request(uid, &reserved)).await
    };
    let refused = reserve("u1", amounts(names(0, 65))).await;
    refused.is_refused(422, "LimitReached");
    let detail = refused.body["detail"].as_str().unwrap();
    assert!(detail.starts_with("limits.reservation_resources is 64"), "{detail}");
    let check = reserve_request("u1", &amounts(names(0, 65)));
    let refused = world.post("/v1/namespaces/a/check", &check).await;
    refused.is_refused(422, "LimitReached");
    let long = |number| format!("{}.example.com/r{number}", vec!["x".repeat(40); 5].join("."));
    let refused = reserve("u1", amounts((0..40).map(long))).await;
    refused.is_refused(422, "LimitReached");
    reserve("u1", amounts(names(0, 64))).await.is(201);
    reserve("u2", amounts((0..30).map(long))).await.is(201);
}

/// Neither the queue nor the deciding thread gets a request that no bound would allow.
#[tokio::test]
async fn an_object_for_very_many_resources_is_refused_before_it_is_decided() {
    let world = World::new();
    let pod = |count| {
        let requests = amounts(names(0, count));
        json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "uid": "u1"},
            "spec": {"containers": [{"name": "c", "resources": {"requests": &requests, "limits": requests}}]},
        })
    };
    for path in [RESERVATIONS, "/v1/namespaces/a/check"] {
        let refused = world.post(path, &json!({"object": pod(10_000)})).await;
        refused.is_refused(422, "Invalid");
        assert_eq!(refused.body["errors"][0]["field"], "object", "{path}");
        let refused = world.post(path, &json!({"object": pod(100)})).await;
        refused.is_refused(422, "LimitReached");
    }
}

/// A sum is kept of each resource that something in a namespace names.
#[tokio::test]
async fn a_namespace_has_so_many_different_resources() {
    let world = World::new();
    world.quota(json!({"pods": "9"})).await;
    for round in 0..16 {
        let body = reserve_request(&format!("u{round}"), &amounts(names(round * 64, 64)));
        world.post(RESERVATIONS, &body).await.is(201);
    }
    let one_more = reserve_request("v1", &amounts(names(1024, 1)));
    let known = reserve_request("v2", &amounts(names(7, 64)));
    world.post(RESERVATIONS, &known).await.is(201);
    let refused = world.post(RESERVATIONS, &one_more).await;
    refused.is_refused(422, "LimitReached");
    // That is the matter of this namespace alone.
    let elsewhere = "/v1/namespaces/b/reservations";
    world.post(elsewhere, &one_more).await.is(201);
    // A name goes with the last reservation of it.
    let last = format!("{RESERVATIONS}/u15");
    world.delete(&last).await.is(204);
    world.post(RESERVATIONS, &one_more).await.is(201);
}

#[tokio::test]
async fn a_namespace_has_so_many_quotas_of_so_many_limits() {
    let world = World::new();
    let put = async |name: &str, hard: Value| {
        let path = format!("/v1/namespaces/a/quotas/{name}");
        let body = json!({"spec": {"hard": hard}}).to_string();
        world.call("PUT", &path, &[], body).await
    };
    let refused = put("wide", amounts(names(0, 257))).await;
    refused.is_refused(422, "LimitReached");
    put("wide", amounts(names(0, 256))).await.is(201);
    for number in 1..100 {
        put(&format!("q{number}"), json!({"pods": "1"})).await.is(201);
    }
    put("q100", json!({"pods": "1"})).await.is_refused(422, "LimitReached");
    put("q1", json!({"pods": "2"})).await.is(200);
}

/// A page of quotas takes little work, however many reservations the quotas have.
#[tokio::test]
async fn lists_of_quotas_tell_some_of_many_reservations() {
    let world = World::new();
    let wide: Map<_, _> = names(0, 200).map(|name| (name, json!("9"))).collect();
    for number in 0..60 {
        let path = format!("/v1/namespaces/a/quotas/q{number:0>2}");
        let mut hard = wide.clone();
        hard.insert("pods".to_owned(), json!("1000"));
        let body = json!({"spec": {"hard": hard}}).to_string();
        world.call("PUT", &path, &[], body).await.is(201);
    }
    let pods = json!({"pods": "1"});
    for number in 0..300 {
        let body = reserve_request(&format!("u{number}"), &pods);
        world.post(RESERVATIONS, &body).await.is(201);
    }
    let one = world.get("/v1/namespaces/a/quotas/q00").await;
    one.is(200);
    let status = &one.body["status"];
    assert_eq!(status["reservations"].as_array().unwrap().len(), 200);
    assert_eq!(status["reservationsOmitted"], 100);
    assert_eq!(status["reserved"]["pods"], "300");
    for list in ["/v1/namespaces/a/quotas", "/v1/quotas"] {
        let (mut seen, mut pages, mut more) = (Vec::new(), 0, String::new());
        loop {
            let page = world.get(&format!("{list}?continue={more}")).await;
            page.is(200);
            let name = |item: &Value| item["metadata"]["name"].as_str().unwrap().to_owned();
            seen.extend(page.items().iter().map(name));
            pages += 1;
            match page.body["continue"].as_str() {
                Some(next) => next.clone_into(&mut more),
                None => break,
            }
        }
        assert!((2..6).contains(&pages), "{pages} pages of {list}");
        let all: Vec<_> = (0..60).map(|number| format!("q{number:0>2}")).collect();
        assert_eq!(seen, all, "{list}");
    }
}
