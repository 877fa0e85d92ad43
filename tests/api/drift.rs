//! Drift: listings compared with the ledger, and corrections.

use serde_json::{Value, json};

use crate::world::{Reply, World, pods, widget};

const SPACES: &str = "/v1/namespaces";

/// A widget as a listing has it.
fn listed(name: &str, version: u64, units: &str) -> Value {
    let mut object = widget(name, version, units);
    object.as_object_mut().unwrap().remove("type");
    object
}

fn pod(name: &str, uid: &str, version: u64, cpu: &str) -> Value {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": cpu}}});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "a", "uid": uid, "resourceVersion": version.to_string()},
        "spec": {"containers": [container]}
    })
}

fn limits(version: u64, pods: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "ResourceQuota",
        "metadata": {"name": "limits", "namespace": "a", "uid": "q1", "resourceVersion": version.to_string()},
        "spec": {"hard": {"pods": pods}}
    })
}

async fn compare(world: &World, listing: &[Value]) -> Reply {
    let reply = world.post("/v1/drift", &json!({ "listing": listing })).await;
    reply.is(200);
    reply
}

async fn correct(world: &World, items: &[Value]) -> Vec<String> {
    let body = json!({"reason": "the bridge was down", "items": items});
    let reply = world.post("/v1/corrections", &body).await;
    let outcome = |item: &Value| item["outcome"].as_str().unwrap().to_owned();
    reply.is(200).items().iter().map(outcome).collect()
}

fn record(object: &Value) -> Value {
    json!({"sequence": object["sequence"], "resourceVersion": object["resourceVersion"]})
}

/// The quota's usage.
async fn used(world: &World, resource: &str) -> Value {
    let usage = world.get("/v1/namespaces/a/usage").await;
    let resources = usage.body["resources"].as_array().unwrap();
    let found = resources.iter().find(|found| found["resource"] == resource);
    found.map_or(Value::Null, |found| found["used"].clone())
}

#[tokio::test]
async fn each_listed_object_is_told_how_it_differs() {
    let world = World::new();
    world
        .events(&[
            widget("same", 3, "1"),
            widget("less", 3, "5"),
            widget("later", 9, "1"),
            widget("old", 3, "2"),
        ])
        .await;
    let mut again = listed("old", 4, "2");
    again["uid"] = json!("new");
    let mut reply = compare(
        &world,
        &[
            listed("same", 4, "1"),
            listed("less", 4, "4"),
            listed("later", 4, "7"),
            listed("unknown", 4, "1"),
            again,
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "uid": "n"}}),
            json!({"namespace": "a", "uid": "x"}),
            json!(7),
        ],
    )
    .await;
    let differences: Vec<_> =
        reply.items().iter().map(|item| item["difference"].as_str().unwrap()).collect();
    assert_eq!(
        differences,
        ["none", "changed", "newer", "missing", "recreated", "ignored", "unreadable", "unreadable"]
    );
    assert_eq!(reply.body["asOf"]["sequence"], 4);
    let changed = reply.body["items"][1].take();
    assert_eq!(
        changed,
        json!({
            "difference": "changed", "uid": "less", "namespace": "a", "resource": "widgets.example.com",
            "name": "less", "resourceVersion": "4",
            "usage": {"count/widgets.example.com": "1", "requests.example.com/units": "4"},
            "known": {
                "uid": "less", "namespace": "a", "resource": "widgets.example.com", "name": "less",
                "resourceVersion": "3", "sequence": 2,
                "usage": {"count/widgets.example.com": "1", "requests.example.com/units": "5"},
            },
        })
    );
    assert_eq!(reply.items()[4]["known"]["uid"], "old");
    let why = reply.items()[6]["reason"].as_str().unwrap();
    assert!(why.contains("resource is missing"), "{why}");
    assert_eq!(world.get("/v1/entries").await.items().len(), 4, "nothing was written");
}

#[tokio::test]
async fn what_differs_is_put_right_with_who_and_why() {
    let world = World::new();
    world.quota(json!({"requests.example.com/units": "99"})).await;
    world.events(&[widget("less", 3, "5"), widget("gone", 3, "7")]).await;
    let listing = [listed("less", 4, "4"), listed("unknown", 4, "1")];
    let compared = compare(&world, &listing).await;
    let objects = world.get("/v1/objects?resource=widgets.example.com").await;
    let gone = objects.is(200).items().iter().find(|object| object["uid"] == "gone").unwrap();
    let items = [
        json!({"uid": "gone", "known": record(gone)}),
        json!({"object": listing[0], "known": record(&compared.items()[0]["known"])}),
        json!({"object": listing[1]}),
    ];
    assert_eq!(correct(&world, &items).await, ["corrected"; 3]);
    assert_eq!(used(&world, "requests.example.com/units").await, "5");
    assert_eq!(correct(&world, &items).await, ["right"; 3], "to send it again is safe");
    let again = compare(&world, &listing).await;
    assert!(again.items().iter().all(|item| item["difference"] == "none"), "{again:?}");

    let entries = world.get("/v1/entries?from=4").await;
    let kinds: Vec<_> =
        entries.items().iter().map(|entry| entry["event"]["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["ObjectEnded", "ObjectCorrected", "ObjectCorrected"]);
    for entry in entries.items() {
        assert_eq!(entry["actor"]["principal"], "anonymous");
        assert_eq!(entry["actor"]["reason"], "the bridge was down");
    }
    assert_eq!(entries.items()[0]["event"]["cause"], json!({"by": "Drift"}));
    assert_eq!(entries.items()[1]["event"]["was"]["resources"]["requests.example.com/units"], "5");
}

#[tokio::test]
async fn what_changed_since_it_was_compared_is_a_conflict_and_stays() {
    let world = World::new();
    world.events(&[widget("w", 3, "5"), widget("x", 3, "1")]).await;
    let objects = world.get("/v1/objects").await;
    let (w, x) = (record(&objects.items()[0]), record(&objects.items()[1]));
    world.events(&[widget("w", 4, "6"), widget("x", 4, "1")]).await;
    let items = [
        json!({"object": listed("w", 5, "1"), "known": w}),
        json!({"uid": "w", "known": w}),
        // Another version by which nothing else has changed.
        json!({"uid": "x", "known": x}),
        json!({"object": listed("x", 5, "9")}),
        json!({"object": listed("y", 5, "1"), "known": x}),
    ];
    assert_eq!(correct(&world, &items).await, ["conflict"; 5]);
    assert_eq!(used(&world, "requests.example.com/units").await, "7");
}

#[tokio::test]
async fn limits_are_compared_and_put_right() {
    let world = World::new();
    world.events(&[json!({"type": "ADDED", "object": limits(3, "10")})]).await;
    let same = compare(&world, &[limits(4, "10")]).await;
    assert_eq!(same.items()[0]["difference"], "none");
    let reply = compare(&world, &[limits(4, "5")]).await;
    let item = &reply.items()[0];
    assert_eq!(item["difference"], "changed");
    let quota = json!({"listed": {"hard": {"pods": "5"}}, "known": {"hard": {"pods": "10"}}, "sequence": 2});
    assert_eq!(item["quota"], quota);
    let correction = |sequence: u64| json!({"object": limits(4, "5"), "known": record(&item["known"]), "quotaSequence": sequence});
    assert_eq!(correct(&world, &[correction(1)]).await, ["conflict"]);
    assert_eq!(correct(&world, &[correction(2)]).await, ["corrected"]);
    let quota = world.get("/v1/namespaces/a/quotas/limits").await;
    assert_eq!(quota.body["spec"]["hard"]["pods"], "5");
}

#[tokio::test]
async fn what_is_committed_is_no_object_before_it_is_shown() {
    let world = World::new();
    world.quota(json!({"pods": "9"})).await;
    world.post(&format!("{SPACES}/a/reservations"), &pods("u1", 1)).await.is(201);
    world.post(&format!("{SPACES}/a/reservations/u1/commit"), &json!({})).await.is(200);
    assert!(world.get("/v1/objects").await.items().is_empty());
    let reply = compare(&world, &[pod("web", "u1", 5, "1")]).await;
    assert_eq!(reply.items()[0]["difference"], "missing");
}

#[tokio::test]
async fn a_correction_says_why_and_is_understood_as_a_whole() {
    let world = World::new();
    let object = listed("w", 5, "1");
    let wrong = [
        json!({"items": []}),
        json!({"reason": " ", "items": []}),
        json!({"reason": "a\nb", "items": []}),
        json!({"reason": "x".repeat(513), "items": []}),
        json!({"reason": "r", "items": vec![json!({"object": object}); 1001]}),
        json!({"reason": "r", "items": [{"object": object}, {}]}),
        json!({"reason": "r", "items": [{"object": object}, {"object": object, "uid": "w"}]}),
        json!({"reason": "r", "items": [{"object": object}, {"uid": "w"}]}),
        json!({"reason": "r", "items": [{"object": object}, {"uid": "w", "known": {"sequence": 1, "resourceVersion": "x"}}]}),
        json!({"reason": "r", "items": [{"object": object}, {"object": {"kind": "Pod"}}]}),
        json!({"reason": "r", "items": [{"object": object}, {"object": {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}}]}),
    ];
    for body in wrong {
        world.post("/v1/corrections", &body).await.is_refused(422, "Invalid");
    }
    let many = vec![&object; 501];
    world.post("/v1/drift", &json!({"listing": many})).await.is_refused(422, "Invalid");
    for path in ["/v1/drift", "/v1/corrections"] {
        for body in
            [json!([]), json!({}), json!({"reason": "r", "items": [], "listing": [], "more": 1})]
        {
            world.post(path, &body).await.is_refused(400, "Malformed");
        }
    }
    assert!(world.get("/v1/entries").await.items().is_empty(), "nothing was written");
}

#[tokio::test]
async fn all_objects_are_listed_page_by_page_each_once() {
    let world = World::with(|parts| parts.page = 7);
    let mut names = Vec::new();
    for index in 0..40 {
        let name = format!("w{index}");
        let mut event = widget(&name, 1, "1");
        event["namespace"] = json!(format!("team-{}", index % 3));
        if index % 5 == 0 {
            event["resource"] = json!("gadgets");
        }
        world.events(&[event]).await;
        names.push(name);
    }
    names.sort();
    let version = std::cell::Cell::new(1);
    let all = |resource: &'static str| {
        let (world, version) = (&world, &version);
        async move {
            let mut found = Vec::new();
            let mut after = String::new();
            loop {
                let page =
                    world.get(&format!("/v1/objects?limit=9{resource}&continue={after}")).await;
                assert!(page.is(200).items().len() <= 7);
                let name = |item: &Value| item["name"].as_str().unwrap().to_owned();
                found.extend(page.items().iter().map(name));
                // What is updated meanwhile keeps its place.
                version.set(version.get() + 1);
                world.events(&[json!({
                    "type": "MODIFIED", "namespace": "team-0", "resource": "widgets.example.com", "name": "w3", "uid": "w3",
                    "resourceVersion": version.get().to_string(), "usage": {"requests.example.com/units": version.get().to_string()},
                })]).await;
                match page.body["continue"].as_str() {
                    Some(next) => after = next.to_owned(),
                    None => break,
                }
            }
            found.sort();
            found
        }
    };
    assert_eq!(all("").await, names);
    assert_eq!(all("&resource=gadgets").await.len(), 8);
    assert_eq!(all("&resource=none").await.len(), 0);
    for wrong in ["limit=0", "continue=x", "namespace=a"] {
        let reply = world.get(&format!("/v1/objects?{wrong}")).await;
        reply.is_refused(400, "Malformed");
    }
}

/// A request of a few hundred bytes ends objects whose entries, with all their amounts, are longer than a batch may be.
#[tokio::test]
async fn long_entries_of_corrections_become_several_batches() {
    const OBJECTS: usize = 15;
    let world = World::new();
    let names: Vec<_> = (0..OBJECTS).map(|object| format!("wide-{object}")).collect();
    for name in &names {
        let amounts = (0..9_000).map(|number| {
            let label = name.repeat(8);
            (format!("requests.{label}.{label}.example.com/{number}"), json!("1"))
        });
        let usage: serde_json::Map<_, _> = amounts.collect();
        let object = json!({
            "type": "ADDED", "namespace": "a", "resource": "widgets.example.com", "name": name, "uid": name,
            "resourceVersion": "1", "usage": usage
        });
        world.events(&[object]).await;
    }
    let listed = world.get("/v1/objects").await;
    let ended: Vec<_> = listed
        .items()
        .iter()
        .map(|object| json!({"uid": object["uid"], "known": record(object)}))
        .collect();
    assert_eq!(ended.len(), OBJECTS);
    assert_eq!(correct(&world, &ended).await, ["corrected"; OBJECTS]);
}
