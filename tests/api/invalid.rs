//! Manifests with very much that is invalid, or with very much metadata.

use serde_json::{Map, Value, json};

use crate::world::World;

const V1: &str = "/v1/namespaces/a/quotas/q";

fn quota(metadata: &Value, hard: &Value) -> Value {
    let mut body = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}});
    body["metadata"]["name"] = json!("q");
    body["metadata"]["namespace"] = json!("a");
    body
}

fn map(count: usize, key: &str, value: &Value) -> Value {
    let entries = (0..count).map(|number| (format!("{key}{number}"), value.clone()));
    Value::Object(entries.collect::<Map<_, _>>())
}

#[tokio::test]
async fn a_refusal_is_short_however_much_is_invalid() {
    let world = World::new();
    let owner = json!({"apiVersion": "v1", "kind": "A", "name": "n".repeat(60_000), "uid": "1", "controller": true});
    for body in [
        quota(&json!({"finalizers": vec![""; 60_000]}), &json!({})),
        quota(&json!({"labels": map(20_000, "-", &json!("-"))}), &json!({})),
        quota(&json!({}), &map(20_000, "-", &json!("-1"))),
        quota(&json!({}), &map(20_000, "pods-", &json!("many"))),
        quota(&json!({"ownerReferences": vec![owner; 10]}), &json!({})),
    ] {
        let refused = world.put(V1, &body).await;
        refused.is_refused(422, "Invalid");
        let errors = refused.body["errors"].as_array().unwrap();
        assert!(errors.len() <= 100, "{} errors", errors.len());
        let bytes = refused.body.to_string().len();
        assert!(bytes < 300 << 10, "{bytes} bytes");
    }
}

/// A namespace has a hundred quotas, which all stay in memory.
#[tokio::test]
async fn a_quota_has_so_much_metadata() {
    let world = World::new();
    let owner = |bytes: usize| {
        let name = "n".repeat(bytes);
        json!({"ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": name, "uid": "1"}]})
    };
    let (much, too_much) = (owner(500_000), owner(600_000));
    let why = "Too long: may not be more than 524288 bytes";
    let refused = world.put(V1, &quota(&too_much, &json!({}))).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(
        refused.body["errors"],
        json!([{"field": "metadata", "message": why, "type": "FieldValueTooLong"}])
    );
    world.put(V1, &quota(&much, &json!({}))).await.is(201);
    world.put(V1, &quota(&too_much, &json!({}))).await.is_refused(422, "Invalid");
    world.put(V1, &quota(&much, &json!({"pods": "1"}))).await.is(200);
}

/// It is a fact that the cluster has it.
#[tokio::test]
async fn a_quota_of_the_cluster_may_have_more_metadata_and_keeps_as_much() {
    let world = World::adopting(false);
    let of_owner = |bytes: usize, pods: &str| {
        let owner = json!({"apiVersion": "v1", "kind": "A", "name": "n".repeat(bytes), "uid": "1"});
        quota(&json!({"ownerReferences": [owner]}), &json!({"pods": pods}))
    };
    let mut object = of_owner(600_000, "1");
    object["metadata"]["uid"] = json!("of-cluster");
    object["metadata"]["resourceVersion"] = json!("5");
    let event = json!({"type": "ADDED", "object": object});
    let taken = world.post("/v1/events", &event).await;
    assert_eq!(taken.is(200).body["accepted"], 1);
    world.put(V1, &of_owner(600_000, "2")).await.is(200);
    let refused = world.put(V1, &of_owner(600_001, "2")).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(refused.body["errors"][0]["field"], "metadata");
    world.put(V1, &of_owner(599_999, "3")).await.is(200);
    assert_eq!(world.get(V1).await.body["spec"]["hard"]["pods"], "3");
}

/// What else is wrong with a manifest does not hide that it was edited while the quota changed.
#[tokio::test]
async fn a_stale_manifest_is_a_conflict_even_if_it_is_invalid() {
    let world = World::new();
    let created = world.put(V1, &quota(&json!({}), &json!({"pods": "1"}))).await;
    let uid = &created.is(201).body["metadata"]["uid"];
    let mut body = quota(&json!({"uid": uid, "resourceVersion": "77"}), &json!({"pods": "-1"}));
    world.put(V1, &body).await.is_refused(409, "Conflict");
    body["metadata"]["resourceVersion"] = json!("1");
    let refused = world.put(V1, &body).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(refused.body["errors"][0]["field"], "spec.hard[pods]");
    assert!(refused.body["asOf"]["sequence"].is_u64());
}
