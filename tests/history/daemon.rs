//! The same through a real daemon that consumes a real stream: a fresh one per checkpoint, queried over HTTP.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{
    recording::{Checkpoint, Recording, differences},
    support::{nats::Server, quotad::Quotad, until},
};
use quota_semantics::{Span, Timestamp, resource::ResourceList};
use serde_json::Value;
use tempfile::TempDir;

/// Checkpoints that are looked at side by side.
const AT_ONCE: usize = 3;

/// Every other message holds one line, the rest hold so many.
const LINES_PER_MESSAGE: usize = 20;

/// Additional time for a pod that was being deleted at the checkpoint, so that it still is when it is queried.
const LONGER: Span = Span::from_seconds(3600);

#[test]
fn a_daemon_that_consumed_the_lines_has_the_numbers_of_the_real_controller() {
    let recording = Recording::load();
    let next = AtomicUsize::new(0);
    let compared = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(checkpoint) =
                    recording.checkpoints.get(next.fetch_add(1, Ordering::Relaxed))
                {
                    let lines = &recording.lines[..checkpoint.after_line];
                    compared.fetch_add(through_a_daemon(lines, checkpoint), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(compared.into_inner(), 789, "values compared");
}

#[tokio::main]
async fn through_a_daemon(lines: &[String], checkpoint: &Checkpoint) -> usize {
    let server = Server::start();
    let directory = TempDir::new().unwrap();
    let url = format!("--nats.url={}", server.url());
    let arguments = [&*url, "--nats.poll_interval=50ms"];
    let first = Quotad::start(directory.path(), &arguments);
    until("the stream is there", || first.is_ready().then_some(())).await;
    let now = quotad::now();
    let lines: Vec<_> = lines.iter().map(|line| shifted(line, checkpoint.time, now)).collect();
    // Half of it while it is running, and the rest while it is not.
    let (early, late) = lines.split_at(lines.len() / 2);
    publish(&server, early).await;
    assert_eq!(first.stop().code(), Some(0));
    publish(&server, late).await;
    let second = Quotad::start(directory.path(), &arguments);
    until("all is consumed", || second.is_ready().then_some(())).await;
    let mut values = 0;
    let mut different = Vec::new();
    // Pods whose time was over are seen as such a moment after they were seen.
    for _ in 0..100 {
        let (quotas, _) = second.list("/v1/quotas");
        (values, different) = differences(checkpoint, |namespace, name| {
            let metadata = |quota: &Value| (quota["metadata"].clone(), quota["status"].clone());
            let mut quotas = quotas.iter().map(metadata);
            let wanted =
                |metadata: &Value| metadata["namespace"] == namespace && metadata["name"] == name;
            let (_, status) = quotas.find(|(metadata, _)| wanted(metadata))?;
            Some(used(&status))
        });
        if different.is_empty() {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert!(
        different.is_empty(),
        "checkpoint {}:\n{}",
        checkpoint.checkpoint,
        different.join("\n")
    );
    values
}

fn used(status: &Value) -> ResourceList {
    serde_json::from_value(status["used"].clone()).unwrap()
}

async fn publish(server: &Server, lines: &[String]) {
    let context = server.jetstream().await;
    let mut lines = lines;
    let mut acknowledgements = Vec::new();
    while !lines.is_empty() {
        let count = match acknowledgements.len() % 2 {
            0 => 1,
            _ => LINES_PER_MESSAGE.min(lines.len()),
        };
        let (message, rest) = lines.split_at(count);
        lines = rest;
        let sent = context.publish("quota.objects.recorded", message.join("\n").into());
        acknowledgements.push(sent.await.unwrap());
    }
    for acknowledgement in acknowledgements {
        acknowledgement.await.unwrap();
    }
}

/// The line with the object's deletion standing to `now` as it stood to the time of the checkpoint.
fn shifted(line: &str, then: Timestamp, now: Timestamp) -> String {
    let mut line: Value = serde_json::from_str(line).unwrap();
    let metadata = &mut line["object"]["metadata"];
    let Some(deletion) = metadata["deletionTimestamp"].as_str() else {
        return line.to_string();
    };
    let deletion: Timestamp = deletion.parse().unwrap();
    let grace = metadata["deletionGracePeriodSeconds"].as_i64().unwrap_or(0);
    let mut shifted = deletion.plus(now.since(then));
    if deletion.plus(Span::from_seconds(grace)) > then {
        shifted = shifted.plus(LONGER);
    }
    metadata["deletionTimestamp"] = shifted.whole_seconds().to_string().into();
    line.to_string()
}
