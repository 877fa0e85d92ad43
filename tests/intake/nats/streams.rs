//! What can happen to a server and its stream.

use async_nats::jetstream::stream::Config as StreamConfig;
use futures::TryStreamExt as _;
use quota_core::{decide, event::Actor};
use quotad::intake::record;

use super::*;
use crate::daemon::Opened;
use crate::support::{nats, until};

#[tokio::test(flavor = "multi_thread")]
async fn a_server_may_be_killed_and_come_back() {
    let mut scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    for round in 0..3 {
        publish(&scene.server.jetstream().await, widgets(round * 300..(round + 1) * 300)).await;
        scene.server.kill();
        until("the loss is seen", || (!daemon.status.get().connected).then_some(())).await;
        assert!(daemon.status.get().is_lagging(quotad::now()));
        scene.server.restart();
    }
    daemon.until("all are consumed", |state| position(state) == 900).await;
    daemon.caught_up().await;
    assert_eq!(daemon.ledger.peek(units), 1_800);
    assert!(daemon.recorded(gap).await.is_empty());
    assert_eq!(daemon.recorded(reset).await.len(), 1, "only the first contact");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_daemon_may_start_before_the_server() {
    let port = nats::free_port();
    let mut config = Config::default();
    config.nats.url = Some(nats::url(port));
    config.nats.poll_interval = "50ms".parse().unwrap();
    config.nats.connection.max_backoff = "100ms".parse().unwrap();
    let directory = TempDir::new().unwrap();
    let daemon = Daemon::start(directory.path(), &config).await;
    let standing = daemon.status.get();
    assert!(!standing.connected && !standing.caught_up_once());
    assert!(!daemon.ledger.watermark().is_known());
    let server = Server::start_at(port, &[]);
    daemon.caught_up().await;
    publish(&server.jetstream().await, widgets(0..10)).await;
    daemon.until("all are consumed", |state| position(state) == 10).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_began_anew_is_read_from_its_beginning() {
    let mut scene = Scene::new();
    scene.first_contact().await;
    // Older servers lose messages of a stream that is created twice while it is being deleted.
    scene.config.nats.create_stream = false;
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let context = scene.server.jetstream().await;
    let config = context.get_stream(STREAM).await.unwrap().cached_info().config.clone();
    publish(&context, widgets(0..50)).await;
    daemon.until("all are consumed", |state| position(state) == 50).await;

    // While it is consumed; the new one is shorter at first.
    context.delete_stream(STREAM).await.unwrap();
    context.create_stream(config.clone()).await.unwrap();
    publish(&context, widgets(40..60)).await;
    daemon
        .until("all of the second are consumed", |state| {
            position(state) == 20 && is_alive(state, 59)
        })
        .await;
    assert_eq!(daemon.recorded(reset).await.len(), 1);
    daemon.stop().await;

    // While nobody looks; the new one is longer.
    context.delete_stream(STREAM).await.unwrap();
    context.create_stream(config).await.unwrap();
    publish(&context, widgets(55..100)).await;
    let daemon = scene.daemon().await;
    daemon.until("all of the third are consumed", |state| position(state) == 45).await;
    assert_eq!(daemon.recorded(reset).await.len(), 1);
    assert_eq!(daemon.ledger.peek(State::object_count), 100);
    assert_eq!(daemon.ledger.peek(units), 200);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_message_where_the_cursor_stands_gives_a_stream_away() {
    let mut scene = Scene::new();
    scene.first_contact().await;
    publish(&scene.server.jetstream().await, widgets(0..2)).await;
    scene.server.kill();
    let backup = scene.server.copy();
    scene.server.restart();
    publish(&scene.server.jetstream().await, widgets(2..3)).await;
    let daemon = scene.daemon().await;
    daemon.until("all are consumed", |state| position(state) == 3).await;
    daemon.stop().await;

    // A restored backup has the same creation time, and may have grown since.
    scene.server.kill();
    scene.server.restore(backup);
    scene.server.restart();
    publish(&scene.server.jetstream().await, widgets(77..78)).await;
    let daemon = scene.daemon().await;
    daemon.until("the other message is consumed", |state| is_alive(state, 77)).await;
    assert_eq!(daemon.recorded(reset).await.len(), 1);
    assert_eq!(daemon.ledger.peek(State::object_count), 4);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn removed_messages_are_a_gap() {
    let scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let context = scene.server.jetstream().await;
    let stream = context.get_stream(STREAM).await.unwrap();
    publish(&context, widgets(0..10)).await;
    daemon.until("all are consumed", |state| position(state) == 10).await;
    daemon.stop().await;

    publish(&context, widgets(10..20)).await;
    stream.purge().await.unwrap();
    let daemon = scene.daemon().await;
    daemon.until("the whole purge is passed", |state| position(state) == 20).await;
    publish(&context, widgets(20..30)).await;
    daemon.until("it goes on behind it", |state| position(state) == 30).await;
    assert_eq!(daemon.recorded(gap).await, [(11, 20)]);
    daemon.stop().await;

    publish(&context, widgets(30..40)).await;
    for (from, to) in [(33, 34), (36, 36), (39, 40)] {
        for position in from..=to {
            stream.delete_message(position).await.unwrap();
        }
    }
    let daemon = scene.daemon().await;
    daemon.until("the end is reached", |state| position(state) == 40).await;
    assert_eq!(daemon.recorded(gap).await, [(33, 34), (36, 36), (39, 40)]);
    assert_eq!(daemon.ledger.peek(State::object_count), 25);
    daemon.caught_up().await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_may_be_deleted_under_the_daemon() {
    let scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let context = scene.server.jetstream().await;
    let stream = context.get_stream(STREAM).await.unwrap();
    for round in 0..3 {
        let names: Vec<String> = stream.consumer_names().try_collect().await.unwrap();
        for name in names {
            stream.delete_consumer(&name).await.unwrap();
        }
        publish(&context, widgets(round * 100..(round + 1) * 100)).await;
        let all = (round as u64 + 1) * 100;
        daemon.until("all are consumed", |state| position(state) == all).await;
    }
    assert_eq!(daemon.ledger.peek(units), 600);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn other_subjects_of_the_stream_are_no_gap() {
    let scene = Scene::new();
    let context = scene.server.jetstream().await;
    let config = StreamConfig {
        name: STREAM.to_owned(),
        subjects: vec!["quota.objects.>".to_owned(), "other.>".to_owned()],
        ..StreamConfig::default()
    };
    context.create_stream(config).await.unwrap();
    let daemon = scene.daemon().await;
    for number in 0..10 {
        publish(&context, [widget("ADDED", number, 1)]).await;
        context.publish("other.thing", "{".into()).await.unwrap().await.unwrap();
    }
    daemon.until("all are consumed", |state| is_alive(state, 9)).await;
    daemon.caught_up().await;
    assert_eq!(daemon.status.get().cursor, 20);
    assert!(daemon.recorded(gap).await.is_empty() && daemon.recorded(dead_letter).await.is_empty());
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_stream_is_waited_for_if_it_is_not_to_be_created() {
    let mut scene = Scene::new();
    scene.config.nats.create_stream = false;
    let daemon = scene.daemon().await;
    until("the server is connected", || daemon.status.get().connected.then_some(())).await;
    let context = scene.server.jetstream().await;
    let config = StreamConfig {
        name: STREAM.to_owned(),
        subjects: vec!["quota.objects.>".to_owned()],
        ..StreamConfig::default()
    };
    assert!(!daemon.status.get().caught_up_once());
    context.create_stream(config).await.unwrap();
    publish(&context, widgets(0..5)).await;
    daemon.until("all are consumed", |state| position(state) == 5).await;
    daemon.stop().await;
}

/// A session that is broken off leaves what it handed in behind; the next one has to begin after that, or it would note
/// the same again.
#[tokio::test(flavor = "multi_thread")]
async fn the_next_session_begins_behind_what_the_last_one_handed_in() {
    let directory = TempDir::new().unwrap();
    let opened = Opened::open(directory.path());
    let (source, actor) = (Name::from(STREAM), Actor::named("test"));
    let first = Name::from("first");
    let begun = record::reset(&opened.ledger, &actor, &source, &first);
    begun.await.unwrap();
    for position in 1..=200 {
        let gap = decide::gap(&source, position, position);
        {
            let mut broken_off = std::pin::pin!(record::note(&opened.ledger, &actor, gap));
            let _ = futures::poll!(&mut broken_off);
        }
        let cursor = record::cursor(&opened.ledger, &source).await.unwrap();
        assert_eq!(cursor.unwrap().position, position);
    }
    opened.close().await;
}
