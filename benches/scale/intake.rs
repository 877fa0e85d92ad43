//! Events from a real JetStream, beside consumers that do less with them.

use std::{
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

use async_nats::jetstream::{self, consumer, stream};
use bytes::Bytes;
use futures::StreamExt as _;
use tokio::runtime::Runtime;

use super::{
    subject::{Bench, Bound, Target},
    support::{
        document::whole,
        events::{self, PlainEvent, WatchedPod},
        process::{self, Process, Quotad},
    },
};

/// Messages that are on their way to the server at the same time.
const IN_FLIGHT: usize = 1000;

pub fn all(bench: &Bench) -> Vec<Target> {
    let plain = (0..bench.sized(600_000)).map(|number| Bytes::from(events::plain(number)));
    let plain = compare(bench, plain.collect(), 1, |message| {
        black_box(message.len());
    });
    let lines =
        (0..bench.sized(10_000)).map(|number| events::lines(number * 100..(number + 1) * 100));
    let lines = compare(bench, lines.collect(), 100, |message| {
        for line in message.split(|byte| *byte == b'\n') {
            let event: PlainEvent = serde_json::from_slice(line).expect("an event");
            black_box((event.event_type, event.namespace, event.resource, event.name));
            black_box((event.uid, event.resource_version, event.usage));
        }
    });
    let pods = events::pods(bench.sized(200));
    let parsed = parse_pods(bench, &pods);
    let [ingested, counted] = compare(bench, pods, 1, |message| {
        black_box(message.len());
    });
    let target = |what, [ours, theirs]: [f64; 2], least, beside: &str| Target {
        what,
        value: ours / theirs,
        bound: Bound::AtLeast(least),
        unit: "",
        detail: format!("{} and {} events/s{beside}", whole(ours), whole(theirs)),
    };
    vec![
        target(
            "intake of plain events, one per message / a consumer that only counts",
            plain,
            0.8,
            "",
        ),
        target(
            "intake of plain events, 100 per message / a consumer that only parses",
            lines,
            0.5,
            "",
        ),
        target(
            "intake of watch events of pods / parsing them alone, in memory",
            [ingested, parsed],
            0.6,
            &format!("; a consumer that only counts: {}", whole(counted)),
        ),
    ]
}

fn parse_pods(bench: &Bench, pods: &[Bytes]) -> f64 {
    let [rate] = bench.rounds(|| {
        let begin = Instant::now();
        for pod in pods {
            let watched: WatchedPod = serde_json::from_slice(pod).expect("a watched pod");
            black_box(watched.object);
        }
        [pods.len() as f64 / begin.elapsed().as_secs_f64()]
    });
    rate
}

/// Events per second of the daemon, and of a consumer that does `work` with each message. Both clocks run from the
/// first events on: neither has to pay for its start.
fn compare(bench: &Bench, messages: Vec<Bytes>, events: u64, work: impl Fn(&Bytes)) -> [f64; 2] {
    let runtime = Runtime::new().expect("a runtime");
    let directory = bench.new_directory();
    let (_server, url) = start(directory.path());
    let count = messages.len();
    runtime.block_on(publish(&url, messages));
    let total = count as f64 * events as f64;
    bench.rounds(|| {
        let ours = ingest(bench, &url, total);
        let rest = runtime.block_on(consume(&url, count, &work));
        [ours, (total - events as f64) / rest.as_secs_f64()]
    })
}

fn ingest(bench: &Bench, url: &str, total: f64) -> f64 {
    let directory = bench.new_directory();
    let daemon = Quotad::start(directory.path(), &[&format!("--nats.url={url}")]);
    let consumed = || daemon.metric("quota_ledger_events_consumed_total");
    let wait = || std::thread::sleep(Duration::from_millis(5));
    let first = loop {
        match consumed() {
            first if first > 0.0 => break first,
            _ => wait(),
        }
    };
    let begin = Instant::now();
    while !is_ready(&daemon) {
        wait();
    }
    let rate = (total - first) / begin.elapsed().as_secs_f64();
    let consumed = consumed();
    assert!((consumed - total).abs() < 0.5, "{consumed} of {total} events");
    rate
}

fn start(directory: &std::path::Path) -> (Process, String) {
    let address = process::loopback(process::free_port());
    let mut command = Command::new("nats-server");
    command
        .args(["-js", "-a", "127.0.0.1", "-p", &address.port().to_string(), "-sd"])
        .arg(directory);
    let server = process::spawn(&mut command, directory, address);
    (server, format!("nats://{address}"))
}

async fn context(url: &str) -> jetstream::Context {
    jetstream::new(async_nats::connect(url).await.expect("it accepts connections"))
}

async fn publish(url: &str, messages: Vec<Bytes>) {
    let context = context(url).await;
    let config = stream::Config {
        name: "OBJECTS".to_owned(),
        subjects: vec!["quota.objects.>".to_owned()],
        ..stream::Config::default()
    };
    context.create_stream(config).await.expect("a new stream");
    for chunk in messages.chunks(IN_FLIGHT) {
        let mut acks = Vec::with_capacity(chunk.len());
        for message in chunk {
            let sent = context.publish("quota.objects.bench", message.clone()).await;
            acks.push(sent.expect("it is sent"));
        }
        for ack in acks {
            ack.await.expect("it is stored");
        }
    }
}

/// Asks for messages as the daemon does; nothing is acknowledged. Answers how long all but the first
/// message took.
async fn consume(url: &str, count: usize, work: impl Fn(&Bytes)) -> Duration {
    let context = context(url).await;
    let stream = context.get_stream("OBJECTS").await.expect("it is there");
    let config = consumer::pull::Config {
        ack_policy: consumer::AckPolicy::None,
        inactive_threshold: Duration::from_secs(60),
        num_replicas: 1,
        memory_storage: true,
        ..consumer::pull::Config::default()
    };
    let consumer = stream.create_consumer(config).await.expect("a new consumer");
    let messages = consumer
        .stream()
        .max_messages_per_batch(2048)
        .max_bytes_per_batch(8 * 1024 * 1024)
        .expires(Duration::from_secs(30))
        .heartbeat(Duration::from_secs(5))
        .messages()
        .await;
    let mut messages = messages.expect("a stream of messages").take(count);
    let first = messages.next().await.expect("a first message");
    let begin = Instant::now();
    work(&first.expect("a message").payload);
    while let Some(message) = messages.next().await {
        work(&message.expect("a message").payload);
    }
    begin.elapsed()
}

fn is_ready(daemon: &Quotad) -> bool {
    let url = format!("{}/readyz", daemon.admin);
    ureq::get(&url).call().is_ok()
}
