//! The whole daemon against a real nats-server, killed without a chance to tidy up.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, Command, Stdio},
};

use support::{daemon::Opened, nats::Server, until};
use tempfile::TempDir;

const KILLS: u64 = 5;
const MESSAGES_EACH: u64 = 5_000;

/// `quotad`; killed when dropped.
struct Quotad {
    child: Child,
    admin: String,
}

impl Quotad {
    fn start(directory: &Path, server: &Server) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_quotad"))
            .current_dir(directory)
            .env_clear()
            .args([
                "--listen=127.0.0.1:0",
                "--admin.listen=127.0.0.1:0",
                "--nats.poll_interval=50ms",
            ])
            .args([
                "--journal.max_batch_entries=64",
                "--log.format=json",
                "--data-dir=data",
            ])
            .arg(format!("--nats.url={}", server.url()))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut log = BufReader::new(child.stderr.take().unwrap()).lines();
        let ready = log.find_map(|line| {
            let line: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            (line["message"] == "ready").then_some(line)
        });
        let admin = ready.unwrap()["admin"].as_str().unwrap().to_owned();
        // What nobody reads would block it in the end.
        std::thread::spawn(move || log.for_each(drop));
        Self { child, admin }
    }

    fn get(&self, path: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).unwrap();
        write!(
            stream,
            "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    fn is_ready(&self) -> bool {
        self.get("/readyz").starts_with("HTTP/1.1 200")
    }

    fn metric(&self, name: &str) -> f64 {
        let all = self.get("/metrics");
        let line = all
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().unwrap())
    }
}

impl Drop for Quotad {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
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
    let first = Quotad::start(directory.path(), &server);
    until("the stream is caught up with", || {
        first.is_ready().then_some(())
    })
    .await;
    drop(first);
    let context = server.jetstream().await;
    for round in 0..KILLS {
        let quotad = Quotad::start(directory.path(), &server);
        let mut acknowledgements = Vec::new();
        for number in round * MESSAGES_EACH..(round + 1) * MESSAGES_EACH {
            let sent = context.publish("quota.objects.here", message(number).into());
            acknowledgements.push(sent.await.unwrap());
        }
        let consumed = || quotad.metric("quota_ledger_events_consumed_total{source=\"nats\"}");
        until("some are consumed", || (consumed() > 0.0).then_some(())).await;
        // In the middle of the rest, as far as a test can tell.
        drop(quotad);
        for acknowledgement in acknowledgements {
            acknowledgement.await.unwrap();
        }
    }
    let quotad = Quotad::start(directory.path(), &server);
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
