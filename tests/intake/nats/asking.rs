//! The daemon requests a relist from publishers after a possible loss.

use async_nats::Subscriber;
use futures::{FutureExt as _, StreamExt as _};
use quota_core::event::{Event, RelistOutcome};
use quotad::{api::Sources as _, config::WatermarkSource};
use serde_json::{Value, json};

use super::*;
use crate::support::until;

const BEGIN: &str = r#"{"type":"RELIST_BEGIN","resource":"widgets.example.com"}"#;
const END: &str = r#"{"type":"RELIST_END","resource":"widgets.example.com"}"#;

fn scene() -> Scene {
    let mut scene = Scene::new();
    scene.config.nats.relist_interval = "10ms".parse().unwrap();
    scene
}

async fn listen(scene: &Scene) -> Subscriber {
    let client = async_nats::connect(scene.server.url()).await.unwrap();
    let subscriber = client.subscribe("quota.control.*.relist").await.unwrap();
    client.flush().await.unwrap();
    subscriber
}

/// What was requested next, and of which cluster.
async fn request(subscriber: &mut Subscriber) -> (String, Value) {
    let message = tokio::time::timeout(crate::support::PATIENCE, subscriber.next()).await;
    let message = message.expect("nobody was asked").unwrap();
    (message.subject.to_string(), serde_json::from_slice(&message.payload).unwrap())
}

fn of(cluster: &str, resources: &[&str]) -> (String, Value) {
    (format!("quota.control.{cluster}.relist"), json!({ "resources": resources }))
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_relist_that_came_to_nothing() {
    let scene = scene();
    scene.first_contact().await;
    let mut subscriber = listen(&scene).await;
    let context = scene.server.jetstream().await;
    let daemon = scene.daemon().await;
    let list = [BEGIN.to_owned(), "garbage".to_owned(), END.to_owned()];
    publish(&context, list).await;
    let expected = of("here", &["widgets.example.com"]);
    assert_eq!(request(&mut subscriber).await, expected);
    let outcome = |event: &Event| match event {
        Event::RelistEnded(end) => Some(end.outcome),
        _ => None,
    };
    let outcomes = daemon.recorded(outcome).await;
    assert_eq!(outcomes, [RelistOutcome::Incomplete]);
    let list = [BEGIN.to_owned(), widget("ADDED", 0, 1), END.to_owned()];
    publish(&context, list).await;
    daemon
        .until("the relist is over", |state| position(state) == 6 && state.relist_count() == 0)
        .await;
    daemon.stop().await;
    let more = subscriber.next().now_or_never();
    assert!(more.is_none(), "nothing was lost this time");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_gap_and_after_a_stream_began_anew() {
    let scene = scene();
    scene.first_contact().await;
    let mut subscriber = listen(&scene).await;
    let context = scene.server.jetstream().await;
    publish(&context, widgets(0..3)).await;
    let stream = context.get_stream(STREAM).await.unwrap();
    stream.purge().sequence(3).await.unwrap();
    let daemon = scene.daemon().await;
    assert_eq!(request(&mut subscriber).await, of("here", &[]));
    daemon.stop().await;

    context.delete_stream(STREAM).await.unwrap();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    // There is no cluster yet to send the request to: the subjects name the clusters.
    publish(&context, widgets(0..1)).await;
    assert_eq!(request(&mut subscriber).await, of("here", &[]));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn until_somebody_listens_and_by_the_name_that_is_configured() {
    let mut scene = scene();
    scene.config.nats.cluster = Some("prod".to_owned());
    scene.config.nats.control_prefix = "my.control".to_owned();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    publish(&context, [BEGIN.to_owned(), "garbage".into(), END.into()]).await;
    let daemon = scene.daemon().await;
    daemon.until("the relist is over", |state| position(state) == 3).await;
    let client = async_nats::connect(scene.server.url()).await.unwrap();
    let mut subscriber = client.subscribe("my.control.>").await.unwrap();
    client.flush().await.unwrap();
    let (subject, body) = request(&mut subscriber).await;
    assert_eq!(subject, "my.control.prod.relist");
    assert_eq!(body, json!({"resources": ["widgets.example.com"]}));
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn for_what_a_watermark_is_waited_for_and_by_hand() {
    let mut scene = scene();
    scene.config.nats.watermark = WatermarkSource::Bridge;
    scene.config.nats.watermark_resources =
        vec!["pods".to_owned(), "widgets.example.com".to_owned()];
    scene.config.nats.relist_interval = "1h".parse().unwrap();
    let mut subscriber = listen(&scene).await;
    let context = scene.server.jetstream().await;
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let list = [BEGIN.to_owned(), widget("ADDED", 0, 1), END.to_owned()];
    publish(&context, list).await;
    let (subject, body) = request(&mut subscriber).await;
    assert_eq!(subject, "quota.control.here.relist");
    let kinds = body["resources"].as_array().unwrap();
    assert!(kinds.contains(&json!("pods")), "{body}");

    // The next request waits, since another one was just sent.
    let throttled = || {
        let relist = daemon.status.request_relist(["services".into()].into());
        (relist.unwrap().wait > std::time::Duration::from_secs(3000)).then_some(())
    };
    until("it has to wait", throttled).await;
    let relist = daemon.status.request_relist(<_>::default()).unwrap();
    assert_eq!(relist.clusters, ["here"]);
    assert!(subscriber.next().now_or_never().is_none());
    daemon.stop().await;
}
