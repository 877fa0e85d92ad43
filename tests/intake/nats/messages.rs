//! What messages hold, and how often they count.

use super::*;
use crate::support::until;

/// Every tenth message cannot be understood: it leaves a dead letter each time that it counts.
fn mixed(numbers: std::ops::Range<usize>) -> impl Iterator<Item = String> {
    numbers.map(|number| match number % 10 {
        0 => format!("poison {number}"),
        _ => widget("ADDED", number, 0),
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_counts_once_however_the_daemon_ends() {
    const EACH: usize = 500;
    const ROUNDS: usize = 6;
    let mut scene = Scene::new();
    // Small batches, so that there is a middle to end in.
    scene.config.journal.max_batch_entries = std::num::NonZeroUsize::new(16).unwrap();
    scene.first_contact().await;
    let context = scene.server.jetstream().await;
    for round in 0..ROUNDS {
        let daemon = scene.daemon().await;
        publish(&context, mixed(round * EACH..(round + 1) * EACH)).await;
        let some = (round * EACH) as u64 + 20;
        daemon.until("some are consumed", |state| position(state) > some).await;
        match round % 2 {
            0 => daemon.abort().await,
            _ => daemon.stop().await,
        }
    }
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    daemon.ledger.peek(|state| {
        assert_eq!(position(state), (ROUNDS * EACH) as u64);
        assert_eq!(state.dead_letters().count(), ROUNDS * EACH / 10);
        assert_eq!(state.object_count() as usize, ROUNDS * EACH / 10 * 9);
        assert_eq!(units(state), (ROUNDS * EACH / 10 * 9 * 2) as i64);
    });
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_old_or_told_twice_changes_nothing() {
    let scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let events = [
        widget("ADDED", 1, 5),
        widget("ADDED", 1, 5),
        widget("MODIFIED", 1, 4).replace("\"2\"", "\"7\""),
        widget("MODIFIED", 1, 6).replace("\"2\"", "\"3\""),
        widget("ADDED", 2, 1),
        widget("DELETED", 2, 2),
        widget("DELETED", 2, 2),
        widget("MODIFIED", 2, 3),
    ];
    publish(&scene.server.jetstream().await, events).await;
    daemon.until("all are consumed", |state| position(state) == 8).await;
    daemon.ledger.peek(|state| {
        assert!(is_alive(state, 1) && !is_alive(state, 2));
        assert_eq!(units(state), 3);
    });
    let selected = |event: &Event| (!matches!(event, Event::SourceAdvanced { .. })).then_some(());
    let recorded = daemon.recorded(selected).await.len();
    assert_eq!(recorded, 1 + 4, "the first contact, two versions, one creation, one deletion");
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_understood_is_kept_and_stops_nothing() {
    let mut scene = Scene::new();
    scene.config.nats.max_message_bytes = quotad::config::Size::from_bytes(10_000);
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let lines = format!("{}\nbad line\n{}", widget("ADDED", 1, 1), widget("ADDED", 2, 1));
    let payloads =
        ["\u{1b}[31m".to_owned(), lines, " ".to_owned(), "x".repeat(20_000), widget("ADDED", 3, 1)];
    publish(&scene.server.jetstream().await, payloads).await;
    daemon.until("all are consumed", |state| position(state) == 5).await;
    assert_eq!(daemon.ledger.peek(State::object_count), 3);
    let letters = daemon.recorded(dead_letter).await;
    let reasons: Vec<_> = letters.iter().map(|letter| (letter.position, &*letter.reason)).collect();
    assert!(letters.iter().all(|letter| letter.source == STREAM));
    assert!(
        matches!(
            reasons[..],
            [
                (1, "expected value at line 1 column 1"),
                (2, "line 2: expected value at line 1 column 1"),
                (3, "the message is empty"),
                (4, "20000 bytes are more than nats.max_message_bytes"),
            ]
        ),
        "{reasons:?}"
    );
    assert_eq!(&*letters[0].payload, "\u{1b}[31m");
    assert_eq!(letters[3].payload.len(), quota_core::event::DEAD_LETTER_MAX_BYTES);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_message_may_hold_more_events_than_a_batch() {
    let mut scene = Scene::new();
    scene.config.journal.max_batch_entries = std::num::NonZeroUsize::new(100).unwrap();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let many = widgets(0..3_000).collect::<Vec<_>>().join("\n");
    publish(&scene.server.jetstream().await, [many, widget("ADDED", 3_000, 1)]).await;
    daemon.until("all are consumed", |state| position(state) == 2).await;
    assert_eq!(daemon.ledger.peek(State::object_count), 3_001);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cloud_events_come_in_binary_mode_too() {
    let scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let context = scene.server.jetstream().await;
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Ce-Specversion", "1.0");
    headers.insert("Ce-Type", "dev.knative.apiserver.resource.add");
    let object = r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w1","namespace":"team-a",
        "uid":"u-1","resourceVersion":"3"}}"#;
    let sent = context.publish_with_headers("quota.objects.here", headers, object.into()).await;
    sent.unwrap().await.unwrap();
    daemon.until("it is consumed", |state| is_alive(state, 1)).await;
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_come_in_several_helpings() {
    let scene = Scene::new();
    scene.first_contact().await;
    let large = |number| widget("ADDED", number, 1) + &" ".repeat(900_000);
    publish(&scene.server.jetstream().await, (0..30).map(large)).await;
    let daemon = scene.daemon().await;
    daemon.until("all are consumed", |state| position(state) == 30).await;
    assert_eq!(daemon.ledger.peek(State::object_count), 30);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_makes_the_stream_wait() {
    let mut scene = Scene::new();
    scene.config.limits.queue = std::num::NonZeroUsize::new(1).unwrap();
    scene.config.journal.max_batch_entries = std::num::NonZeroUsize::new(10).unwrap();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let (ledger, done) = (daemon.ledger.clone(), tokio_util::sync::CancellationToken::new());
    let crowd: Vec<_> = (0..8)
        .map(|_| {
            let (ledger, done) = (ledger.clone(), done.clone());
            tokio::spawn(async move {
                let mut refused = 0_u64;
                while !done.is_cancelled() {
                    refused += u64::from(ledger.decide(|_| ()).await.is_err());
                    tokio::task::yield_now().await;
                }
                refused
            })
        })
        .collect();
    publish(&scene.server.jetstream().await, widgets(0..500)).await;
    daemon.until("all are consumed", |state| position(state) == 500).await;
    done.cancel();
    let mut refused = 0;
    for one in crowd {
        refused += one.await.unwrap();
    }
    assert!(refused > 0, "the queue was never full");
    assert_eq!(daemon.ledger.peek(State::object_count), 500);
    daemon.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_watermark_follows_the_stream() {
    let scene = Scene::new();
    let daemon = scene.daemon().await;
    daemon.caught_up().await;
    let before = daemon.ledger.watermark().get();
    until("it moves on although nothing comes", || {
        (daemon.ledger.watermark().get() > before).then_some(())
    })
    .await;
    publish(&scene.server.jetstream().await, widgets(0..100)).await;
    daemon.caught_up().await;
    let standing = daemon.status.get();
    assert_eq!((standing.cursor, standing.last_sequence), (100, 100));
    assert!(!standing.is_lagging(quotad::now()) && standing.last_message_time.is_some());
    daemon.stop().await;
}
