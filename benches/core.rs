//! The core: deciding, folding, encoding, replaying.
//!
//! Each group has its baseline in the same run: absolute times mean nothing on a shared machine, ratios do.

#![allow(missing_docs, reason = "criterion's macros")]

use std::{collections::HashMap, hint::black_box, sync::Arc};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quota_ledger::{
    Name, Span, Timestamp, codec,
    decide::{self, Basis, Filed, Policy, Request},
    event::{Actor, Entry, Event, Observed, QuotaRecord},
    object::{Footprint, GroupResource, Traits},
    quantity::Quantity,
    quota::spec::Spec,
    resource::ResourceList,
    state::State,
    uid::Uid,
};

const NAMESPACES: u64 = 100;
const OBJECTS: u64 = 100_000;

fn list(items: &[(&str, &str)]) -> ResourceList {
    let pair = |(name, text): &(&str, &str)| (Name::from(*name), text.parse().unwrap_or_default());
    items.iter().map(pair).collect()
}

fn uid(number: u64) -> Uid {
    let hash = blake3::hash(&number.to_le_bytes());
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash.as_bytes()[..16]);
    Uid::from_uuid(bytes)
}

fn namespace(number: u64) -> Name {
    Name::from(format!("team-{}", number % NAMESPACES))
}

/// One of fifty sizes, as workloads have them.
fn footprint(number: u64) -> Footprint {
    let cpu = format!("{}m", 100 + number % 50);
    let resources = list(&[
        ("count/pods", "1"),
        ("pods", "1"),
        ("cpu", &cpu),
        ("requests.cpu", &cpu),
        ("memory", "256Mi"),
        ("requests.memory", "256Mi"),
    ]);
    Footprint {
        resources,
        traits: Traits::Plain,
    }
}

fn entries(events: impl Iterator<Item = Event>) -> Vec<Entry> {
    let actor = Actor::named("stream/OBJECTS");
    let entry = |(index, event)| Entry {
        sequence: index as u64 + 1,
        time: Timestamp::from_nanoseconds(1_770_000_000_000_000_000 + index as i64 * 1000),
        actor: actor.clone(),
        event,
    };
    events.enumerate().map(entry).collect()
}

/// A quota in each namespace, then objects that come, change and go.
fn history() -> Vec<Entry> {
    let quotas = (0..NAMESPACES).map(|number| {
        Event::QuotaSet(Arc::new(QuotaRecord {
            namespace: namespace(number),
            name: Name::from("compute"),
            uid: uid(number),
            created: Timestamp::EPOCH,
            spec: Spec {
                hard: list(&[
                    ("pods", "10M"),
                    ("requests.cpu", "10M"),
                    ("requests.memory", "10Pi"),
                ]),
                ..Spec::default()
            },
            metadata: Box::default(),
        }))
    });
    let objects = (0..OBJECTS).map(|number| {
        if number % 10 == 9 {
            let number = number - 5;
            return Event::ObjectDeleted {
                uid: uid(number),
                namespace: namespace(number),
            };
        }
        Event::ObjectObserved(Box::new(Observed {
            uid: uid(number),
            namespace: namespace(number),
            resource: Name::from("pods"),
            name: format!("web-5d4f8c7b9-{number:05}").into(),
            version: number + 1,
            footprint: footprint(number),
            lapse: None,
            ends_reservation: false,
        }))
    });
    entries(quotas.chain(objects))
}

fn fold(entries: &[Entry]) -> State {
    let mut state = State::default();
    for entry in entries {
        state.apply(entry);
    }
    state
}

fn wish(number: u64) -> Request {
    Request {
        uid: uid(1 << 40 | number),
        namespace: namespace(number),
        resource: GroupResource::new("", "pods"),
        name: format!("new-{number}").into(),
        api_version: Name::from("v1"),
        kind: Name::from("Pod"),
        basis: Basis::Create,
        subresource: Name::default(),
        footprint: footprint(number),
        before: None,
        object: None,
        ttl: Some(Span::from_seconds(30)),
    }
}

fn deciding(criterion: &mut Criterion) {
    let state = fold(&history());
    let policy = Policy::default();
    let now = state.head().time;
    let request = Filed::from(wish(7));
    let mut group = criterion.benchmark_group("decide");
    group.throughput(Throughput::Elements(1));
    // What no decision can do without: three look-ups and three exact sums.
    let limits: HashMap<(Name, Name), Quantity> = request
        .footprint
        .resources
        .iter()
        .map(|(name, quantity)| ((request.namespace.clone(), name.clone()), quantity.clone()))
        .collect();
    group.bench_function("baseline: three sums in a map", |bench| {
        bench.iter(|| {
            let mut fits = true;
            for name in ["pods", "requests.cpu", "requests.memory"] {
                let mut sum = limits[&(request.namespace.clone(), Name::from(name))].clone();
                sum.add_assign(
                    request
                        .footprint
                        .resources
                        .get(name)
                        .unwrap_or(&Quantity::ZERO),
                );
                fits &= sum.is_positive();
            }
            black_box(fits)
        });
    });
    group.bench_function("reserve, 100,000 objects", |bench| {
        bench.iter(|| black_box(decide::reserve(&state, now, black_box(&request), &policy)));
    });
    group.finish();
}

fn folding(criterion: &mut Criterion) {
    let entries = history();
    let mut group = criterion.benchmark_group("fold");
    group.sample_size(10);
    group.throughput(Throughput::Elements(entries.len() as u64));
    group.bench_function("baseline: a map of uids to footprints", |bench| {
        bench.iter_batched(
            HashMap::<Uid, Footprint>::new,
            |mut map| {
                for entry in &entries {
                    match &entry.event {
                        Event::ObjectObserved(object) => {
                            map.insert(object.uid.clone(), object.footprint.clone());
                        }
                        Event::ObjectDeleted { uid, .. } => {
                            map.remove(uid);
                        }
                        _ => {}
                    }
                }
                map
            },
            BatchSize::LargeInput,
        );
    });
    group.bench_function("apply", |bench| {
        bench.iter_with_large_drop(|| fold(&entries));
    });
    let batches: Vec<Vec<u8>> = entries.chunks(256).map(codec::encode_entries).collect();
    group.bench_function("decode and apply (replay)", |bench| {
        bench.iter_with_large_drop(|| {
            let mut state = State::default();
            for (batch, bytes) in entries.chunks(256).zip(&batches) {
                let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
                let decoded =
                    codec::decode_entries(batch[0].sequence, count, bytes).unwrap_or_default();
                for entry in &decoded {
                    state.apply(entry);
                }
            }
            state
        });
    });
    group.finish();
}

fn encoding(criterion: &mut Criterion) {
    let entries = history();
    let batch = &entries[1000..1256];
    let bytes = codec::encode_entries(batch);
    let mut group = criterion.benchmark_group("codec");
    group.throughput(Throughput::Elements(batch.len() as u64));
    group.bench_function("baseline: serde_json to text", |bench| {
        bench.iter(|| black_box(serde_json::to_vec(batch).unwrap_or_default()));
    });
    group.bench_function("encode 256 entries", |bench| {
        bench.iter(|| black_box(codec::encode_entries(batch)));
    });
    group.bench_function("decode 256 entries", |bench| {
        bench.iter(|| black_box(codec::decode_entries(1001, 256, &bytes)));
    });
    group.finish();
}

fn imaging(criterion: &mut Criterion) {
    let state = fold(&history());
    let mut bytes = Vec::new();
    state.image().write(&mut bytes).unwrap_or_default();
    let mut group = criterion.benchmark_group("snapshot");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(bytes.len() as u64));
    group.bench_function("baseline: copy of the bytes", |bench| {
        bench.iter(|| black_box(bytes.clone()));
    });
    group.bench_function("take an image (the writer waits for this)", |bench| {
        bench.iter_with_large_drop(|| state.image());
    });
    group.bench_function("write an image", |bench| {
        bench.iter(|| {
            let mut out = Vec::with_capacity(bytes.len());
            state.image().write(&mut out).unwrap_or_default();
            black_box(out)
        });
    });
    group.bench_function("read an image", |bench| {
        bench.iter_with_large_drop(|| State::read(&mut bytes.as_slice()));
    });
    group.finish();
}

criterion_group!(benches, deciding, folding, encoding, imaging);
criterion_main!(benches);
