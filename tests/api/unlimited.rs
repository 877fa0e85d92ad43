//! What nothing limits: most often a typing error.

use quota_core::decide::Unlimited;
use serde_json::{Value, json};

use crate::world::World;

const ALL: &str = "/v1/namespaces/a/reservations";

fn wanting(uid: &str, reserved: Value) -> Value {
    json!({"reservedBy": {"uid": uid}, "reserved": reserved})
}

#[tokio::test]
async fn a_grant_names_the_quotas_that_hold_it_and_what_nothing_limits() {
    let world = World::new();
    world.quota(json!({"pods": "9", "requests.memory": "8Gi"})).await;
    let other = json!({"spec": {"hard": {"requests.cpu": "4"}}});
    world.put("/v1/namespaces/a/quotas/other", &other).await.is(201);
    let granted = world.post(ALL, &wanting("u1", json!({"pods": "1"}))).await;
    granted.is(201);
    assert_eq!(granted.body["quotas"], json!(["q"]));
    assert_eq!(granted.body["unlimited"], json!([]));
    assert!(granted.body.get("warnings").is_none());
    assert!(!granted.headers.contains_key("warning"));

    let typo = json!({"pods": "1", "requests.cpu": "1", "memory": "1Gi", "requests.example.com/gpu": "1", "zero": "0"});
    let granted = world.post(ALL, &wanting("u2", typo.clone())).await;
    granted.is(201);
    assert_eq!(granted.body["quotas"], json!(["other", "q"]));
    assert_eq!(granted.body["unlimited"], json!(["memory", "requests.example.com/gpu"]));
    let warning = "no quota of namespace \"a\" limits memory, requests.example.com/gpu";
    assert_eq!(granted.body["warnings"], json!([warning]));
    assert_eq!(
        granted.header("warning"),
        "299 - \"no quota of namespace \\\"a\\\" limits memory, requests.example.com/gpu\""
    );
    // A later read shows the state at that time.
    let later = json!({"spec": {"hard": {"requests.example.com/gpu": "4"}}});
    world.put("/v1/namespaces/a/quotas/third", &later).await.is(201);
    let found = world.get(&format!("{ALL}/u2")).await;
    assert_eq!(found.body["quotas"], json!(["other", "q", "third"]));
    assert_eq!(found.body["unlimited"], json!(["memory"]));
    // What has ended holds nothing.
    world.delete(&format!("{ALL}/u2")).await.is(204);
    let ended = world.get(&format!("{ALL}/u2")).await;
    assert_eq!(ended.body["state"], "released");
    assert!(ended.body.get("quotas").is_none() && ended.body.get("unlimited").is_none());

    let checked = world.post("/v1/namespaces/a/check", &wanting("u3", typo)).await;
    assert_eq!(checked.is(200).body["fits"], true);
    assert_eq!(checked.body["unlimited"], json!(["memory"]));
    assert_eq!(checked.body["warnings"], json!(["no quota of namespace \"a\" limits memory"]));
}

#[tokio::test]
async fn a_mistyped_namespace_is_warned_of_in_batches_too() {
    let world = World::new();
    world.quota(json!({"pods": "9"})).await;
    for atomic in [false, true] {
        let item = |namespace: &str| {
            let uid = format!("{namespace}-{atomic}");
            json!({"namespace": namespace, "reservedBy": {"uid": uid}, "reserved": {"pods": "1"}})
        };
        let batch = json!({"atomic": atomic, "items": [item("a"), item("aa")]});
        let answer = world.post("/v1/reservations:batch", &batch).await;
        let [right, wrong] = answer.is(200).items() else { panic!("{answer:?}") };
        assert_eq!(right["quotas"], json!(["q"]));
        assert!(right.get("warnings").is_none());
        assert_eq!(wrong["quotas"], json!([]));
        assert_eq!(wrong["unlimited"], json!(["pods"]));
        assert_eq!(wrong["warnings"], json!(["no quota of namespace \"aa\" limits pods"]));
    }
}

#[tokio::test]
async fn it_is_denied_or_passed_over_where_that_is_the_policy() {
    let silent = World::with_policy(|policy| policy.unlimited = Unlimited::Allow);
    let granted = silent.post(ALL, &wanting("u1", json!({"gpus": "1"}))).await;
    assert_eq!(granted.is(201).body["unlimited"], json!(["gpus"]));
    assert!(granted.body.get("warnings").is_none());

    let strict = World::with_policy(|policy| policy.unlimited = Unlimited::Deny);
    strict.quota(json!({"pods": "9"})).await;
    let wanted = wanting("u1", json!({"pods": "1", "gpus": "1"}));
    let denied = strict.post(ALL, &wanted).await;
    denied.is_refused(403, "InsufficientQuota");
    assert_eq!(denied.body["detail"], "insufficient quota to consume: gpus");
    assert_eq!(denied.body["fitsWhenEmpty"], false);
    let checked = strict.post("/v1/namespaces/a/check", &wanted).await;
    assert_eq!(checked.is(200).body["fits"], false);
    assert_eq!(checked.body["reason"], "InsufficientQuota");
    let mistyped = "/v1/namespaces/aa/reservations";
    let denied = strict.post(mistyped, &wanting("u1", json!({"pods": "1"}))).await;
    denied.is_refused(403, "InsufficientQuota");
    strict.post(ALL, &wanting("u1", json!({"pods": "1"}))).await.is(201);
}

#[tokio::test]
async fn of_an_object_other_names_of_what_is_limited_are_no_typing_errors() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4", "requests.memory": "8Gi"})).await;
    let pod = |uid: &str, resources: Value| {
        let container = json!({"name": "c", "resources": {"requests": resources}});
        json!({"object": {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": uid, "uid": uid},
            "spec": {"containers": [container]},
        }})
    };
    let plain = pod("p1", json!({"cpu": "1", "memory": "1Gi"}));
    let granted = world.post(ALL, &plain).await;
    assert_eq!(granted.is(201).body["quotas"], json!(["q"]));
    assert!(granted.body.get("warnings").is_none(), "{granted:?}");
    assert_eq!(granted.body["unlimited"], json!(["count/pods", "pods"]));
    let gpu = json!({"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"});
    let granted = world.post(ALL, &pod("p2", gpu)).await;
    assert_eq!(
        granted.is(201).body["warnings"],
        json!(["no quota of namespace \"a\" limits requests.example.com/gpu"])
    );
}

#[tokio::test]
async fn reservations_of_any_state_are_listed_in_pages() {
    let world = World::new();
    world.quota(json!({"pods": "20"})).await;
    for number in 0..9 {
        let uid = format!("u{number}");
        world.post(ALL, &wanting(&uid, json!({"pods": "1"}))).await.is(201);
    }
    // In another order than they were granted in.
    for number in [6, 2, 4] {
        world.delete(&format!("{ALL}/u{number}")).await.is(204);
    }
    for number in [8, 1] {
        let commit = format!("{ALL}/u{number}/commit");
        world.post(&commit, &json!({})).await.is(200);
    }
    let list = async |state: &str| {
        let mut uids = Vec::new();
        let mut path = format!("{ALL}?limit=2&state={state}");
        loop {
            let page = world.get(&path).await;
            for item in page.is(200).items() {
                assert_eq!(item["state"], state);
                uids.push(item["reservedBy"]["uid"].as_str().unwrap().to_owned());
            }
            match page.body["continue"].as_str() {
                Some(token) => path = format!("{ALL}?limit=2&state={state}&continue={token}"),
                None => return uids,
            }
        }
    };
    assert_eq!(list("pending").await, ["u0", "u3", "u5", "u7"]);
    assert_eq!(list("released").await, ["u6", "u2", "u4"]);
    assert_eq!(list("committed").await, ["u1", "u8"]);
    assert_eq!(list("expired").await, [""; 0]);
    assert_eq!(list("observed").await, [""; 0]);
    assert_eq!(world.get(ALL).await.items().len(), 4);
    let wrong = world.get(&format!("{ALL}?state=gone")).await;
    wrong.is_refused(400, "Malformed");
    let none = world.get("/v1/namespaces/none/reservations?state=released").await;
    assert!(none.is(200).items().is_empty());
}
