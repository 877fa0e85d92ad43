//! What sources show of namespaces themselves.

use serde_json::{Value, json};

use crate::world::World;

fn namespace(change: &str, uid: &str, version: u64, team: &str) -> Value {
    json!({"type": change, "object": {
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {
            "name": "a", "uid": uid, "resourceVersion": version.to_string(),
            "labels": {"kubernetes.io/metadata.name": "a", "team": team},
            "annotations": {
                "owner": "jane",
                "long": "x".repeat(257),
                "kubectl.kubernetes.io/last-applied-configuration": "{}",
            },
        },
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"}}})
}

async fn recorded(world: &World) -> Vec<Value> {
    let entries = world.get("/v1/entries").await;
    let events = entries.items().iter().map(|entry| entry["event"].clone());
    let is_of_namespaces = |event: &Value| event["type"].as_str().unwrap().starts_with("Namespace");
    events.filter(is_of_namespaces).collect()
}

async fn tell(world: &World, event: &Value) -> (u64, u64) {
    let answer = world.post("/v1/events", event).await;
    let body = answer.is(200).body.clone();
    assert_eq!(body["rejected"], json!([]));
    let count = |name: &str| body[name].as_u64().unwrap();
    (count("accepted"), count("ignored"))
}

#[tokio::test]
async fn labels_are_recorded_with_each_newer_version() {
    let world = World::new();
    let first = namespace("ADDED", "n1", 5, "red");
    assert_eq!(tell(&world, &first).await, (1, 0));
    // A newer version that says the same is recorded, since an older one that does not must not count any more.
    for (version, team, counts) in [(5, "red", (0, 1)), (7, "red", (1, 0)), (6, "blue", (0, 1))] {
        let event = namespace("MODIFIED", "n1", version, team);
        assert_eq!(tell(&world, &event).await, counts, "{version}");
    }
    assert_eq!(tell(&world, &namespace("MODIFIED", "n1", 8, "blue")).await, (1, 0));
    assert_eq!(tell(&world, &namespace("DELETED", "n1", 9, "blue")).await, (1, 0));
    assert_eq!(tell(&world, &namespace("DELETED", "n1", 9, "blue")).await, (0, 1));
    // Its end is final; another one of the name is another one.
    assert_eq!(tell(&world, &namespace("MODIFIED", "n1", 10, "red")).await, (0, 1));
    assert_eq!(tell(&world, &namespace("ADDED", "n2", 11, "red")).await, (1, 0));

    let recorded = recorded(&world).await;
    let kinds: Vec<_> = recorded.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(
        kinds,
        [
            "NamespaceObserved",
            "NamespaceObserved",
            "NamespaceObserved",
            "NamespaceDeleted",
            "NamespaceObserved"
        ]
    );
    assert_eq!(
        recorded[0],
        json!({
            "type": "NamespaceObserved", "name": "a", "uid": "n1", "version": 5,
            "labels": {"kubernetes.io/metadata.name": "a", "team": "red"},
            "annotations": {"owner": "jane"},
        })
    );
    assert_eq!(recorded[3], json!({"type": "NamespaceDeleted", "name": "a", "uid": "n1"}));
    // A namespace counts for nothing.
    assert!(world.get("/v1/objects").await.items().is_empty());
}

#[tokio::test]
async fn a_relist_ends_namespaces_that_are_not_there() {
    let world = World::new();
    tell(&world, &namespace("ADDED", "n1", 5, "red")).await;
    let mut other = namespace("ADDED", "n2", 6, "red");
    other["object"]["metadata"]["name"] = json!("b");
    tell(&world, &other).await;
    // Nothing is concluded from an empty list.
    tell(
        &world,
        &json!([
            {"type": "RELIST_BEGIN", "resource": "namespaces"},
            {"type": "RELIST_END", "resource": "namespaces", "resourceVersion": "9"},
        ]),
    )
    .await;
    assert_eq!(recorded(&world).await.len(), 2);
    tell(
        &world,
        &json!([
            {"type": "RELIST_BEGIN", "resource": "namespaces"},
            other,
            {"type": "RELIST_END", "resource": "namespaces", "resourceVersion": "9"},
        ]),
    )
    .await;
    let recorded = recorded(&world).await;
    assert_eq!(recorded.len(), 3);
    let gone = &recorded[2];
    assert_eq!((&gone["type"], &gone["name"]), (&json!("NamespaceDeleted"), &json!("a")));
    let entries = world.get("/v1/entries").await;
    let ended =
        entries.items().iter().rfind(|entry| entry["event"]["type"] == "RelistEnded").cloned();
    let ended = ended.unwrap()["event"].clone();
    assert_eq!(
        (&ended["outcome"], &ended["listed"], &ended["ended"]),
        (&json!("Complete"), &json!(1), &json!(1))
    );
    assert_eq!(gone["relist"], ended["began"]);
}
