//! Events by HTTP, below the HTTP.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{collections::BTreeMap, sync::Arc};

use quota_ledger::event::{Actor, DeadLetter, Event};
use quotad::intake::{
    http::{Answer, accept},
    payload::Reader,
    record::Recorded,
};
use support::daemon::Opened;
use tempfile::TempDir;

async fn post(opened: &Opened, body: String) -> Answer {
    let reader = Arc::new(Reader::new(&BTreeMap::new(), true));
    let actor = Actor::named("tester");
    accept(&opened.ledger, &reader, &actor, 100, body.into())
        .await
        .unwrap()
}

fn event(change: &str, number: usize) -> String {
    format!(
        r#"{{"type":"{change}","namespace":"team-a","resource":"widgets.example.com","name":"w{number}","uid":"u-{number}","resourceVersion":"1"}}"#
    )
}

fn letter(event: &Event) -> Option<DeadLetter> {
    match event {
        Event::MessageRejected(letter) => Some((**letter).clone()),
        _ => None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_a_body_is_answered_for_and_durable() {
    let directory = TempDir::new().unwrap();
    let opened = Opened::open(directory.path());
    let mut lines: Vec<_> = (0..100).map(|number| event("ADDED", number)).collect();
    lines.extend([
        event("ADDED", 5),
        event("DELETED", 5),
        "bad".to_owned(),
        String::new(),
    ]);
    lines.push(event("BAD", 1));
    let Answer { recorded, rejected } = post(&opened, lines.join("\n")).await;
    assert_eq!(
        recorded,
        Recorded {
            accepted: 101,
            ignored: 1,
            rejected: 2
        }
    );
    let lines: Vec<_> = rejected.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [103, 105]);
    assert!(rejected[1].1.contains("unknown type"));
    let letters = opened.recorded(letter).await;
    assert!(letters.iter().all(|letter| letter.source == "http"));
    assert_eq!(
        letters
            .iter()
            .map(|letter| letter.position)
            .collect::<Vec<_>>(),
        [103, 105]
    );
    opened.close().await;

    let opened = Opened::open(directory.path());
    opened.ledger.peek(|state| {
        assert_eq!(
            (state.object_count(), state.dead_letters().count()),
            (99, 2)
        );
    });
    opened.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_body_changes_nothing() {
    let directory = TempDir::new().unwrap();
    let opened = Opened::open(directory.path());
    let body = format!("[{},{}]", event("ADDED", 1), event("ADDED", 2));
    assert_eq!(post(&opened, body.clone()).await.recorded.accepted, 2);
    let head = opened.ledger.durable();
    let again = post(&opened, body).await;
    assert_eq!(
        again.recorded,
        Recorded {
            accepted: 0,
            ignored: 2,
            rejected: 0
        }
    );
    assert_eq!(opened.ledger.durable(), head);
    assert_eq!(post(&opened, String::new()).await, Answer::default());
    opened.close().await;
}

/// An event of about 150 KiB, all of it names.
fn wide(number: usize) -> String {
    let domain = "x".repeat(60);
    let name = |n| format!(r#""e{n}-{number}.{domain}.{domain}.{domain}/{domain}":"1""#);
    let usage: Vec<_> = (0..500).map(name).collect();
    let fields = format!(r#","usage":{{{}}}}}"#, usage.join(","));
    event("ADDED", number).replace('}', &fields)
}

#[tokio::test(flavor = "multi_thread")]
async fn no_crowd_of_long_names_makes_a_batch_that_the_journal_refuses() {
    let directory = TempDir::new().unwrap();
    let opened = Arc::new(Opened::open(directory.path()));
    let bodies = (0..8).map(|body| {
        let lines: Vec<_> = (0..28).map(|line| wide(body * 28 + line)).collect();
        let opened = opened.clone();
        tokio::spawn(async move { post(&opened, lines.join("\n")).await })
    });
    for body in bodies.collect::<Vec<_>>() {
        assert_eq!(body.await.unwrap().recorded.accepted, 28);
    }
    assert!(!opened.ledger.is_stopped());
    Arc::into_inner(opened).unwrap().close().await;
}
