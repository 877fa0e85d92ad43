//! Events from a real JetStream, beside consumers that do less with them.

use std::{
    fs,
    hint::black_box,
    process::Command,
    time::{Duration, Instant},
};

use async_nats::jetstream::{self, consumer, stream};
use bytes::Bytes;
use futures::StreamExt as _;
use quota_ledger::{Name, object::Pod, resource::ResourceList, uid::Uid};
use serde::{Deserialize, de::IgnoredAny};
use tokio::runtime::Runtime;

use super::{
    subject::{Bench, Bound, Target},
    support::{
        document::whole,
        process::{self, Process, Quotad},
    },
};

/// Watch events of pods as a real API server wrote them.
const RECORDING: &str = "tests/vectors/history-a.events.jsonl";

/// Messages that are on their way to the server at the same time.
const IN_FLIGHT: usize = 1000;

#[derive(Deserialize)]
struct WatchedPod {
    #[serde(rename = "type")]
    _event_type: IgnoredAny,
    object: Pod,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PlainEvent {
    #[serde(rename = "type")]
    event_type: String,
    namespace: Name,
    resource: Name,
    name: Box<str>,
    uid: Uid,
    resource_version: String,
    usage: ResourceList,
}

pub fn all(bench: &Bench) -> Vec<Target> {
    let plain = (0..bench.sized(300_000)).map(|number| Bytes::from(plain_event(number)));
    let plain = compare(bench, plain.collect(), 1, |message| {
        black_box(message.len());
    });
    let lines = (0..bench.sized(10_000)).map(|message| {
        let lines: Vec<_> = (0..100)
            .map(|line| plain_event(message * 100 + line))
            .collect();
        Bytes::from(lines.join("\n"))
    });
    let lines = compare(bench, lines.collect(), 100, |message| {
        for line in message.split(|byte| *byte == b'\n') {
            let event: PlainEvent = serde_json::from_slice(line).expect("an event");
            black_box((
                event.event_type,
                event.namespace,
                event.resource,
                event.name,
            ));
            black_box((event.uid, event.resource_version, event.usage));
        }
    });
    let pods = pods(bench);
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

/// About 250 bytes.
fn plain_event(number: u64) -> String {
    format!(
        r#"{{"type":"ADDED","namespace":"team-{}","resource":"widgets.example.com","name":"widget-{number:08}","uid":"0190a2b4-7c1e-7000-8000-{number:012x}","resourceVersion":"{number}","usage":{{"requests.example.com/units":"3","requests.cpu":"250m"}}}}"#,
        number % 50
    )
}

/// The recorded events, again and again, each time of other pods.
fn pods(bench: &Bench) -> Vec<Bytes> {
    let recording = fs::read_to_string(RECORDING).expect("the vectors are there");
    let recorded: Vec<&str> = recording
        .lines()
        .filter(|line| line.contains(r#""object":{"kind":"Pod","#))
        .collect();
    let repeats = bench.sized(60).max(1);
    let again = |repeat: u64| {
        recorded.iter().map(move |line| {
            let uid = line
                .split_once(r#""uid":""#)
                .and_then(|(_, rest)| rest.get(..36));
            let uid = uid.expect("a pod has a uid");
            Bytes::from(line.replace(uid, &format!("{repeat:08x}{}", &uid[8..])))
        })
    };
    (0..repeats).flat_map(again).collect()
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

/// Events per second of the daemon, and of a consumer that does `work` with each message.
fn compare(bench: &Bench, messages: Vec<Bytes>, events: u64, work: impl Fn(&Bytes)) -> [f64; 2] {
    let runtime = Runtime::new().expect("a runtime");
    let directory = bench.new_directory();
    let (_server, url) = start(directory.path());
    let count = messages.len();
    runtime.block_on(publish(&url, messages));
    let total = count as f64 * events as f64;
    bench.rounds(|| {
        let directory = bench.new_directory();
        let begin = Instant::now();
        let daemon = Quotad::start(directory.path(), &[&format!("--nats.url={url}")]);
        while !is_ready(&daemon) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let ours = total / begin.elapsed().as_secs_f64();
        let consumed = daemon.metric("quota_ledger_events_consumed_total");
        assert!(
            (consumed - total).abs() < 0.5,
            "{consumed} of {total} events"
        );
        drop(daemon);
        let begin = Instant::now();
        runtime.block_on(consume(&url, count, &work));
        [ours, total / begin.elapsed().as_secs_f64()]
    })
}

fn start(directory: &std::path::Path) -> (Process, String) {
    let address = process::loopback(process::free_port());
    let mut command = Command::new("nats-server");
    command
        .args([
            "-js",
            "-a",
            "127.0.0.1",
            "-p",
            &address.port().to_string(),
            "-sd",
        ])
        .arg(directory);
    let server = process::spawn(&mut command, directory, address);
    (server, format!("nats://{address}"))
}

async fn context(url: &str) -> jetstream::Context {
    jetstream::new(
        async_nats::connect(url)
            .await
            .expect("it accepts connections"),
    )
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
            let sent = context
                .publish("quota.objects.bench", message.clone())
                .await;
            acks.push(sent.expect("it is sent"));
        }
        for ack in acks {
            ack.await.expect("it is stored");
        }
    }
}

/// As many messages at a time as the daemon asks for; nothing is acknowledged.
async fn consume(url: &str, count: usize, work: impl Fn(&Bytes)) {
    let context = context(url).await;
    let stream = context.get_stream("OBJECTS").await.expect("it is there");
    let config = consumer::pull::Config {
        ack_policy: consumer::AckPolicy::None,
        ..consumer::pull::Config::default()
    };
    let consumer = stream
        .create_consumer(config)
        .await
        .expect("a new consumer");
    let messages = consumer
        .stream()
        .max_messages_per_batch(2048)
        .messages()
        .await;
    let mut messages = messages.expect("a stream of messages").take(count);
    while let Some(message) = messages.next().await {
        work(&message.expect("a message").payload);
    }
}

fn is_ready(daemon: &Quotad) -> bool {
    let url = format!("{}/readyz", daemon.admin);
    ureq::get(&url).call().is_ok()
}
