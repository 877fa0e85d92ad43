//! The hot paths.

use std::{collections::BTreeMap, hint::black_box, sync::Arc};

use bytes::Bytes;
use quota_core::{
    codec,
    decide::{self, Policy, Request},
    event::{Actor, Entry},
    source::{self, Observation},
    state::State,
    transaction::{OpenBatch, WriteTransaction},
};
use quota_semantics::{
    Name, Timestamp,
    admission::Charging,
    object::{GroupResource, NoContext},
};
use quotad::{admission, intake::payload::Reader};
use serde::Deserialize;
use serde_json::value::RawValue;

use quota_bench::world::{self, fold, footprint, uid};

/// All cases, and how often each does what it measures.
pub(super) const ALL: [(&str, u64); 11] = [
    ("decide a reservation", TIMES),
    ("decide one of a batch of 100 reservations", TIMES),
    ("grant a reservation in place of another", TIMES),
    ("apply an entry", ENTRIES as u64),
    ("encode an entry", ENTRIES as u64),
    ("decode an entry", ENTRIES as u64),
    ("read a pod of a review", TIMES),
    ("read a whole review", TIMES),
    ("read a plain event", TIMES),
    ("read a watch event of a pod", TIMES),
    ("observe an object", TIMES),
];

const TIMES: u64 = 1000;
const ENTRIES: usize = 1024;
const NAMESPACES: u64 = 16;

/// A pod as an API server sends it in a review: the first of the recording.
const RECORDING: &str = include_str!("../../tests/vectors/history-a.events.jsonl");

/// Runs one case inside `measured`.
pub(super) fn run(name: &str, measured: fn(&mut dyn FnMut())) {
    match name {
        "decide a reservation" => deciding(measured),
        "decide one of a batch of 100 reservations" => deciding_together(measured),
        "grant a reservation in place of another" => granting(measured),
        "apply an entry" => applying(measured),
        "encode an entry" => encoding(measured),
        "decode an entry" => decoding(measured),
        "read a pod of a review" => reading_pods(measured),
        "read a whole review" => reviewing(measured),
        "read a plain event" => reading(&[plain_event(42)], measured),
        "read a watch event of a pod" => reading(&pods(), measured),
        "observe an object" => observing(measured),
        _ => panic!("there is no case {name:?}"),
    }
}

fn deciding(measured: fn(&mut dyn FnMut())) {
    let state = fold(&entries());
    let policy = Policy::default();
    let by = decide::Requester::holder("bench");
    let now = state.head().time;
    let requests: Vec<_> = (0..TIMES).map(request).collect();
    measured(&mut || {
        for request in &requests {
            black_box(decide::reserve(&state, now, &by, request, &policy)).expect("there is room");
        }
    });
}

/// All or none; each takes the place of an older one.
fn deciding_together(measured: fn(&mut dyn FnMut())) {
    let state = reserved();
    let policy = Policy::default();
    let by = decide::Requester::holder("bench");
    let now = state.head().time;
    let requests: Vec<_> = (0..TIMES).map(newer).collect();
    measured(&mut || {
        for batch in requests.chunks(100) {
            black_box(decide::reserve_all(&state, now, &by, batch, &policy))
                .expect("there is room");
        }
    });
}

/// As one after the other is decided at the transaction, and shown.
fn granting(measured: fn(&mut dyn FnMut())) {
    let mut state = reserved();
    let policy = Policy::default();
    let by = decide::Requester::holder("bench");
    let actor = Actor::named("bench");
    let requests: Vec<_> = (0..TIMES).map(newer).collect();
    let mut open = OpenBatch::default();
    let mut transaction = WriteTransaction::new(&mut state, &mut open, Timestamp::EPOCH);
    measured(&mut || {
        for request in &requests {
            let granted = transaction.reserve(&actor, &by, request, &policy);
            black_box(granted).expect("there is room");
        }
    });
}

fn applying(measured: fn(&mut dyn FnMut())) {
    let entries = entries();
    let mut state = State::default();
    measured(&mut || {
        for entry in &entries {
            state.apply(entry);
        }
    });
}

fn encoding(measured: fn(&mut dyn FnMut())) {
    let entries = entries();
    measured(&mut || {
        for batch in entries.chunks(256) {
            black_box(codec::encode_entries(batch));
        }
    });
}

fn decoding(measured: fn(&mut dyn FnMut())) {
    let entries = entries();
    let batches: Vec<_> = entries
        .chunks(256)
        .map(|batch| {
            let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
            (batch[0].sequence, count, codec::encode_entries(batch))
        })
        .collect();
    measured(&mut || {
        for (first, count, bytes) in &batches {
            black_box(codec::decode_entries(*first, *count, bytes)).expect("what was encoded");
        }
    });
}

#[derive(Deserialize)]
struct Watched<'a> {
    #[serde(borrow)]
    object: &'a RawValue,
}

/// The first pod of the recording.
fn pod() -> &'static str {
    let is_pod = |line: &&str| line.contains(r#""object":{"kind":"Pod","#);
    let line = RECORDING.lines().find(is_pod).expect("there are pods in it");
    let watched: Watched<'_> = serde_json::from_str(line).expect("a watch event");
    watched.object.get()
}

fn reading_pods(measured: fn(&mut dyn FnMut())) {
    let text = pod().as_bytes();
    let charging = Charging::default();
    let pods = GroupResource::new("", "pods");
    measured(&mut || {
        for _ in 0..TIMES {
            let object = charging.read(&pods, black_box(text)).expect("a pod");
            black_box(charging.footprint(&pods, &object, Timestamp::EPOCH, &NoContext));
        }
    });
}

/// From the body to what the object counts for.
fn reviewing(measured: fn(&mut dyn FnMut())) {
    let kind = r#"{"group":"","version":"v1","kind":"Pod"}"#;
    let resource = r#"{"group":"","version":"v1","resource":"pods"}"#;
    let user = r#"{"username":"jane","groups":["system:authenticated"]}"#;
    let options = r#"{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}"#;
    let body = format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"26e984f1-c084-4a96-8608-3909917f21e5","kind":{kind},"resource":{resource},"requestKind":{kind},"requestResource":{resource},"name":"pod-1","namespace":"team-mixed","operation":"CREATE","userInfo":{user},"object":{},"oldObject":null,"dryRun":false,"options":{options}}}}}"#,
        pod(),
    );
    let charging = Charging::default();
    let pods = GroupResource::new("", "pods");
    measured(&mut || {
        for _ in 0..TIMES {
            let body = black_box(body.as_bytes());
            let object = admission::read_review(body, &charging).expect("a review");
            black_box(charging.footprint(&pods, &object, Timestamp::EPOCH, &NoContext));
        }
    });
}

fn plain_event(number: u64) -> Bytes {
    Bytes::from(format!(
        r#"{{"type":"ADDED","namespace":"team-7","resource":"widgets.example.com","name":"widget-{number:08}","uid":"0190a2b4-7c1e-7000-8000-{number:012x}","resourceVersion":"{number}","usage":{{"requests.example.com/units":"3","requests.cpu":"250m"}}}}"#
    ))
}

/// All events of pods in the recording; 3.4 KB on average.
fn pods() -> Vec<Bytes> {
    let is_pod = |line: &&str| line.contains(r#""object":{"kind":"Pod","#);
    let pods = RECORDING.lines().filter(is_pod);
    pods.map(|line| Bytes::from_static(line.as_bytes())).collect()
}

fn reading(events: &[Bytes], measured: fn(&mut dyn FnMut())) {
    let reader = Arc::new(Reader::new(&BTreeMap::new(), true));
    measured(&mut || {
        for event in events.iter().cycle().take(TIMES as usize) {
            for event in reader.read(event.clone(), Timestamp::EPOCH) {
                black_box(event).map_err(|_| "rejected").expect("an event");
            }
        }
    });
}

/// From what was read of plain events to entries that are encoded: all that follows but the disk.
fn observing(measured: fn(&mut dyn FnMut())) {
    let reader = Arc::new(Reader::new(&BTreeMap::new(), true));
    let read = |number| reader.read(plain_event(number), Timestamp::EPOCH);
    let sightings =
        (0..TIMES).flat_map(read).map(|event| match event.expect("it is read").observation {
            Some(sighting @ Observation::Sighting(_)) => sighting,
            other => panic!("no object: {other:?}"),
        });
    let mut items = Some(sightings.collect());
    let (mut state, mut open) = (fold(&entries()), OpenBatch::default());
    let now = state.head().time;
    let actor = Actor::named("stream/OBJECTS");
    measured(&mut || {
        let mut transaction = WriteTransaction::new(&mut state, &mut open, now);
        let items = items.take().expect("it is measured once");
        black_box(source::record(&mut transaction, &actor, items, 0, None));
        black_box(codec::encode_entries(&open.take()));
    });
}

fn namespace(number: u64) -> Name {
    world::namespace(number, NAMESPACES)
}

/// A quota in each namespace, then objects.
fn entries() -> Vec<Entry> {
    let quota = |number| {
        let uid = uid(1 << 40 | number);
        world::quota(namespace(number), "compute", uid, world::compute())
    };
    let object = |number| {
        let name = format!("web-5d4f8c7b9-{number:05}");
        let footprint = footprint(number);
        world::pod(uid(number), namespace(number), name, number + 1, footprint)
    };
    let events = (0..NAMESPACES).map(quota).chain((0..).map(object));
    world::entries(events.take(ENTRIES)).collect()
}

/// The state with a pending reservation for each requested name.
fn reserved() -> State {
    let mut state = fold(&entries());
    let policy = Policy::default();
    let by = decide::Requester::holder("bench");
    let now = state.head().time;
    let mut open = OpenBatch::default();
    let mut transaction = WriteTransaction::new(&mut state, &mut open, now);
    for request in (0..TIMES).map(request) {
        let reserved = decide::reserve(transaction.state(), now, &by, &request, &policy);
        let events = reserved.expect("there is room").events;
        transaction.record(&Actor::named("bench"), events);
    }
    state
}

/// A request for the same name by another uid.
fn newer(number: u64) -> Request {
    Request { uid: uid(1 << 42 | number), ..request(number) }
}

fn request(number: u64) -> Request {
    world::reserve_request(uid(1 << 41 | number), namespace(number), number)
}
