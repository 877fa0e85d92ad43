//! The core: deciding, folding, encoding, replaying.
//!
//! Each group has its baseline in the same run: absolute times mean nothing on a shared machine, ratios do.

#![allow(missing_docs, reason = "criterion's macros")]

use std::{collections::HashMap, hint::black_box};

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use quota_bench::world::{self, fold, uid};
use quota_core::{
    codec,
    decide::{self, Policy},
    event::{Entry, Event},
    state::State,
};
use quota_semantics::{Name, object::Footprint, quantity::Quantity, uid::Uid};

const NAMESPACES: u64 = 100;
const OBJECTS: u64 = 100_000;

fn namespace(number: u64) -> Name {
    world::namespace(number, NAMESPACES)
}

/// A quota in each namespace, then objects that come, change and go.
fn history() -> Vec<Entry> {
    let quotas = (0..NAMESPACES)
        .map(|number| world::quota(namespace(number), "compute", uid(number), world::compute()));
    let objects = (0..OBJECTS).map(|number| {
        if number % 10 == 9 {
            let number = number - 5;
            return Event::ObjectDeleted { uid: uid(number), namespace: namespace(number) };
        }
        let name = format!("web-5d4f8c7b9-{number:05}");
        let footprint = world::footprint(number);
        world::pod(uid(number), namespace(number), name, number + 1, footprint)
    });
    world::entries(quotas.chain(objects)).collect()
}

fn deciding(criterion: &mut Criterion) {
    let state = fold(&history());
    let policy = Policy::default();
    let now = state.head().time;
    let request = world::reserve_request(uid(1 << 40 | 7), namespace(7), 7);
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
                sum.add_assign(request.footprint.resources.get(name).unwrap_or(&Quantity::ZERO));
                fits &= sum.is_positive();
            }
            black_box(fits)
        });
    });
    let by = decide::Requester::holder("bench");
    group.bench_function("reserve, 100,000 objects", |bench| {
        bench.iter(|| black_box(decide::reserve(&state, now, &by, black_box(&request), &policy)));
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
