//! One principal that takes as much memory as it gets, and another one that wants to work.

use std::time::Instant;

use super::{
    client::{Client, head},
    support::{PATIENCE, callers::Callers},
};

const BODY: usize = 1 << 20;

/// The head of a request of a principal with a body of this length.
fn head_of(callers: &Callers, who: &str, length: usize) -> String {
    let head = head("POST", "/v1/events", length);
    let token = format!("\r\nauthorization: Bearer {}\r\n\r\n", callers.token(who));
    head.trim_end().to_owned() + &token
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_of_one_principal_leave_room_for_those_of_others() {
    const CLIENTS: u64 = 24;
    // Room for eight of the bodies.
    let arguments = [
        "--limits.bodies-bytes=8MiB",
        "--limits.events-body-bytes=1MiB",
        "--limits.request-body-bytes=1MiB",
        "--limits.body-timeout=10m",
        "--limits.request-timeout=10m",
    ];
    let principals = [("greedy", "ingest", "*"), ("other", "ingest", "*")];
    let callers = Callers::start(&principals, &arguments);
    let address = callers.daemon.api.trim_start_matches("http://").to_owned();
    let admin = callers.daemon.admin.trim_start_matches("http://").to_owned();
    // Each body arrives but for its end.
    let mut held = Vec::new();
    for _ in 0..CLIENTS {
        let head = head_of(&callers, "greedy", BODY);
        let mut client = Client::connect(&address).await.unwrap();
        held.push(tokio::spawn(async move {
            let _ = client.send(head).await;
            let _ = client.send(vec![b'x'; BODY - 1]).await;
            client
        }));
    }
    let mut sent = Vec::new();
    for client in held {
        sent.push(client.await.unwrap());
    }
    // No more than eight of them can be held, whatever the rule.
    let limit = "quota_ledger_limit_reached_total{limit=\"limits.bodies_bytes\"} ";
    let deadline = Instant::now() + PATIENCE;
    loop {
        let metrics = Client::connect(&admin).await.unwrap().get("/metrics").await;
        let hits = metrics.body.lines().find_map(|it| it.strip_prefix(limit));
        let hits: u64 = hits.map_or(0, |hits| hits.parse().unwrap());
        if hits >= CLIENTS - 8 {
            break;
        }
        assert!(Instant::now() < deadline, "{hits} bodies were refused");
    }
    let line = r#"{"type":"ADDED","namespace":"a","resource":"widgets.example.com","name":"w","uid":"w","resourceVersion":"1"}"#;
    let mut body = format!("{line}\n").repeat(BODY / (line.len() + 1));
    body.push_str(&" ".repeat(BODY - body.len()));
    let mut other = Client::connect(&address).await.unwrap();
    let head = head_of(&callers, "other", BODY);
    other.send(head + &body).await.unwrap();
    let answer = other.answer().await.unwrap();
    assert_eq!(answer.status, 200, "{answer:?}");
    drop(sent);
}
