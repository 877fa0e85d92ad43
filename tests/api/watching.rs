//! Watching entries as they become durable.

use axum::body::{Body, BodyDataStream};
use futures::StreamExt as _;
use http::Request;
use serde_json::{Value, json};

use crate::world::{World, pods};

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
        Self {
            stream,
            text: String::new(),
        }
    }

    /// Id, type and data of the next event; none at the end.
    async fn next(&mut self) -> Option<(u64, String, Value)> {
        loop {
            if let Some((event, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| {
                    let line = event.lines().find_map(|line| line.strip_prefix(name));
                    line.map(|value| value.trim().to_owned())
                };
                let found = field("id:").map(|id| {
                    let data = serde_json::from_str(&field("data:").unwrap()).unwrap();
                    (id.parse().unwrap(), field("event:").unwrap(), data)
                });
                self.text = rest.to_owned();
                if found.is_some() {
                    return found;
                }
                continue;
            }
            let more = self.stream.next().await?.unwrap();
            self.text.push_str(std::str::from_utf8(&more).unwrap());
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
    world
        .post("/v1/namespaces/a/reservations", &body)
        .await
        .is(201);
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
    assert_eq!(
        again.ids(2).await,
        [8, 9],
        "where it was goes before where it began"
    );
    let mut from = Watching::open(&world, "/v1/watch?from=8", None).await;
    assert_eq!(from.ids(2).await, [8, 9]);
}

#[tokio::test]
async fn a_watcher_that_falls_behind_reads_the_journal() {
    let world = World::new();
    let mut watching = Watching::open(&world, "/v1/watch?from=1", None).await;
    // More batches than are kept for watchers.
    for uid in 1..=1100 {
        let body = json!({"items": [{"namespace": format!("n{uid}"), "reservedBy": {"uid": format!("u{uid}")},
                                     "reserved": {}}]});
        world.post("/v1/reservations:batch", &body).await.is(200);
    }
    let ids = watching.ids(1100).await;
    assert_eq!(ids, (1..=1100).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_watch_may_be_of_one_namespace() {
    let world = World::new();
    let mut watching = Watching::open(&world, "/v1/watch?namespace=b", None).await;
    reserve(&world, 1).await;
    world
        .post("/v1/namespaces/b/reservations", &pods("v", 1))
        .await
        .is(201);
    world
        .delete("/v1/namespaces/b/reservations/v")
        .await
        .is(204);
    assert_eq!(watching.ids(2).await, [2, 3]);
}

#[tokio::test]
async fn watches_are_counted_and_end_with_the_daemon() {
    let world = World::with(|parts| parts.watch_streams = 1.into());
    let mut first = Watching::open(&world, "/v1/watch", None).await;
    world
        .get("/v1/watch")
        .await
        .is_refused(503, "TooManyWatches");
    world.stop.cancel();
    assert_eq!(first.next().await, None);
    drop(first);
    let bad = [("last-event-id", "x")];
    world
        .call("GET", "/v1/watch", &bad, "")
        .await
        .is_refused(400, "Malformed");
}
