//! Events by HTTP, below the HTTP.

use std::{collections::BTreeMap, sync::Arc};

use crate::{daemon::Opened, support};
use quota_core::{
    event::{Actor, DeadLetter, Event},
    state::State,
};
use quotad::{
    api::events::{Answer, record_events},
    intake::{payload::Reader, record::Recorded},
};
use tempfile::TempDir;

async fn post(opened: &Opened, body: String) -> Answer {
    let reader = Arc::new(Reader::new(&BTreeMap::new(), true));
    let actor = Actor::named("tester");
    record_events(&opened.ledger, &reader, &actor, 100, body.into()).await.unwrap()
}

fn event(change: &str, number: usize) -> String {
    format!(
        r#"{{"type":"{change}","namespace":"team-a","resource":"widgets.example.com","name":"w{number}","uid":"u-{number}","resourceVersion":"1"}}"#
    )
}

fn letter(event: &Event) -> Option<DeadLetter> {
    event.dead_letter().cloned()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_line_of_a_body_is_answered_for_and_durable() {
    let directory = TempDir::new().unwrap();
    let opened = Opened::open(directory.path());
    let mut lines: Vec<_> = (0..100).map(|number| event("ADDED", number)).collect();
    lines.extend([event("ADDED", 5), event("DELETED", 5), "bad".to_owned(), String::new()]);
    lines.push(event("BAD", 1));
    let Answer { recorded, rejected } = post(&opened, lines.join("\n")).await;
    assert_eq!(recorded, Recorded { accepted: 101, ignored: 1, rejected: 2 });
    let lines: Vec<_> = rejected.iter().map(|(line, _)| *line).collect();
    assert_eq!(lines, [103, 105]);
    assert!(rejected[1].1.contains("unknown type"));
    let letters = opened.recorded(letter).await;
    assert!(letters.iter().all(|letter| letter.source == "http"));
    assert_eq!(letters.iter().map(|letter| letter.position).collect::<Vec<_>>(), [103, 105]);
    opened.close().await;

    let opened = Opened::open(directory.path());
    opened.ledger.peek(|state| {
        assert_eq!((state.object_count(), state.dead_letters().count()), (99, 2));
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
    assert_eq!(again.recorded, Recorded { accepted: 0, ignored: 2, rejected: 0 });
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
    let next = post(&opened, event("ADDED", 1000)).await;
    assert_eq!(next.recorded.accepted, 1, "the writer still decides");
    Arc::into_inner(opened).unwrap().close().await;
}

/// Objects of the sweep that is cut off: so many that it takes many batches.
const SWEPT: usize = 12_000;

/// The whole daemon, killed without a chance to tidy up while it ends what a relist did not list.
#[tokio::test(flavor = "multi_thread")]
async fn a_sweep_that_is_cut_off_by_a_kill_is_finished_after_the_next_start() {
    let directory = TempDir::new().unwrap();
    let start = || support::quotad::Quotad::start(directory.path(), &[]);
    let send = |api: &str, body: String| {
        let agent = support::quotad::agent(support::PATIENCE);
        let sent = agent.post(format!("{api}/v1/events")).send(body);
        sent.ok().map(|mut answer| answer.body_mut().read_to_string().unwrap_or_default())
    };
    let relist = [
        r#"{"type":"RELIST_BEGIN","resource":"widgets.example.com"}"#.to_owned(),
        event("ADDED", 0),
        r#"{"type":"RELIST_END","resource":"widgets.example.com"}"#.to_owned(),
    ];
    let mut ended = 0;
    // Where the kill comes too late, there is nothing to finish: then once more.
    for round in 0..5 {
        let quotad = start();
        let all: Vec<_> = (0..SWEPT).map(|number| event("ADDED", number)).collect();
        let answer = send(&quotad.api, all.join("\n")).unwrap();
        assert!(answer.contains("\"rejected\":[]"), "{answer}");
        let (api, body) = (quotad.api.clone(), relist.join("\n"));
        let sending = std::thread::spawn(move || send(&api, body));
        let is_sweeping = || {
            let usage = quotad.get("/v1/namespaces/team-a/usage");
            let used = usage["resources"][0]["used"].as_str()?;
            (used.parse::<usize>().ok()? < SWEPT).then_some(())
        };
        support::until("the sweep has begun", is_sweeping).await;
        quotad.kill();
        sending.join().unwrap();

        let opened = Opened::open(&directory.path().join("data"));
        let left = opened.ledger.peek(|state| {
            let relist = state.closed_relist()?;
            assert!(relist.ended > 0 && relist.ended < SWEPT as u64, "{relist:?}");
            Some(u64::from(state.object_count()) - 1)
        });
        opened.close().await;
        ended += SWEPT as u64 - 1;
        let Some(left) = left else {
            assert!(round < 4, "each kill came too late");
            continue;
        };
        assert!(left < SWEPT as u64);
        break;
    }

    let quotad = start();
    // A list in pages that was begun before the end of the sweep may show what has been ended meanwhile.
    let is_over = || {
        let head = quotad.get("/v1/namespaces/team-a/usage")["asOf"]["sequence"].clone();
        let last = quotad.get(&format!("/v1/entries?from={head}&limit=1"));
        (last["items"][0]["event"]["type"] == "RelistEnded").then_some(())
    };
    support::until("the sweep is over", is_over).await;
    let (objects, _) = quotad.list("/v1/objects");
    let uids: Vec<_> = objects.iter().map(|object| &object["uid"]).collect();
    assert_eq!(uids, ["u-0"]);
    quotad.kill();

    // Each was ended once, and the relist was over once.
    let opened = Opened::open(&directory.path().join("data"));
    assert_eq!(opened.ledger.peek(State::relist_count), 0);
    opened.close().await;
    let quotad = start();
    let (entries, _) = quotad.list("/v1/entries");
    let of =
        |kind: &str| entries.iter().filter(|entry| entry["event"]["type"] == kind).count() as u64;
    assert_eq!(of("ObjectEnded"), ended);
    let over = entries.iter().filter(|entry| entry["event"]["type"] == "RelistEnded");
    let over: Vec<_> = over.map(|entry| &entry["event"]).collect();
    let last = over.last().unwrap();
    assert_eq!(
        (&last["outcome"], &last["ended"]),
        (&"Complete".into(), &(SWEPT as u64 - 1).into())
    );
    quotad.stop();
}
