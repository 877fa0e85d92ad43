//! The intake: from bytes to sightings, and from a stream to a durable ledger.
//!
//! Each group has its baseline in the same run: absolute times mean nothing on a shared machine, ratios do.

#![allow(missing_docs, unreachable_pub, reason = "a program")]
#![allow(clippy::unwrap_used, reason = "a benchmark fails by panicking")]

use std::{collections::BTreeMap, hint::black_box, sync::Arc};

use bytes::Bytes;
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use quota_semantics::Timestamp;
use quotad::intake::payload::Reader;

use quota_bench::events::{self, PlainEvent, WatchedPod};

const PLAIN_EVENTS: u64 = 1_000;

fn reader() -> Arc<Reader> {
    Arc::new(Reader::new(&BTreeMap::new(), true))
}

fn bytes_of(events: &[Bytes]) -> Throughput {
    Throughput::Bytes(events.iter().map(|event| event.len() as u64).sum())
}

fn pods(criterion: &mut Criterion) {
    let events = events::pods(1);
    let count = events.len();
    let mut group = criterion.benchmark_group("watch events of pods");
    group.throughput(bytes_of(&events));
    group.bench_function(BenchmarkId::new("typed struct alone", count), |bencher| {
        bencher.iter(|| {
            for event in &events {
                let watched: WatchedPod = serde_json::from_slice(event).unwrap();
                black_box(watched.object);
            }
        });
    });
    group.bench_function(BenchmarkId::new("typed struct and footprint", count), |bencher| {
        bencher.iter(|| {
            for event in &events {
                let watched: WatchedPod = serde_json::from_slice(event).unwrap();
                black_box((watched.object.resources(Timestamp::EPOCH), watched.object.traits()));
            }
        });
    });
    group.bench_function(BenchmarkId::new("sighting", count), |bencher| {
        let reader = reader();
        bencher.iter(|| {
            for event in &events {
                for event in reader.read(event.clone(), Timestamp::EPOCH) {
                    black_box(event.unwrap());
                }
            }
        });
    });
    group.bench_function(BenchmarkId::new("untyped value", count), |bencher| {
        bencher.iter(|| {
            for event in &events {
                black_box(serde_json::from_slice::<serde_json::Value>(event).unwrap());
            }
        });
    });
    group.finish();
}

fn plain(criterion: &mut Criterion) {
    let payload = events::lines(0..PLAIN_EVENTS);
    let mut group = criterion.benchmark_group("plain events");
    group.throughput(Throughput::Elements(PLAIN_EVENTS));
    group.bench_function("typed struct alone", |bencher| {
        bencher.iter(|| {
            for line in payload.split(|&byte| byte == b'\n') {
                let event: PlainEvent = serde_json::from_slice(line).unwrap();
                black_box((event.event_type, event.namespace, event.resource, event.name));
                black_box((event.uid, event.resource_version, event.usage));
            }
        });
    });
    group.bench_function("sightings", |bencher| {
        let reader = reader();
        bencher.iter(|| {
            for event in reader.read(payload.clone(), Timestamp::EPOCH) {
                black_box(event.unwrap());
            }
        });
    });
    group.finish();
}

criterion_group!(benches, pods, plain);
criterion_main!(benches);
