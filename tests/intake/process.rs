//! The whole daemon against a real nats-server, killed without a chance to tidy up.

mod broken;
mod markers;
mod watermarks;

use std::path::Path;

use crate::daemon::Opened;
use crate::support::{nats::Server, quotad::Quotad, until};
use tempfile::TempDir;

const STREAM: &str = "OBJECTS";
const KILLS: u64 = 5;
const MESSAGES_EACH: u64 = 5_000;

fn start(directory: &Path, server: &Server) -> Quotad {
    let nats = format!("--nats.url={}", server.url());
    let arguments = [&*nats, "--nats.poll_interval=50ms", "--journal.max_batch_entries=64"];
    Quotad::start(directory, &arguments)
}

fn consumed(quotad: &Quotad) -> f64 {
    let (_, metrics) = quotad.ask_admin("/metrics");
    let name = "quota_ledger_events_consumed_total{source=\"nats\"} ";
    let value = metrics.lines().find_map(|line| line.strip_prefix(name));
    value.map_or(0.0, |value| value.parse().unwrap())
}

/// Every tenth message leaves a dead letter each time that it counts.
fn message(number: u64) -> String {
    match number % 10 {
        0 => format!("poison {number}"),
        _ => format!(
            r#"{{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"w{number}","uid":"u-{number}"}}"#
        ),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_message_counts_once_however_often_the_daemon_is_killed() {
    let server = Server::start();
    let directory = TempDir::new().unwrap();
    let first = start(directory.path(), &server);
    until("the stream is caught up with", || first.is_ready().then_some(())).await;
    drop(first);
    let context = server.jetstream().await;
    for round in 0..KILLS {
        let quotad = start(directory.path(), &server);
        let mut acknowledgements = Vec::new();
        for number in round * MESSAGES_EACH..(round + 1) * MESSAGES_EACH {
            let sent = context.publish("quota.objects.here", message(number).into());
            acknowledgements.push(sent.await.unwrap());
        }
        until("some are consumed", || (consumed(&quotad) > 0.0).then_some(())).await;
        // In the middle of the rest, as far as a test can tell.
        drop(quotad);
        for acknowledgement in acknowledgements {
            acknowledgement.await.unwrap();
        }
    }
    let quotad = start(directory.path(), &server);
    until("all are consumed", || quotad.is_ready().then_some(())).await;
    drop(quotad);
    let opened = Opened::open(&directory.path().join("data"));
    opened.ledger.peek(|state| {
        let all = KILLS * MESSAGES_EACH;
        assert_eq!(state.sources()["OBJECTS"].position, all);
        assert_eq!(state.dead_letters().count() as u64, all / 10);
        assert_eq!(u64::from(state.object_count()), all / 10 * 9);
    });
    opened.close().await;
}
