//! What was deleted or has ended is shown with its kind, its name and its amounts.

use serde_json::{Value, json};

use crate::world::{World, pods, widget};

fn deleted(name: &str) -> Value {
    let mut event = widget(name, 9, "3");
    event["type"] = "DELETED".into();
    event
}

/// Entries: 1 the widget, 2 the grant, 3 its release, 4 the deletion.
async fn ended() -> World {
    let world = World::new();
    world.events(&[widget("w", 1, "3")]).await;
    let mut held = pods("u", 2);
    held["reservedBy"]["name"] = "web".into();
    held["reservedBy"]["kind"] = "Pod".into();
    world.post("/v1/namespaces/a/reservations", &held).await.is(201);
    world.delete("/v1/namespaces/a/reservations/u").await.is(204);
    world.events(&[deleted("w")]).await;
    world
}

fn widget_subject() -> Value {
    json!({"resource": "widgets.example.com", "name": "w",
           "amounts": {"count/widgets.example.com": "1", "requests.example.com/units": "3"}})
}

#[tokio::test]
async fn entries_name_what_was_deleted_and_what_has_ended() {
    let world = ended().await;
    let held = json!({"resource": "pods", "name": "web", "amounts": {"pods": "2"}});
    let all = world.get("/v1/entries").await;
    let of = |event: &str| {
        let mut items = all.items().iter();
        let item = items.find(|item| item["event"]["type"] == event).unwrap();
        (item["sequence"].clone(), item["subject"].clone())
    };
    let (deletion, subject) = of("ObjectDeleted");
    assert_eq!(subject, widget_subject());
    let (release, subject) = of("ReservationReleased");
    assert_eq!(subject, held);
    assert_eq!(of("ObjectObserved").1, Value::Null);
    assert_eq!(of("ReservationGranted").1, Value::Null);
    // Also alone, without the entry that names it.
    for (sequence, subject) in [(deletion, widget_subject()), (release, held)] {
        let one = world.get(&format!("/v1/entries?from={sequence}&limit=1")).await;
        assert_eq!(one.is(200).items()[0]["subject"], subject);
    }
    // What was never seen has no name.
    let unknown = json!({"reservedBy": {"uid": "x"}, "reserved": {"pods": "1"}});
    world.post("/v1/namespaces/a/reservations", &unknown).await.is(201);
    world.delete("/v1/namespaces/a/reservations/x").await.is(204);
    let last = world.get("/v1/entries?order=desc&limit=1").await;
    assert_eq!(last.items()[0]["subject"]["name"], Value::Null);
    assert_eq!(last.items()[0]["subject"]["amounts"], json!({"pods": "1"}));
}
