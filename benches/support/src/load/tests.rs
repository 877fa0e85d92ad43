use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener},
    sync::{Arc, atomic::AtomicU64},
    time::Instant,
};

use super::*;

/// Answers each request of a number of connections after a pause.
fn server(connections: usize, pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for _ in 0..connections {
            let (mut stream, _) = listener.accept().unwrap();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(1..) = stream.read(&mut buffer) {
                    thread::sleep(pause);
                    let answer = b"HTTP/1.1 201 Created\r\ncontent-length: 2\r\n\r\n{}";
                    stream.write_all(answer).unwrap();
                }
            });
        }
    });
    address
}

struct Ping(Arc<AtomicU64>);

impl Talk for Ping {
    fn ask(&mut self, out: &mut Vec<u8>) -> Kind {
        out.extend_from_slice(b"ping");
        Kind::Reserve
    }

    fn hear(&mut self, bytes: &[u8]) -> io::Result<Option<Answer>> {
        let message = http::answer(bytes)?;
        Ok(message.map(|message| Answer {
            bytes: message.bytes,
            status: message.status,
            done: 1,
            ..Answer::default()
        }))
    }

    fn tidy(&mut self, out: &mut Vec<u8>) -> Option<Kind> {
        out.extend_from_slice(b"bye");
        (self.0.fetch_add(1, Ordering::SeqCst) == 0).then_some(Kind::Release)
    }
}

fn plan(address: SocketAddr) -> Plan {
    Plan {
        server: address,
        connections: 2,
        threads: 2,
        warmup: Duration::ZERO,
        duration: Duration::from_millis(200),
        rate: None,
        patience: Duration::from_secs(20),
    }
}

#[test]
fn a_closed_loop_waits_for_each_answer() {
    let pause = Duration::from_millis(5);
    let tidied = Arc::<AtomicU64>::default();
    let address = server(2, pause);
    let tally = run(&plan(address), &CancellationToken::new(), |_| Ping(tidied.clone())).unwrap();
    // Two connections, each at most every 5 ms.
    assert!((1..=80).contains(&tally.operations()), "{}", tally.operations());
    assert_eq!(tally.statuses.get(&201), Some(&tally.operations()));
    assert!(tally.latency().min() >= 4_900_000);
    assert_eq!(tally.errors(), 0);
    assert!(tidied.load(Ordering::SeqCst) >= 2);
}

#[test]
fn an_open_loop_counts_the_time_that_requests_waited_for_a_connection() {
    // Due every millisecond, answered every 20: what is due at the end has waited for most of the run.
    let plan = Plan {
        connections: 1,
        threads: 1,
        rate: Some(1000.0),
        ..plan(server(1, Duration::from_millis(20)))
    };
    let tally = run(&plan, &CancellationToken::new(), |_| Ping(Arc::default())).unwrap();
    assert!(tally.latency().max() > 100_000_000, "{}", tally.latency().max());
    assert!(tally.operations() <= 10);
}

#[test]
fn an_open_loop_keeps_to_its_rate() {
    let plan = Plan { rate: Some(100.0), ..plan(server(2, Duration::ZERO)) };
    let tally = run(&plan, &CancellationToken::new(), |_| Ping(Arc::default())).unwrap();
    assert!(tally.latency().len() <= 20, "{}", tally.latency().len());
    assert!(!tally.late.is_empty());
}

#[test]
fn a_run_ends_when_it_is_stopped() {
    let stop = CancellationToken::new();
    stop.cancel();
    let plan = Plan { duration: Duration::from_secs(3600), ..plan(server(2, Duration::ZERO)) };
    let begin = Instant::now();
    let tally = run(&plan, &stop, |_| Ping(Arc::default())).unwrap();
    assert_eq!(tally.operations(), 0);
    assert!(begin.elapsed() < Duration::from_secs(60));
}

#[test]
fn who_cannot_connect_is_told() {
    let free = {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        listener.local_addr().unwrap()
    };
    let failed = run(&plan(free), &CancellationToken::new(), |_| Ping(Arc::default()));
    assert_eq!(failed.unwrap_err().kind(), io::ErrorKind::ConnectionRefused);
}

fn reservations(batch: usize, namespaces: usize) -> Arc<Reservations> {
    Arc::new(Reservations {
        headers: "host: x\r\n".to_owned(),
        base: String::new(),
        namespaces: (0..namespaces).map(|number| format!("n{number}")).collect(),
        resources: r#"{"pods":"1"}"#.to_owned(),
        ttl: Some("30s".to_owned()),
        batch,
        release_percent: 100,
        connections: 4,
        seed: 1,
    })
}

/// Head and body of the next request.
fn request(talk: &mut impl Talk) -> (String, serde_json::Value) {
    let mut out = Vec::new();
    talk.ask(&mut out);
    let text = String::from_utf8(out).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let length = head.split_once("content-length: ").map_or("0", |(_, rest)| rest);
    assert_eq!(length, body.len().to_string());
    (head.to_owned(), serde_json::from_str(body).unwrap_or_default())
}

fn hear(talk: &mut impl Talk, status: &str, body: &str) -> Answer {
    let length = body.len();
    let text = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
    talk.hear(text.as_bytes()).unwrap().unwrap()
}

#[test]
fn what_was_reserved_is_released_next() {
    let mut talk = reservations(1, 1).talk(3);
    let (head, body) = request(&mut talk);
    assert!(
        head.starts_with("POST /v1/namespaces/n0/reservations HTTP/1.1\r\nhost: x\r\n"),
        "{head}"
    );
    assert_eq!(body["reserved"]["pods"], "1");
    assert_eq!(body["ttl"], "30s");
    let uid = body["reservedBy"]["uid"].as_str().unwrap().to_owned();
    assert_eq!(hear(&mut talk, "201 Created", "{}").done, 1);
    let (head, _) = request(&mut talk);
    assert!(head.starts_with(&format!("DELETE /v1/namespaces/n0/reservations/{uid} ")), "{head}");
    assert_eq!(hear(&mut talk, "204 No Content", "").done, 1);
    let mut out = Vec::new();
    assert_eq!(talk.tidy(&mut out), None);
}

#[test]
fn what_is_denied_is_not_released_and_what_is_lost_is() {
    let mut talk = reservations(1, 1).talk(0);
    request(&mut talk);
    let denied = hear(&mut talk, "403 Forbidden", "{}");
    assert_eq!((denied.done, denied.denied), (0, 1));
    assert!(request(&mut talk).0.starts_with("POST"));
    talk.lost();
    let mut out = Vec::new();
    assert_eq!(talk.tidy(&mut out), Some(Kind::Release));
    assert_eq!(talk.tidy(&mut out), None);
}

#[test]
fn all_connections_together_reach_all_namespaces() {
    let plan = reservations(1, 10);
    let mut reached: Vec<usize> =
        (0..4).flat_map(|connection| plan.talk(connection).slot_namespaces()).collect();
    reached.sort_unstable();
    reached.dedup();
    assert_eq!(reached, (0..10).collect::<Vec<_>>());
}

#[test]
fn a_batch_counts_what_became_of_each_item() {
    let mut talk = reservations(3, 2).talk(0);
    let (head, body) = request(&mut talk);
    assert!(head.starts_with("POST /v1/reservations:batch "), "{head}");
    let items = body["items"].as_array().unwrap();
    assert_eq!(items.len(), 3);
    assert!(items.iter().all(|item| item["namespace"].is_string()));
    let answer = r#"{"items":[{"status":201},{"type":"x","status":403},{"status":200}]}"#;
    let answer = hear(&mut talk, "200 OK", answer);
    assert_eq!((answer.done, answer.denied), (2, 1));
    let mut released = 0;
    while talk.tidy(&mut Vec::new()).is_some() {
        released += 1;
    }
    assert_eq!(released, 3);
}

#[test]
fn events_are_changes_and_at_the_end_deletions() {
    let plan = Arc::new(Events {
        headers: "host: x\r\n".to_owned(),
        base: "/base".to_owned(),
        namespaces: vec!["n0".to_owned()],
        resources: r#"{"pods":"1"}"#.to_owned(),
        batch: 2,
        seed: 1,
    });
    let mut talk = plan.talk(1);
    let mut out = Vec::new();
    assert_eq!(talk.ask(&mut out), Kind::Events);
    let text = String::from_utf8(out).unwrap();
    assert!(text.starts_with("POST /base/v1/events HTTP/1.1\r\n"));
    let events: Vec<serde_json::Value> = text
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .filter(serde_json::Value::is_object)
        .collect();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0]["type"], "MODIFIED");
    assert_ne!(events[0]["uid"], events[1]["uid"]);
    assert_eq!(hear(&mut talk, "200 OK", r#"{"accepted":2,"ignored":0}"#).done, 2);
    let mut out = Vec::new();
    assert_eq!(talk.tidy(&mut out), Some(Kind::Events));
    assert!(String::from_utf8(out).unwrap().contains("DELETED"));
    assert_eq!(talk.tidy(&mut Vec::new()), None);
}
