//! Messages that a client library cannot read: each is recorded as rejected, and the next one counts.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
};

use serde_json::Value;
use tempfile::TempDir;

use super::start;
use crate::support::{
    cluster::durable_program,
    nats::{PROGRAM, Server},
    quotad::Quotad,
    until,
};

/// A client that speaks NATS' protocol itself, so that nothing checks what it sends.
struct RawClient(BufReader<TcpStream>);

impl RawClient {
    fn connect(server: &Server) -> Self {
        let mut client = Self(BufReader::new(TcpStream::connect(server.address()).unwrap()));
        assert!(client.line().starts_with("INFO "));
        client.send(b"CONNECT {\"headers\":true,\"verbose\":false,\"pedantic\":false}\r\n");
        client
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        line
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    fn publish(&mut self, subject: &[u8], headers: &[u8], payload: &[u8]) {
        let all = headers.len() + payload.len();
        let (verb, sizes) = match headers {
            [] => ("PUB", format!(" {all}\r\n")),
            _ => ("HPUB", format!(" {} {all}\r\n", headers.len())),
        };
        let parts: [&[u8]; 7] =
            [verb.as_bytes(), b" ", subject, sizes.as_bytes(), headers, payload, b"\r\n"];
        self.send(&parts.concat());
    }

    /// Waits until the server has taken everything.
    fn settle(&mut self) {
        self.send(b"PING\r\n");
        loop {
            match &*self.line() {
                "PONG\r\n" => return,
                "PING\r\n" => self.send(b"PONG\r\n"),
                line => assert!(line.starts_with("INFO "), "{line}"),
            }
        }
    }
}

const SUBJECT: &[u8] = b"quota.objects.a";

/// Subject, block of headers, and a part of the reason for which the message is rejected.
type Broken = (&'static [u8], &'static [u8], &'static str);

const BROKEN: [Broken; 7] = [
    (SUBJECT, b"NATS/1.0\r\nno colon\r\n\r\n", "no colon: \"no colon\""),
    (SUBJECT, b"NATS/1.0\r\na name: x\r\n\r\n", "the name of a header is invalid"),
    (SUBJECT, b"NATS/1.0\r\nname: \xff\xfe\r\n\r\n", "its headers are not UTF-8"),
    (b"quota.objects.a.\xff\xfe", b"", "its subject is not UTF-8"),
    (b"quota.objects.a.\xff\xfe", b"NATS/1.0\r\nname: x\r\n\r\n", "its subject is not UTF-8"),
    // The client library panics.
    (SUBJECT, b"NATS/1.0\r\nname: a\rb\r\n\r\n", "the value of a header is invalid"),
    (SUBJECT, b"HTTP/1.1\r\nname: x\r\n\r\n", "do not begin with NATS/1.0"),
];

/// The client library takes these for the server's own words. Newer servers store them without the status.
const STATUSES: [Broken; 5] = [
    (SUBJECT, b"NATS/1.0 many\r\n\r\n", "begin with a status"),
    (SUBJECT, b"NATS/1.0 100 Idle Heartbeat\r\n\r\n", "begin with a status"),
    (SUBJECT, b"NATS/1.0 404 No Messages\r\n\r\n", "begin with a status"),
    (SUBJECT, b"NATS/1.0 409 Consumer Deleted\r\n\r\n", "begin with a status"),
    (SUBJECT, b"NATS/1.0 503\r\n\r\n", "begin with a status"),
];

fn widget(uid: &str) -> String {
    format!(
        r#"{{"type":"ADDED","namespace":"team-a","resource":"widgets.example.com","name":"{uid}","uid":"{uid}"}}"#
    )
}

fn used(quotad: &Quotad) -> u64 {
    let usage = quotad.get("/v1/namespaces/team-a/usage");
    let resources = usage["resources"].as_array().into_iter().flatten();
    let mut counts = resources.filter(|it| it["resource"] == "count/widgets.example.com");
    counts.next().map_or(0, |it| it["used"].as_str().unwrap().parse().unwrap())
}

/// Position, reason and payload of each rejected message, the oldest first.
fn rejected(quotad: &Quotad) -> Vec<(u64, String, String)> {
    let (mut letters, _) = quotad.list("/v1/dead-letters?limit=100");
    letters.reverse();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let letters = letters.iter().map(|letter| {
        (letter["position"].as_u64().unwrap(), text(&letter["reason"]), text(&letter["payload"]))
    });
    letters.collect()
}

async fn ready(quotad: &Quotad) {
    until("the stream is caught up with", || quotad.is_ready().then_some(())).await;
}

async fn counts(quotad: &Quotad, objects: u64) {
    until("all that can be read is counted", || (used(quotad) == objects).then_some(())).await;
}

async fn broken_messages_stop_nothing(program: &str, broken: &[Broken]) {
    let server = Server::start_program(program);
    let directory = TempDir::new().unwrap();
    let quotad = start(directory.path(), &server);
    ready(&quotad).await;
    let mut client = RawClient::connect(&server);
    let (mut messages, mut objects) = (0, 0);
    // A message that cannot be read, unless there is none, and then one that counts.
    let mut publish = |client: &mut RawClient, broken: Option<(&[u8], &[u8])>| {
        if let Some((subject, headers)) = broken {
            client.publish(subject, headers, widget("never").as_bytes());
            messages += 1;
        }
        client.publish(SUBJECT, b"", widget(&format!("u-{objects}")).as_bytes());
        messages += 1;
        objects += 1;
        (messages, objects)
    };
    for &(subject, headers, _) in broken {
        let (_, objects) = publish(&mut client, Some((subject, headers)));
        client.settle();
        counts(&quotad, objects).await;
    }
    // While the daemon is down; between them there are more messages than are read one by one.
    assert_eq!(quotad.stop().code(), Some(0));
    for _ in 0..2 {
        for &(subject, headers, _) in broken {
            publish(&mut client, Some((subject, headers)));
        }
        for _ in 0..600 {
            publish(&mut client, None);
        }
    }
    let (messages, objects) = publish(&mut client, None);
    client.settle();
    let quotad = start(directory.path(), &server);
    ready(&quotad).await;
    counts(&quotad, objects).await;
    assert_eq!(rejected(&quotad).len(), 3 * broken.len());

    // As the last message, behind which the daemon has to find its position again.
    let of_last = [broken[0].1, broken[broken.len() - 1].1];
    for (number, headers) in of_last.into_iter().enumerate() {
        client.publish(SUBJECT, headers, b"the last one");
        client.settle();
        let last = messages + 1 + number as u64;
        until("it is rejected", || {
            let letters = rejected(&quotad);
            letters.iter().any(|(position, ..)| *position == last).then_some(())
        })
        .await;
    }
    quotad.kill();
    let quotad = start(directory.path(), &server);
    ready(&quotad).await;
    let headers = b"NATS/1.0\r\nname: x\r\n\r\n";
    client.publish(SUBJECT, headers, widget("next").as_bytes());
    // White space that is none for the server.
    let odd = "quota.objects.a\u{a0}b\u{b}c";
    client.publish(odd.as_bytes(), headers, widget("odd").as_bytes());
    client.settle();
    counts(&quotad, objects + 2).await;
    let resets = quotad.list("/v1/entries?order=desc").0;
    let resets = resets.iter().filter(|entry| entry["event"]["type"] == "SourceReset");
    assert_eq!(resets.count(), 1, "only the first contact");
    quotad.stop();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_no_client_can_read_is_rejected_and_the_next_one_counts() {
    broken_messages_stop_nothing(&durable_program(), &BROKEN).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nor_does_it_stop_anything_on_an_older_server() {
    broken_messages_stop_nothing(PROGRAM, &[&BROKEN[..], &STATUSES].concat()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_dead_letter_holds_what_could_be_read() {
    let server = Server::start_program(&durable_program());
    let directory = TempDir::new().unwrap();
    let quotad = start(directory.path(), &server);
    ready(&quotad).await;
    let mut client = RawClient::connect(&server);
    for (number, (subject, headers, _)) in BROKEN.iter().enumerate() {
        let payload = format!("message {number} \u{1b}\u{e9}");
        client.publish(subject, headers, payload.as_bytes());
    }
    let large = vec![b'x'; 900_000];
    client.publish(SUBJECT, BROKEN[0].1, &large);
    client.settle();
    let letters = until("all are rejected", || {
        let letters = rejected(&quotad);
        (letters.len() > BROKEN.len()).then_some(letters)
    })
    .await;
    for (number, (_, _, expected)) in BROKEN.iter().enumerate() {
        let (position, reason, payload) = &letters[number];
        assert_eq!(*position, number as u64 + 1);
        assert!(reason.contains(expected), "{reason}");
        assert_eq!(*payload, format!("message {number} \u{1b}\u{e9}"));
    }
    let (_, _, payload) = &letters[BROKEN.len()];
    assert!(payload.len() <= 16 * 1024 && payload.starts_with("xxx"));
    quotad.stop();
}
