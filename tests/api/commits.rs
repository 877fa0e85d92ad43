//! Commits: what a holder returns, and what is committed beside an object of the same name.

use serde_json::{Value, json};

use super::world::World;

const ALL: &str = "/v1/namespaces/a/reservations";

fn request(uid: &str, name: &str, cpu: &str) -> Value {
    json!({"reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
           "reserved": {"requests.cpu": cpu}})
}

async fn commit(world: &World, uid: &str) {
    let path = format!("{ALL}/{uid}/commit");
    world.post(&path, &json!({})).await.is(200);
}

async fn see(world: &World, kind: &str, uid: &str, cpu: &str) {
    let event = json!({"type": kind, "namespace": "a", "resource": "pods", "name": "web", "uid": uid,
        "resourceVersion": "5", "usage": {"requests.cpu": cpu}});
    world.events(&[event]).await;
}

async fn figure(world: &World, which: &str) -> Value {
    let quota = world.get("/v1/namespaces/a/quotas/q").await;
    quota.body["status"][which]["requests.cpu"].clone()
}

/// A commit is returned once, however often the holder asks, and is not granted again.
#[tokio::test]
async fn what_was_returned_has_one_entry_and_is_not_granted_again() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    let mut ended = request("u", "web", "2");
    world.post(ALL, &ended).await.is(201);
    commit(&world, "u").await;
    world.post(ALL, &ended).await.is(200);
    for _ in 0..2 {
        world.delete(&format!("{ALL}/u")).await.is(204);
    }
    let entries = world.get("/v1/entries").await;
    let of_type = |entry: &&Value| entry["event"]["type"] == "ReservationReturned";
    let returned = entries.items().iter().filter(of_type);
    assert_eq!(returned.count(), 1, "{entries:?}");
    let mut fresh = request("w", "x", "1");
    for item in [&mut ended, &mut fresh] {
        item["namespace"] = json!("a");
    }
    let batch = |atomic: bool| json!({"atomic": atomic, "items": [ended, fresh]});
    // Each item separately: the ended one is reported, and the other is granted.
    let each = world.post("/v1/reservations:batch", &batch(false)).await;
    let reasons: Vec<_> = each.items().iter().map(|item| &item["reason"]).collect();
    assert_eq!(reasons, [&json!("ReservationEnded"), &json!(null)]);
    assert_eq!(figure(&world, "reserved").await, "1");
    let all = world.post("/v1/reservations:batch", &batch(true)).await;
    all.is_refused(409, "ReservationEnded");
}

#[tokio::test]
async fn a_commit_beside_an_object_of_its_name_takes_no_room_twice_and_passes_no_limit() {
    let world = World::new();
    world.quota(json!({"requests.cpu": "4"})).await;
    world.post(ALL, &request("u", "web", "3")).await.is(201);
    // Another object of the name: what is reserved waits for the end of that.
    see(&world, "ADDED", "live", "3").await;
    assert_eq!(figure(&world, "reserved").await, "0");
    world.post(ALL, &request("v", "db", "1")).await.is(201);
    commit(&world, "u").await;
    assert_eq!(figure(&world, "used").await, "3");
    let denied = world.post(ALL, &request("w", "x", "1")).await;
    denied.is_refused(403, "ExceedsHard");
    // From its end on all of it counts.
    see(&world, "DELETED", "live", "0").await;
    assert_eq!(figure(&world, "used").await, "3");
    see(&world, "ADDED", "u", "2").await;
    assert_eq!(figure(&world, "used").await, "2");
}
