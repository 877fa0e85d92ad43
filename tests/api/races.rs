//! Many callers at once.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;

use crate::world::{World, pods};

#[tokio::test(flavor = "multi_thread")]
async fn of_many_racers_exactly_as_many_win_as_there_is_room() {
    let world = Arc::new(World::new());
    world.quota(json!({"pods": "17"})).await;
    let mut racers = JoinSet::new();
    for index in 0..100 {
        let world = world.clone();
        racers.spawn(async move {
            let body = pods(&format!("u{index}"), 1);
            world.post("/v1/namespaces/a/reservations", &body).await.status
        });
    }
    let statuses = racers.join_all().await;
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    assert_eq!((count(201), count(403)), (17, 83));
    let quota = world.get("/v1/namespaces/a/quotas/q").await;
    assert_eq!(quota.body["status"]["reserved"]["pods"], "17");
    assert_eq!(quota.body["status"]["reservations"].as_array().unwrap().len(), 17);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_uid_wins_once_however_often_it_asks() {
    let world = Arc::new(World::new());
    world.quota(json!({"pods": "1"})).await;
    let mut callers = JoinSet::new();
    for _ in 0..32 {
        let world = world.clone();
        callers.spawn(async move {
            let reply = world.post("/v1/namespaces/a/reservations", &pods("u", 1)).await;
            (reply.status, reply.body["createdTime"].clone())
        });
    }
    let replies = callers.join_all().await;
    assert_eq!(replies.iter().filter(|(status, _)| *status == 201).count(), 1);
    assert_eq!(replies.iter().filter(|(status, _)| *status == 200).count(), 31);
    assert!(replies.iter().all(|(_, created)| *created == replies[0].1));
}
