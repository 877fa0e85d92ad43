//! What is available: the least that the quotas of a namespace, the groups above it and default quotas leave.

use quotad::auth::{Principal, Role};
use serde_json::{Value, json};

use crate::world::{Reply, World};

fn every() -> Value {
    json!({"labels": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["a", "b"]}]}})
}

async fn group(world: &World, name: &str, mut fields: Value) {
    fields["selector"] = every();
    world.put(&format!("/v1/groups/{name}"), &fields).await.is(201);
}

/// Two namespaces with 20 pods each, and a group over both with 5: `a` uses 4, `b` reserves 1.
async fn shared() -> World {
    let world = World::new();
    for namespace in ["a", "b"] {
        let quota = json!({"spec": {"hard": {"pods": "20", "services": "2"}}}).to_string();
        let path = format!("/v1/namespaces/{namespace}/quotas/own");
        world.call("PUT", &path, &[], quota).await.is(201);
    }
    group(&world, "company", json!({"hard": {"pods": "5"}})).await;
    let event = json!({"type": "ADDED", "namespace": "a", "resource": "widgets.example.com", "name": "w", "uid": "w",
                       "resourceVersion": "1", "usage": {"pods": "4"}});
    world.events(&[event]).await;
    reserve(&world, "b", "held", json!({"pods": "1"})).await.is(201);
    world
}

async fn reserve(world: &World, namespace: &str, uid: &str, amounts: Value) -> Reply {
    let path = format!("/v1/namespaces/{namespace}/reservations");
    let body = json!({"reservedBy": {"uid": uid}, "reserved": amounts});
    world.post(&path, &body).await
}

/// What a caller reads that has rights in some namespaces only.
async fn as_tenant(world: &World, path: &str) -> Reply {
    let tenant = Principal::new("tenant", &[Role::Read], &["a".parse().unwrap()]);
    world.get_as(&tenant, path).await
}

#[tokio::test]
async fn a_group_that_leaves_less_than_the_quota_binds() {
    let world = shared().await;
    let usage = world.get("/v1/namespaces/a/usage").await;
    let expected = json!({
        "pods": {"available": "0", "boundBy": {"kind": "ClusterResourceQuota", "name": "company", "hard": "5",
                                               "used": "4", "reserved": "1"}},
        "services": {"available": "2", "boundBy": {"kind": "ResourceQuota", "name": "own", "hard": "2",
                                                   "used": "0", "reserved": "0"}},
    });
    assert_eq!(usage.is(200).body["room"], expected);
    // The quota alone would leave more.
    let own = &usage.body["quotas"][0]["resources"][0];
    assert_eq!((&own["resource"], &own["available"]), (&json!("pods"), &json!("16")));
    let denied = reserve(&world, "a", "more", json!({"pods": "1"})).await;
    assert_eq!(denied.is(403).body["reason"], "ExceedsHard");
    world.delete("/v1/namespaces/b/reservations/held").await.is(204);
    let usage = world.get("/v1/namespaces/a/usage").await;
    assert_eq!(usage.body["room"]["pods"]["available"], "1");
    reserve(&world, "a", "more", json!({"pods": "1"})).await.is(201);

    // As it was.
    let then = world.get("/v1/namespaces/a/usage?sequence=5").await;
    assert_eq!(then.is(200).body["room"], expected);
}

#[tokio::test]
async fn fullness_is_that_of_the_limit_that_binds() {
    let world = shared().await;
    let all = world.get("/v1/usage").await;
    let expected = json!({"quota": "company", "kind": "ClusterResourceQuota", "resource": "pods", "hard": "5",
                          "used": "4", "reserved": "1", "available": "0", "share": 1.0});
    for item in all.is(200).items() {
        assert_eq!(item["fullest"], expected);
    }
}

#[tokio::test]
async fn who_may_not_read_groups_sees_the_room_and_not_what_others_use() {
    let world = shared().await;
    let usage = as_tenant(&world, "/v1/namespaces/a/usage").await;
    let pods = json!({"available": "0", "boundBy": {"kind": "ClusterResourceQuota", "name": "company", "hard": "5"}});
    assert_eq!(usage.is(200).body["room"]["pods"], pods);
    assert_eq!(usage.body["room"]["services"]["boundBy"]["used"], "0");
}

#[tokio::test]
async fn a_default_quota_is_a_limit_of_each_namespace() {
    let world = World::new();
    group(&world, "default", json!({"hard": {"pods": "3"}, "each": true})).await;
    reserve(&world, "a", "u", json!({"pods": "2"})).await.is(201);
    for (namespace, available, reserved) in [("a", "1", "2"), ("b", "3", "0")] {
        let bound_by = json!({"kind": "ClusterResourceQuota", "name": "default", "hard": "3", "used": "0",
                              "reserved": reserved});
        let room = json!({"pods": {"available": available, "boundBy": bound_by}});
        let usage = world.get(&format!("/v1/namespaces/{namespace}/usage")).await;
        assert_eq!(usage.is(200).body["room"], room);
    }
    // Its amounts are those of the namespace alone, so that its readers may see them.
    let usage = as_tenant(&world, "/v1/namespaces/a/usage").await;
    assert_eq!(usage.is(200).body["room"]["pods"]["boundBy"]["reserved"], "2");
    let all = world.get("/v1/usage").await;
    assert_eq!(all.is(200).items()[0]["fullest"]["quota"], "default");
    // A quota of the same name replaces it.
    let quota = json!({"spec": {"hard": {"pods": "9"}}}).to_string();
    let path = "/v1/namespaces/a/quotas/default";
    world.call("PUT", path, &[], quota).await.is(201);
    let usage = world.get("/v1/namespaces/a/usage").await;
    assert_eq!(usage.body["room"]["pods"]["available"], "7");
}

#[tokio::test]
async fn guarantees_of_others_are_not_available() {
    let world = World::new();
    group(&world, "all", json!({"hard": {"pods": "10"}})).await;
    let other = json!({"selector": {"labels": {"matchLabels": {"kubernetes.io/metadata.name": "b"}}},
                       "hard": {"pods": "8"}, "guaranteed": {"pods": "6"}, "parent": "all"});
    world.put("/v1/groups/other", &other).await.is(201);
    reserve(&world, "b", "u", json!({"pods": "2"})).await.is(201);
    let usage = world.get("/v1/namespaces/a/usage").await;
    let all = json!({"kind": "ClusterResourceQuota", "name": "all", "hard": "10", "used": "0", "reserved": "2",
                     "guaranteedToOthers": "4"});
    let room = json!({"available": "4", "boundBy": all});
    assert_eq!(usage.is(200).body["room"]["pods"], room);
    // What is guaranteed to itself is.
    let usage = world.get("/v1/namespaces/b/usage").await;
    assert_eq!(usage.body["room"]["pods"]["available"], "6");
    assert_eq!(usage.body["room"]["pods"]["boundBy"]["name"], "other");
    reserve(&world, "a", "v", json!({"pods": "5"})).await.is(403);
    reserve(&world, "a", "v", json!({"pods": "4"})).await.is(201);
}

#[tokio::test]
async fn limits_that_deny_nothing_or_count_some_objects_do_not_bind() {
    let world = World::new();
    group(&world, "watched", json!({"hard": {"pods": "1"}, "enforcement": "warn"})).await;
    let scoped = json!({"spec": {"hard": {"pods": "2"}, "scopes": ["BestEffort"]}}).to_string();
    let path = "/v1/namespaces/a/quotas/scoped";
    world.call("PUT", path, &[], scoped).await.is(201);
    let usage = world.get("/v1/namespaces/a/usage").await;
    assert_eq!(usage.is(200).body["room"], json!({}));
    reserve(&world, "a", "u", json!({"pods": "3"})).await.is(201);
    // The limit that denies is the fullest, although the other is passed.
    let all = world.get("/v1/usage").await;
    assert_eq!(all.is(200).items()[0]["fullest"]["quota"], "scoped");
}
