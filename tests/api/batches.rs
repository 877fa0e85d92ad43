//! Several reservations at once.

use serde_json::{Value, json};

use crate::world::World;

const BATCH: &str = "/v1/reservations:batch";

fn item(namespace: &str, uid: &str, pods: &str) -> Value {
    json!({"namespace": namespace, "reservedBy": {"uid": uid}, "reserved": {"pods": pods}})
}

#[tokio::test]
async fn each_item_has_its_result_in_order() {
    let world = World::new();
    world.quota(json!({"pods": "2"})).await;
    let items = [
        item("a", "u1", "1"),
        item("a", "u2", "2"),
        item("b", "u3", "9"),
        json!({"reservedBy": {"uid": "u4"}, "reserved": {}}),
        item("a", "u1", "1"),
        item("a", "u5", "-1"),
        item("a", "u6", "1"),
    ];
    let reply = world.post(BATCH, &json!({"atomic": false, "items": items})).await;
    reply.is(200);
    let statuses: Vec<_> = reply
        .items()
        .iter()
        .map(|item| {
            let reason = item["reason"].as_str().unwrap_or_default();
            (item["status"].as_u64().unwrap(), reason)
        })
        .collect();
    let expected = [
        (201, ""),
        (403, "ExceedsHard"),
        (201, ""),
        (422, "Invalid"),
        (200, ""),
        (422, "Invalid"),
        (201, ""),
    ];
    assert_eq!(statuses, expected);
    assert_eq!(reply.items()[0]["state"], "pending");
    assert_eq!(reply.items()[0]["reservedBy"]["uid"], "u1");
    assert_eq!(reply.items()[4]["replayed"], true);
    assert!(reply.items()[1]["detail"].as_str().unwrap().starts_with("exceeded quota: q"));
    assert_eq!(reply.body["asOf"]["sequence"], 4);
}

#[tokio::test]
async fn all_or_none() {
    let world = World::new();
    world.quota(json!({"pods": "2"})).await;
    let atomic = |items: &[Value]| json!({"atomic": true, "items": items});
    // Each fits alone; together they do not.
    let items = [item("a", "u1", "1"), item("b", "u2", "1"), item("a", "u3", "2")];
    let denied = world.post(BATCH, &atomic(&items)).await;
    denied.is_refused(403, "ExceedsHard");
    assert_eq!(denied.body["index"], 2);
    assert_eq!(world.ledger.durable().sequence, 1, "nothing was written");
    for uid in ["u1", "u3"] {
        world.get(&format!("/v1/namespaces/a/reservations/{uid}")).await.is(404);
    }
    let invalid = world.post(BATCH, &atomic(&[items[0].clone(), json!({})])).await;
    invalid.is_refused(422, "Invalid");
    assert_eq!(invalid.body["index"], 1);
    let twice = world.post(BATCH, &atomic(&[items[0].clone(), items[0].clone()])).await;
    twice.is_refused(422, "UidReused");

    let granted = world.post(BATCH, &atomic(&items[..2])).await;
    assert_eq!(granted.is(200).items().len(), 2);
    assert!(granted.items().iter().all(|item| item["status"] == 201));
    let again = world.post(BATCH, &atomic(&items[..2])).await;
    assert!(again.is(200).items().iter().all(|item| item["replayed"] == true));
}

#[tokio::test]
async fn a_batch_has_an_end() {
    let world = World::new();
    let items: Vec<_> = (0..1001).map(|index| item("a", &format!("u{index}"), "1")).collect();
    let refused = world.post(BATCH, &json!({"items": items})).await;
    refused.is_refused(422, "Invalid");
    assert_eq!(refused.body["errors"][0]["field"], "items");
    assert!(world.post(BATCH, &json!({"items": []})).await.is(200).items().is_empty());
    let unknown = json!({"items": [{"namespce": "a"}]});
    let refused = world.post(BATCH, &unknown).await;
    refused.is_refused(400, "Malformed");
    assert!(refused.body["detail"].as_str().unwrap().contains("`namespce`"));
}

#[tokio::test]
async fn what_is_granted_together_is_bounded() {
    let world = World::new();
    world.quota(json!({"pods": "1000"})).await;
    let items: Vec<_> = (0..101).map(|number| item("a", &format!("u{number}"), "1")).collect();
    let batch = |atomic, items: &[Value]| json!({"atomic": atomic, "items": items});
    let refused = world.post(BATCH, &batch(true, &items)).await;
    refused.is_refused(422, "Invalid");
    let granted = world.post(BATCH, &batch(true, &items[..100])).await;
    granted.is(200);
    // For itself each may be one of many, and they keep their order.
    let again = world.post(BATCH, &batch(false, &items)).await;
    again.is(200);
    let status = |item: &Value| item["status"].as_u64().unwrap();
    let statuses: Vec<_> = again.items().iter().map(status).collect();
    assert_eq!(statuses[..100], [200; 100]);
    assert_eq!(statuses[100], 201);
    assert_eq!(again.body["asOf"]["sequence"], 102);
}

#[tokio::test]
async fn the_denials_of_a_batch_share_what_they_show_of_quotas() {
    let world = World::new();
    const QUOTAS: usize = 40;
    for number in 0..QUOTAS {
        // The last ones are exceeded.
        let pods = if number < QUOTAS - 2 { "1000" } else { "1" };
        let quota = json!({"spec": {"hard": {"pods": pods, "services": "1"}}});
        let path = format!("/v1/namespaces/a/quotas/q{number:02}");
        world.put(&path, &quota).await.is(201);
    }
    let ask = async |count: usize| {
        let items: Vec<_> =
            (0..count).map(|number| item("a", &format!("u{number}"), "2")).collect();
        let reply = world.post(BATCH, &json!({"items": items})).await;
        reply.is(200);
        reply
    };
    let alone = ask(1).await;
    let alone = &alone.items()[0];
    assert_eq!(alone["quotas"].as_array().unwrap().len(), QUOTAS);
    assert_eq!(alone["quotasOmitted"], Value::Null);
    let reply = ask(1000).await;
    assert_eq!(reply.items().len(), 1000);
    for denied in reply.items() {
        assert_eq!((&denied["status"], &denied["detail"]), (&json!(403), &alone["detail"]));
        let quotas = denied["quotas"].as_array().unwrap();
        let names: Vec<_> = quotas.iter().map(|quota| quota["name"].as_str().unwrap()).collect();
        assert_eq!(names[..2], ["q38", "q39"], "those that are exceeded come first");
        assert_eq!(quotas.len(), 8);
        assert_eq!(denied["quotasOmitted"], QUOTAS - 8);
    }
}
