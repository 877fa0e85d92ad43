//! Usage, objects, entries, dead letters, checks, events.

use serde_json::{Value, json};

use crate::world::{World, pods, widget};

#[tokio::test]
async fn usage_is_the_sums_and_what_each_limit_leaves() {
    let world = World::new();
    let units = "requests.example.com/units";
    world.quota(json!({units: "5", "count/widgets.example.com": "9"})).await;
    world.events(&[widget("w1", 1, "4"), widget("w2", 1, "3")]).await;
    let body = json!({"reservedBy": {"uid": "u"}, "reserved": {"pods": "2"}});
    world.post("/v1/namespaces/a/reservations", &body).await.is(201);
    let usage = world.get("/v1/namespaces/a/usage").await;
    usage.is(200);
    assert_eq!(usage.body["namespace"], "a");
    let resources = json!([
        {"resource": "count/widgets.example.com", "used": "2", "reserved": "0"},
        {"resource": "pods", "used": "0", "reserved": "2"},
        {"resource": units, "used": "7", "reserved": "0"},
    ]);
    assert_eq!(usage.body["resources"], resources);
    let quotas = json!([{"name": "q", "resources": [
        {"resource": "count/widgets.example.com", "hard": "9", "used": "2", "reserved": "0", "available": "7"},
        {"resource": units, "hard": "5", "used": "7", "reserved": "0", "available": "-2"},
    ]}]);
    assert_eq!(usage.body["quotas"], quotas);
    assert_eq!(usage.body["asOf"]["sequence"], 4);
    let empty = world.get("/v1/namespaces/nobody/usage").await;
    assert_eq!(empty.is(200).body["resources"], json!([]));
}

#[tokio::test]
async fn the_objects_behind_the_numbers_are_listed() {
    let world = World::new();
    let events: Vec<_> = (0..5).map(|index| widget(&format!("w{index}"), 7, "1")).collect();
    world.events(&events).await;
    world
        .events(&[json!({"type": "ADDED", "namespace": "a", "resource": "gadgets", "name": "g", "uid": "g"})])
        .await;
    let first = world.get("/v1/namespaces/a/objects?limit=2").await;
    let object = &first.is(200).items()[1];
    let shown = json!({
        "uid": "w0", "resource": "widgets.example.com", "name": "w0", "resourceVersion": "7", "sequence": 1,
        "usage": {"count/widgets.example.com": "1", "requests.example.com/units": "1"},
    });
    for (field, value) in shown.as_object().unwrap() {
        assert_eq!(object[field], *value, "{field}");
    }
    assert_eq!(first.items()[0]["name"], "g");
    // Those that were shown may go, and others come: the rest stays in order.
    world.events(&[json!({"type": "DELETED", "namespace": "a", "resource": "gadgets", "name": "g", "uid": "g"})]).await;
    world.events(&[widget("w9", 1, "1")]).await;
    let mut names = Vec::new();
    let mut next = first.body["continue"].as_str().map(str::to_owned);
    while let Some(token) = next {
        let page = world.get(&format!("/v1/namespaces/a/objects?limit=2&continue={token}")).await;
        names.extend(page.items().iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        next = page.body["continue"].as_str().map(str::to_owned);
    }
    assert_eq!(names, ["w1", "w2", "w3", "w4", "w9"]);
    let filtered = world.get("/v1/namespaces/a/objects?resource=gadgets").await;
    assert!(filtered.is(200).items().is_empty());
}

#[tokio::test]
async fn entries_say_who_and_why() {
    let world = World::new();
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let headers =
        [("x-request-id", "r-1"), ("traceparent", parent), ("x-change-reason", "ticket 7")];
    let body = json!({"spec": {"hard": {"pods": "1"}}}).to_string();
    world.call("PUT", "/v1/namespaces/a/quotas/q", &headers, body).await.is(201);
    world.post("/v1/namespaces/b/reservations", &pods("u", 1)).await.is(201);
    world.delete("/v1/namespaces/b/reservations/u").await.is(204);
    let all = world.get("/v1/entries").await;
    assert_eq!(all.is(200).items().len(), 3);
    let first = &all.items()[0];
    assert_eq!(first["sequence"], 1);
    assert_eq!(first["event"]["type"], "QuotaSet");
    let actor = json!({"principal": "anonymous", "requestId": "r-1", "traceparent": parent, "reason": "ticket 7"});
    assert_eq!(first["actor"], actor);
    assert_eq!(all.items()[1]["actor"], json!({"principal": "anonymous"}));
    let types = |items: &[Value]| -> Vec<String> {
        let name = |item: &Value| item["event"]["type"].as_str().unwrap().to_owned();
        items.iter().map(name).collect()
    };
    let of_b = world.get("/v1/entries?namespace=b").await;
    assert_eq!(types(of_b.items()), ["ReservationGranted", "ReservationReleased"]);
    let one = world.get("/v1/entries?from=2&limit=1").await;
    assert_eq!(types(one.items()), ["ReservationGranted"]);
    let token = one.body["continue"].as_str().unwrap();
    let rest = world.get(&format!("/v1/entries?limit=5&continue={token}")).await;
    assert_eq!(types(rest.items()), ["ReservationReleased"]);
    assert!(rest.body.get("continue").is_none());
    assert!(world.get("/v1/entries?from=99").await.is(200).items().is_empty());
    world.get("/v1/entries?from=x").await.is_refused(400, "Malformed");
    world.get("/v1/entries?namepsace=b").await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn a_check_answers_and_writes_nothing() {
    let world = World::new();
    world.quota(json!({"pods": "1"})).await;
    let check = "/v1/namespaces/a/check";
    let fits = world.post(check, &json!({"reserved": {"pods": "1"}})).await;
    assert_eq!(fits.is(200).body["fits"], true);
    assert_eq!(fits.body["quotas"][0]["resources"][0]["requested"], "1");
    let not = world.post(check, &json!({"reserved": {"pods": "2"}})).await;
    assert_eq!(not.is(200).body["fits"], false);
    assert_eq!(not.body["reason"], "ExceedsHard");
    let words = "exceeded quota: q, requested: pods=2, used: pods=0, limited: pods=1";
    assert_eq!(not.body["detail"], words);
    assert_eq!(not.body["quotas"][0]["name"], "q");
    world.post(check, &json!({"reserved": {"pods": "x"}})).await.is_refused(422, "Invalid");
    assert_eq!(world.ledger.durable().sequence, 1);
    // What is held for a uid already is not requested again.
    world.post("/v1/namespaces/a/reservations", &pods("u", 1)).await.is(201);
    assert_eq!(world.post(check, &pods("u", 1)).await.body["fits"], true);
    assert_eq!(world.post(check, &pods("v", 1)).await.body["fits"], false);
}

#[tokio::test]
async fn events_are_taken_in_and_those_that_are_not_understood_are_kept() {
    let world = World::new();
    let lines =
        [widget("w", 2, "1").to_string(), "nonsense".to_owned(), widget("w", 1, "9").to_string()];
    let reply = world.call("POST", "/v1/events", &[], lines.join("\n")).await;
    reply.is(200);
    assert_eq!((&reply.body["accepted"], &reply.body["ignored"]), (&json!(1), &json!(1)));
    assert_eq!(reply.body["rejected"][0]["line"], 2);
    assert!(!reply.body["rejected"][0]["reason"].as_str().unwrap().is_empty());
    assert_eq!(reply.body["asOf"]["sequence"], 2);
    world.call("POST", "/v1/events", &[], "more nonsense").await.is(200);
    let newest = world.get("/v1/dead-letters?limit=1").await;
    assert_eq!(newest.is(200).items()[0]["payload"], "more nonsense");
    assert_eq!(newest.items()[0]["source"], "http");
    let token = newest.body["continue"].as_str().unwrap();
    let older = world.get(&format!("/v1/dead-letters?continue={token}")).await;
    assert_eq!(older.items().len(), 1);
    assert_eq!(older.items()[0]["payload"], "nonsense");
    assert_eq!(older.items()[0]["position"], 2);
    assert!(older.body.get("continue").is_none());
}

#[tokio::test]
async fn the_index_names_paths_that_are_there() {
    let world = World::new();
    let index = world.get("/").await;
    for path in index.is(200).body["paths"].as_array().unwrap() {
        let path = path.as_str().unwrap().replace(['{', '}'], "");
        let reply = world.call("OPTIONS", &path, &[], "").await;
        reply.is_refused(405, "MethodNotAllowed");
    }
}

/// More objects than are looked at on the threads that serve connections.
#[tokio::test]
async fn what_is_told_of_many_objects_adds_up() {
    let world = World::new();
    const OBJECTS: usize = 2500;
    let events: Vec<Value> = (0..OBJECTS)
        .map(|number| {
            json!({"type": "ADDED", "namespace": "a", "resource": "widgets.example.com",
                   "name": format!("w{number:04}"), "uid": format!("u{number}"), "resourceVersion": "1",
                   "usage": {"example.com/r": (number % 7).to_string()}})
        })
        .collect();
    world.events(&events).await;
    let held = json!({"reservedBy": {"uid": "held"}, "reserved": {"example.com/r": "9"}});
    let held = world.post("/v1/namespaces/a/reservations", &held).await;
    held.is(201);
    let pages = async |path: &str| {
        let (mut all, mut after) = (Vec::new(), String::new());
        loop {
            let page = world.get(&format!("{path}limit=400&continue={after}")).await;
            all.extend(page.is(200).items().to_vec());
            match page.body["continue"].as_str() {
                Some(next) => after = next.to_owned(),
                None => return (all, page),
            }
        }
    };
    let (objects, _) = pages("/v1/namespaces/a/objects?").await;
    let names: Vec<_> = objects.iter().map(|it| it["name"].as_str().unwrap()).collect();
    let expected: Vec<_> = (0..OBJECTS).map(|number| format!("w{number:04}")).collect();
    assert_eq!(names, expected);
    let (parts, last) = pages("/v1/namespaces/a/explain?resource=example.com/r&").await;
    let amounts: Vec<u64> =
        parts.iter().map(|part| part["amount"].as_str().unwrap().parse().unwrap()).collect();
    assert!(amounts.is_sorted_by(|a, b| a >= b), "the largest first");
    let used: u64 = last.body["used"].as_str().unwrap().parse().unwrap();
    assert_eq!(last.body["reserved"], "9");
    assert_eq!(amounts.iter().sum::<u64>(), used + 9);
    let expected: u64 = (0..OBJECTS as u64).map(|number| number % 7).sum();
    assert_eq!(used, expected);
}
