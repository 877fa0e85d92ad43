//! Replays, starts, and memory.

use std::{fs, hint::black_box, path::Path, time::Instant};

use quota_core::{codec, state::State};

use super::{
    generate::Shape,
    subject::{Bench, Bound, Target},
    support::{document::whole, process::Quotad},
};

/// Entries of a batch in memory.
const BATCH: usize = 256;

/// Decoding and folding beside folding alone, of the same entries.
pub fn replay(bench: &Bench) -> Vec<Target> {
    let shape = Shape {
        namespaces: 1000,
        quotas_per_namespace: 1,
        live: bench.sized(200_000),
        changes: bench.sized(2_000_000),
    };
    let entries: Vec<_> = shape.entries().collect();
    let batches: Vec<_> = entries
        .chunks(BATCH)
        .map(|batch| {
            let count = u32::try_from(batch.len()).unwrap_or(u32::MAX);
            (batch[0].sequence, count, codec::encode_entries(batch))
        })
        .collect();
    let per_second = |begin: Instant| entries.len() as f64 / begin.elapsed().as_secs_f64();
    let [fold, replay] = bench.rounds(|| {
        let begin = Instant::now();
        let mut state = State::default();
        for entry in &entries {
            state.apply(entry);
        }
        let fold = per_second(begin);
        drop(black_box(state));
        let begin = Instant::now();
        let mut state = State::default();
        for (first, count, bytes) in &batches {
            let decoded = codec::decode_entries(*first, *count, bytes).expect("what was encoded");
            for entry in &decoded {
                state.apply(entry);
            }
        }
        let replay = per_second(begin);
        drop(black_box(state));
        [fold, replay]
    });
    vec![Target {
        what: "replay (decode and fold) / fold alone",
        value: replay / fold,
        bound: Bound::AtLeast(0.5),
        unit: "",
        detail: format!(
            "{} and {} entries/s on one core, {} live objects",
            whole(replay),
            whole(fold),
            whole(shape.live as f64)
        ),
    }]
}

/// Starts with and without a snapshot, and the memory that objects take.
pub fn start(bench: &Bench) -> Vec<Target> {
    let million = Shape {
        namespaces: 1000,
        quotas_per_namespace: 1,
        live: bench.sized(1_000_000),
        changes: bench.sized(10_000_000),
    };
    let directory = bench.new_directory();
    million.write(directory.path());
    let [loaded, replayed] = bench.rounds(|| {
        let daemon = Quotad::start(directory.path(), &[]);
        let loaded = daemon.started_in.as_secs_f64();
        daemon.stop();
        forget_snapshots(directory.path());
        let daemon = Quotad::start(directory.path(), &[]);
        let replayed = daemon.started_in.as_secs_f64();
        // It stores a snapshot before it ends: for the next round.
        daemon.stop();
        [loaded, replayed]
    });
    drop(directory);
    let start = Target {
        what: "start with a snapshot / with a replay of everything",
        value: loaded / replayed,
        bound: Bound::AtMost(0.2),
        unit: "",
        detail: format!(
            "{loaded:.2} s and {replayed:.2} s; {} entries, {} live objects",
            whole(million.changes as f64),
            whole(million.live as f64)
        ),
    };
    vec![
        start,
        memory_per_object(bench, "memory per live object, of a million", 1_000_000),
        memory_per_object(bench, "memory per live object, of ten million", 10_000_000),
    ]
}

/// Beside a daemon without objects. None was deleted: what is remembered of those is bounded, and no part of this.
fn memory_per_object(bench: &Bench, what: &'static str, objects: u64) -> Target {
    let empty = memory(bench.new_directory().path());
    let live = bench.sized(objects);
    let shape = Shape { namespaces: 1000, quotas_per_namespace: 1, live, changes: live };
    let directory = bench.new_directory();
    shape.write(directory.path());
    let full = memory(directory.path());
    Target {
        what,
        value: (full - empty) / live as f64,
        bound: Bound::AtMost(160.0),
        unit: " B",
        detail: format!(
            "{} objects; RSS {} MiB, empty daemon {} MiB",
            whole(live as f64),
            whole(full / 1048576.0),
            whole(empty / 1048576.0)
        ),
    }
}

fn memory(directory: &Path) -> f64 {
    let daemon = Quotad::start(directory, &[]);
    daemon.memory() as f64
}

fn forget_snapshots(directory: &Path) {
    let snapshots = fs::read_dir(directory.join("data/snapshots")).expect("it is there");
    for snapshot in snapshots {
        let path = snapshot.expect("it can be listed").path();
        fs::remove_file(path).expect("nobody else uses it");
    }
}
