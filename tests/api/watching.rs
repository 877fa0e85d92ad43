//! Watching entries as they become durable.

use crate::world::{World, pods, widget};
use axum::body::{Body, BodyDataStream};
use futures::StreamExt as _;
use http::Request;
use quotad::fairness::Watches;
use serde_json::{Value, json};

/// A watch that is being read.
struct Watching {
    stream: BodyDataStream,
    text: String,
}

impl Watching {
    async fn open(world: &World, path: &str, last_event_id: Option<u64>) -> Self {
        let mut request = Request::get(path);
        if let Some(id) = last_event_id {
            request = request.header("last-event-id", id);
        }
        let response = world.send(request.body(Body::empty()).unwrap()).await;
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        let stream = response.into_body().into_data_stream();
        Self { stream, text: String::new() }
    }

    /// The next block of lines; none at the end.
    async fn block(&mut self) -> Option<String> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let block = block.to_owned();
                self.text = rest.to_owned();
                return Some(block);
            }
            let more = self.stream.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    /// Id, type and data of the next event; none at the end.
    async fn next(&mut self) -> Option<(u64, String, Value)> {
        loop {
            let block = self.block().await?;
            let field = |name: &str| {
                let line = block.lines().find_map(|line| line.strip_prefix(name));
                line.map(|value| value.trim().to_owned())
            };
            // A block without data is no event.
            if let Some(data) = field("data:") {
                let data = serde_json::from_str(&data).unwrap();
                let id = field("id:").unwrap().parse().unwrap();
                return Some((id, field("event:").unwrap(), data));
            }
        }
    }

    async fn ids(&mut self, count: usize) -> Vec<u64> {
        let mut ids = Vec::new();
        while ids.len() < count {
            ids.push(self.next().await.unwrap().0);
        }
        ids
    }
}

async fn reserve(world: &World, uid: u64) {
    let body = pods(&format!("u{uid}"), 1);
    world.post("/v1/namespaces/a/reservations", &body).await.is(201);
}

#[tokio::test]
async fn a_watch_begins_now() {
    let world = World::new();
    reserve(&world, 1).await;
    let mut watching = Watching::open(&world, "/v1/watch", None).await;
    reserve(&world, 2).await;
    let (id, name, data) = watching.next().await.unwrap();
    assert_eq!((id, name.as_str()), (2, "ReservationGranted"));
    assert_eq!(data, world.get("/v1/entries?from=2").await.items()[0]);
}

#[tokio::test]
async fn a_watch_goes_on_where_it_was_without_gap_or_double() {
    let world = World::new();
    for uid in 1..=5 {
        reserve(&world, uid).await;
    }
    let mut watching = Watching::open(&world, "/v1/watch", Some(2)).await;
    assert_eq!(watching.ids(2).await, [3, 4]);
    for uid in 6..=9 {
        reserve(&world, uid).await;
    }
    assert_eq!(watching.ids(5).await, [5, 6, 7, 8, 9]);
    let mut again = Watching::open(&world, "/v1/watch?from=1", Some(7)).await;
    assert_eq!(again.ids(2).await, [8, 9], "where it was goes before where it began");
    let mut from = Watching::open(&world, "/v1/watch?from=8", None).await;
    assert_eq!(from.ids(2).await, [8, 9]);
}

#[tokio::test]
async fn a_watcher_that_falls_behind_reads_the_journal() {
    let world = World::new();
    let mut watching = Watching::open(&world, "/v1/watch?from=1", None).await;
    // More bytes than are kept for watches.
    for number in 1..=60 {
        let long = format!("{number}{}", "x".repeat(200 * 1024));
        let body =
            json!({"metadata": {"annotations": {"a": long}}, "spec": {"hard": {"pods": "1"}}});
        let reply = world.put("/v1/namespaces/a/quotas/q", &body).await;
        assert!(matches!(reply.status, 200 | 201), "{reply:?}");
        assert!(world.ledger.recent().holding(number).is_some(), "{number}");
    }
    assert!(world.ledger.recent().holding(1).is_none());
    let ids = watching.ids(60).await;
    assert_eq!(ids, (1..=60).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_watch_may_be_of_one_namespace() {
    let world = World::new();
    let mut watching = Watching::open(&world, "/v1/watch?namespace=b", None).await;
    reserve(&world, 1).await;
    world.post("/v1/namespaces/b/reservations", &pods("v", 1)).await.is(201);
    world.delete("/v1/namespaces/b/reservations/v").await.is(204);
    assert_eq!(watching.ids(2).await, [2, 3]);
}

#[tokio::test]
async fn a_watch_says_where_it_begins() {
    let world = World::new();
    for (path, last, place) in [
        ("/v1/watch", None, "id: 0"),
        ("/v1/watch?from=1", None, "id: 0"),
        ("/v1/watch?namespace=b&from=4", None, "id: 3"),
        ("/v1/watch?from=1", Some(7), "id: 7"),
    ] {
        let mut watching = Watching::open(&world, path, last).await;
        assert_eq!(watching.block().await.unwrap(), place, "{path}");
    }
    // Whoever goes on there misses nothing.
    reserve(&world, 1).await;
    let mut again = Watching::open(&world, "/v1/watch", Some(0)).await;
    assert_eq!(again.ids(1).await, [1]);
}

/// A client of a quiet namespace must not stay behind until the entry after its last one is no longer kept.
#[tokio::test(start_paused = true)]
async fn a_silent_watch_says_how_far_it_is() {
    let world = World::new();
    let path = "/v1/watch?namespace=quiet";
    let mut watching = Watching::open(&world, path, None).await;
    assert_eq!(watching.block().await.unwrap(), "id: 0");
    for uid in 1..=3 {
        reserve(&world, uid).await;
    }
    let mut place = watching.block().await.unwrap();
    while place != "id: 3" {
        assert!(place.starts_with("id: "), "{place}");
        place = watching.block().await.unwrap();
    }
    // The same from the journal.
    let mut behind = Watching::open(&world, path, Some(1)).await;
    assert_eq!(behind.block().await.unwrap(), "id: 1");
    assert_eq!(behind.block().await.unwrap(), "id: 3");
}

#[tokio::test]
async fn a_watch_takes_the_entries_of_a_long_batch_in_parts() {
    const ITEMS: u64 = 3000;
    let world = World::new();
    let mut watching = Watching::open(&world, "/v1/watch", None).await;
    let mut of_one = Watching::open(&world, "/v1/watch?namespace=n1", None).await;
    let events: Vec<Value> = (0..ITEMS)
        .map(|number| {
            let mut event = widget(&format!("w{number}"), 1, "1");
            event["namespace"] = json!(format!("n{}", number % 3));
            event
        })
        .collect();
    world.events(&events).await;
    assert_eq!(watching.ids(3000).await, (1..=ITEMS).collect::<Vec<_>>());
    let ids = of_one.ids(1000).await;
    assert!(ids.into_iter().eq((1..=ITEMS).filter(|id| id % 3 == 2)));
}

#[tokio::test]
async fn watches_are_counted_and_end_with_the_daemon() {
    let world = World::with(|parts| parts.watches = Watches::new(1.into()));
    let mut first = Watching::open(&world, "/v1/watch", None).await;
    world.get("/v1/watch").await.is_refused(503, "TooManyWatches");
    world.stop.cancel();
    assert_eq!(first.next().await, None);
    drop(first);
    let bad = [("last-event-id", "x")];
    world.call("GET", "/v1/watch", &bad, "").await.is_refused(400, "Malformed");
}

#[tokio::test]
async fn a_watch_names_what_was_deleted() {
    let world = World::new();
    world.events(&[widget("w", 1, "3")]).await;
    let mut watching = Watching::open(&world, "/v1/watch", None).await;
    let mut gone = widget("w", 2, "3");
    gone["type"] = "DELETED".into();
    world.events(&[gone]).await;
    loop {
        let (_, event, data) = watching.next().await.unwrap();
        if event == "ObjectDeleted" {
            assert_eq!(data["subject"]["name"], "w");
            assert_eq!(data["subject"]["amounts"]["requests.example.com/units"], "3");
            break;
        }
    }
}
