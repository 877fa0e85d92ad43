//! Which namespaces are the fullest, how they went, and how the ledger stands.

use serde_json::{Value, json};

use crate::world::{World, pods, widget};

async fn limit(world: &World, namespace: &str, pods: &str) {
    let body = json!({"spec": {"hard": {"pods": pods}}});
    let path = format!("/v1/namespaces/{namespace}/quotas/q");
    world.call("PUT", &path, &[], body.to_string()).await.is(201);
}

async fn reserve(world: &World, namespace: &str, uid: &str, count: u64) {
    let path = format!("/v1/namespaces/{namespace}/reservations");
    world.post(&path, &pods(uid, count)).await.is(201);
}

fn names(items: &[Value]) -> Vec<&str> {
    items.iter().map(|item| item["namespace"].as_str().unwrap()).collect()
}

/// In `half` 5 of 10, in `full` 4 of 4, in `zero` a limit of nothing, `over` has passed one, `free` has none.
async fn filled() -> World {
    let world = World::new();
    for (namespace, pods) in [("half", "10"), ("full", "4"), ("zero", "0"), ("over", "1")] {
        limit(&world, namespace, pods).await;
    }
    reserve(&world, "half", "u1", 5).await;
    reserve(&world, "full", "u2", 4).await;
    let mut event = widget("w1", 1, "1");
    event["namespace"] = "free".into();
    let mut passed = widget("w2", 1, "1");
    passed["namespace"] = "over".into();
    passed["usage"] = json!({"pods": "1500m"});
    world.events(&[event, passed]).await;
    world
}

#[tokio::test]
async fn the_fullest_namespaces_come_first() {
    let world = filled().await;
    let all = world.get("/v1/usage").await;
    let order = ["over", "full", "half", "zero", "free"];
    assert_eq!(names(all.is(200).items()), order);
    let shown = json!({
        "namespace": "half", "labels": {"kubernetes.io/metadata.name": "half"}, "quotas": 1, "reservations": 1,
        "fullest": {"quota": "q", "kind": "ResourceQuota", "resource": "pods", "hard": "10", "used": "0", "reserved": "5",
                    "available": "5", "share": 0.5},
    });
    assert_eq!(all.items()[2], shown);
    assert_eq!(all.items()[0]["fullest"]["share"], 1.5);
    assert_eq!(all.items()[4]["fullest"], Value::Null);
    assert_eq!(all.body["asOf"]["sequence"], 8);

    let mut paged = Vec::new();
    let mut path = "/v1/usage?limit=2".to_owned();
    loop {
        let page = world.get(&path).await;
        assert!(page.is(200).items().len() <= 2);
        paged.extend(names(page.items()).into_iter().map(str::to_owned));
        let Some(token) = page.body["continue"].as_str() else {
            break;
        };
        path = format!("/v1/usage?limit=2&continue={token}");
    }
    assert_eq!(paged, order);
    let found = world.get("/v1/usage?search=l").await;
    assert_eq!(names(found.is(200).items()), ["full", "half"]);
    world.get("/v1/usage?nonsense=1").await.is(400);
    world.get("/v1/usage?continue=nonsense").await.is(400);
}

/// `team=a` has two namespaces, each with a reservation more than the one before.
#[tokio::test]
async fn namespaces_are_counted_selected_by_labels_and_sorted() {
    let world = filled().await;
    let labelled = ["full", "over"].map(|name| {
        let metadata = json!({"name": name, "uid": format!("ns-{name}"), "resourceVersion": "1", "labels": {"team": "a"}});
        json!({"type": "ADDED", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}})
    });
    world.events(&labelled).await;
    limit(&world, "near", "10").await;
    reserve(&world, "near", "u3", 8).await;
    reserve(&world, "near", "u4", 1).await;
    let all = world.get("/v1/usage?limit=1").await;
    let counts = json!({"over": 1, "full": 1, "atRisk": 1, "pending": 4});
    assert_eq!(all.is(200).body["counts"], counts);
    assert_eq!(all.body["total"], 6);
    let of_team = world.get("/v1/usage?labelSelector=team%3Da").await;
    assert_eq!(names(of_team.is(200).items()), ["over", "full"]);
    let counts = json!({"over": 1, "full": 1, "atRisk": 0, "pending": 1});
    assert_eq!(of_team.body["counts"], counts);
    let then = world.get("/v1/usage?labelSelector=team&sequence=8").await;
    assert!(then.is(200).items().is_empty());

    for (sort, order) in [
        ("name", ["free", "full", "half", "near", "over", "zero"]),
        ("pending", ["near", "full", "half", "free", "over", "zero"]),
    ] {
        let mut paged = Vec::new();
        let mut after = String::new();
        loop {
            let page = world.get(&format!("/v1/usage?sort={sort}&limit=4&continue={after}")).await;
            let shown = names(page.is(200).items()).into_iter().map(str::to_owned);
            paged.extend(shown);
            let Some(next) = page.body["continue"].as_str() else {
                break;
            };
            next.clone_into(&mut after);
        }
        assert_eq!(paged, order);
    }
    world.get("/v1/usage?labelSelector=%3D").await.is(400);
    world.get("/v1/usage?sort=size").await.is(400);
}

/// A limit of nothing that is passed has no share, and comes first.
#[tokio::test]
async fn what_is_taken_of_nothing_is_the_fullest() {
    let world = filled().await;
    let mut passed = widget("w3", 1, "1");
    passed["namespace"] = "zero".into();
    passed["usage"] = json!({"pods": "1"});
    world.events(&[passed]).await;
    let all = world.get("/v1/usage?limit=1").await;
    assert_eq!(names(all.is(200).items()), ["zero"]);
    assert_eq!(all.items()[0]["fullest"]["share"], Value::Null);
    let token = all.body["continue"].as_str().unwrap();
    let next = world.get(&format!("/v1/usage?limit=1&continue={token}")).await;
    assert_eq!(names(next.is(200).items()), ["over"]);
}

#[tokio::test]
async fn the_overview_and_the_pending_are_told_of_the_past() {
    let world = filled().await;
    let then = world.get("/v1/usage?sequence=5").await;
    assert_eq!(names(then.is(200).items()), ["half", "full", "over", "zero"]);
    assert_eq!(then.body["asOf"]["sequence"], 5);
    let path = "/v1/namespaces/half/reservations";
    let earlier = world.get(&format!("{path}?sequence=4")).await;
    assert!(earlier.is(200).items().is_empty());
    world.delete(&format!("{path}/u1")).await.is(204);
    assert!(world.get(path).await.is(200).items().is_empty());
    let then = world.get(&format!("{path}?sequence=8")).await;
    assert_eq!(then.is(200).items()[0]["reservedBy"]["uid"], "u1");
}

#[tokio::test]
async fn a_trend_is_the_share_at_each_point() {
    let world = filled().await;
    let begin =
        world.get("/v1/entries?limit=1").await.items()[0]["time"].as_str().unwrap().to_owned();
    let path = format!("/v1/usage/history?namespaces=full,free,half&from={begin}&step=1h");
    let trend = world.get(&path).await;
    assert_eq!(trend.is(200).body["namespaces"], json!(["full", "free", "half"]));
    let points = trend.body["points"].as_array().unwrap();
    assert_eq!(points.len(), 1);
    assert_eq!(points[0]["shares"], json!([1.0, null, 0.5]));
    assert_eq!(points[0]["max"], json!([1.0, null, 0.5]));
    // The first quota was there before anything counted.
    assert_eq!(points[0]["min"][2], 0.0);
    let as_of = world.get("/v1/status").await.body["asOf"]["time"].as_str().unwrap().to_owned();
    let path = format!("/v1/usage/history?namespaces=full,free,half&from={as_of}&step=1h");
    let trend = world.get(&path).await;
    let points = trend.is(200).body["points"].as_array().unwrap().clone();
    assert_eq!(points[0]["shares"], json!([1.0, null, 0.5]));
    let many = "a,".repeat(501);
    world.get(&format!("/v1/usage/history?namespaces={many}&from={begin}")).await.is(422);
    world.get("/v1/usage/history?namespaces=a").await.is(400);
}

#[tokio::test]
async fn the_newest_entries_come_first_if_asked_for() {
    let world = filled().await;
    let sequences = |items: &[Value]| -> Vec<u64> {
        let sequences = items.iter().map(|item| item["sequence"].as_u64().unwrap());
        sequences.collect()
    };
    let all = world.get("/v1/entries?order=desc").await;
    assert_eq!(sequences(all.is(200).items()), (1..=8).rev().collect::<Vec<_>>());
    assert_eq!(all.body["continue"], Value::Null);
    let mut paged = Vec::new();
    let mut path = "/v1/entries?order=desc&from=7&limit=3".to_owned();
    loop {
        let page = world.get(&path).await;
        paged.extend(sequences(page.is(200).items()));
        let Some(token) = page.body["continue"].as_str() else {
            break;
        };
        path = format!("/v1/entries?order=desc&limit=3&continue={token}");
    }
    assert_eq!(paged, (1..=7).rev().collect::<Vec<_>>());
    let of_one = world.get("/v1/entries?order=desc&namespace=half&from=99").await;
    assert_eq!(sequences(of_one.is(200).items()), [5, 1]);
    world.get("/v1/entries?order=sideways").await.is(400);
}

/// More than are read from the journal at a time.
#[tokio::test]
async fn many_entries_are_told_backwards_without_gap_or_double() {
    let world = World::new();
    let events: Vec<_> = (0..1300).map(|index| widget(&format!("w{index}"), 1, "1")).collect();
    for some in events.chunks(100) {
        world.events(some).await;
    }
    let mut sequences = Vec::new();
    let mut path = "/v1/entries?order=desc&limit=400".to_owned();
    loop {
        let page = world.get(&path).await;
        let items = page.is(200).items().iter();
        sequences.extend(items.map(|item| item["sequence"].as_u64().unwrap()));
        let Some(token) = page.body["continue"].as_str() else {
            break;
        };
        path = format!("/v1/entries?order=desc&limit=400&continue={token}");
    }
    assert_eq!(sequences, (1..=1300).rev().collect::<Vec<_>>());
}

#[tokio::test]
async fn the_status_tells_how_the_ledger_stands() {
    let world = World::new();
    let empty = world.get("/v1/status").await;
    assert_eq!(empty.is(200).body["oldest"], Value::Null);
    limit(&world, "a", "1").await;
    let status = world.get("/v1/status").await;
    assert_eq!(status.body["oldest"]["sequence"], 1);
    assert_eq!(status.body["asOf"]["sequence"], 1);
    assert_eq!(status.body["caughtUp"], true);
    assert_eq!(status.body["lagging"], Value::Null);
    let caller = json!({
        "principal": "anonymous", "roles": ["read", "reserve", "ingest", "admin"], "namespaces": ["*"],
        "readsAllNamespaces": true,
    });
    assert_eq!(status.body["caller"], caller);
    world.sources.lag.store(true, std::sync::atomic::Ordering::SeqCst);
    assert_eq!(world.get("/v1/status").await.body["lagging"], true);
}

#[tokio::test]
async fn a_check_may_be_asked_for_in_yaml() {
    let world = World::new();
    limit(&world, "a", "1").await;
    let path = "/v1/namespaces/a/check";
    let yaml = [("content-type", "application/yaml")];
    let pod = "object:\n  apiVersion: v1\n  kind: Pod\n  metadata:\n    name: p\n  spec:\n    containers:\n    - name: c\n";
    let fits = world.call("POST", path, &yaml, pod).await;
    assert_eq!(fits.is(200).body["fits"], true);
    let amounts = world.call("POST", path, &yaml, "reserved: {pods: 2}").await;
    assert_eq!(amounts.is(200).body["fits"], false);
    let untyped = world.call("POST", path, &[], "reserved: {pods: 2}").await;
    assert_eq!(untyped.is(200).body["fits"], false);
    for unreadable in ["", "[[[[", "reserved"] {
        let refused = world.call("POST", path, &[], unreadable).await;
        refused.is_refused(400, "Malformed");
    }
    world.call("POST", path, &yaml, "reserved: [").await.is(400);
    world.call("POST", path, &yaml, "- 1").await.is(400);
    // Aliases could make any amount of a short text.
    let aliases = vec!["*a"; 99].join(", ");
    let long = format!("{pod}  a: &a '{}'\n  x: [{aliases}]\n", "\"".repeat(100_000));
    let refused = world.call("POST", path, &yaml, long).await;
    refused.is_refused(400, "Malformed");
}
