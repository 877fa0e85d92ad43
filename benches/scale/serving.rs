//! Grants beside much data, beside upkeep, and what they leave on disk.

use std::{path::Path, process::Command, thread, time::Duration};

use serde_json::Value;

use super::{
    generate::Shape,
    subject::{Bench, Bound, Target},
    support::{
        disk::{allotted, device_written},
        document::{ms, whole},
        measured::{Measured, load_daemon},
        process::Quotad,
    },
};

/// A load on a daemon, as `quota-load` makes it.
pub fn load(
    bench: &Bench,
    daemon: &Quotad,
    connections: usize,
    namespaces: usize,
    seconds: f64,
) -> Measured {
    let arguments = [
        format!("--connections={connections}"),
        format!("--namespaces={namespaces}"),
        format!("--duration={:.0}ms", seconds * 1000.0),
        format!("--warmup={:.0}ms", bench.seconds * 250.0),
        "--namespace=team".to_owned(),
        "--threads=1".to_owned(),
    ];
    load_daemon(&daemon.api, &arguments)
}

/// The rate beside millions of objects, and on an empty ledger.
pub fn grants(bench: &Bench) -> Vec<Target> {
    let shape = Shape {
        namespaces: bench.sized(50_000),
        quotas_per_namespace: 4,
        live: bench.sized(5_000_000),
        changes: bench.sized(5_000_000),
    };
    let large = bench.new_directory();
    shape.write(large.path());
    let small = bench.new_directory();
    let daemons = [&large, &small].map(|directory| Quotad::start(directory.path(), &[]));
    let [large, small] = bench.rounds(|| {
        let [large, small] = &daemons;
        [large, small].map(|daemon| load(bench, daemon, 64, 1000, bench.seconds).rate)
    });
    vec![Target {
        what: "rate of grants, large ledger / empty ledger",
        value: large / small,
        bound: Bound::AtLeast(0.85),
        unit: "",
        detail: format!(
            "{} and {} operations/s; {} namespaces, {} quotas, {} objects; 64 connections over 1,000 namespaces",
            whole(large),
            whole(small),
            whole(shape.namespaces as f64),
            whole((shape.namespaces * 4) as f64),
            whole(shape.live as f64)
        ),
    }]
}

/// Upkeep all the time: small epochs, a snapshot as often as possible, and nearly nothing kept.
const BUSY: [&str; 4] = [
    "--snapshot.every-entries=20000",
    "--journal.epoch-bytes=8MiB",
    "--journal.segment-bytes=2MiB",
    "--retention.max-bytes=8MiB",
];

const QUIET: [&str; 2] = ["--snapshot.every-entries=1000000000", "--snapshot.every=24h"];

/// The slowest of 100 grants while snapshots are stored, epochs sealed and removed, and without.
pub fn upkeep(bench: &Bench) -> Vec<Target> {
    let shape = Shape {
        namespaces: 1000,
        quotas_per_namespace: 1,
        live: bench.sized(1_000_000),
        changes: bench.sized(1_000_000),
    };
    let directories = [bench.new_directory(), bench.new_directory()];
    for directory in &directories {
        shape.write(directory.path());
    }
    let busy = Quotad::start(directories[0].path(), &BUSY);
    let quiet = Quotad::start(directories[1].path(), &QUIET);
    let [with, without] = bench.rounds(|| {
        // Snapshots come once a second at most: longer runs hold several.
        let seconds = bench.seconds * 2.0;
        [&busy, &quiet].map(|daemon| load(bench, daemon, 64, 1000, seconds).p99)
    });
    let snapshots = busy.metric("quota_ledger_snapshot_duration_seconds_count");
    vec![Target {
        what: "p99 of grants with upkeep / without",
        value: with / without,
        bound: Bound::AtMost(2.0),
        unit: "",
        detail: format!(
            "{} and {} ms; {} snapshots of {} objects, each followed by a compaction; epochs of 8 MiB",
            ms(with),
            ms(without),
            whole(snapshots),
            whole(shape.live as f64)
        ),
    }]
}

/// Bytes that go to the disk, and bytes that stay, beside the bytes of the entries.
pub fn disk(bench: &Bench) -> Vec<Target> {
    vec![written(bench), kept(bench)]
}

fn written(bench: &Bench) -> Target {
    let directory = bench.new_directory();
    // Small segments, so that what is prepared ahead of need weighs little in a short run.
    let daemon = Quotad::start(directory.path(), &["--journal.segment-bytes=1MiB"]);
    // The ballast is made once, behind the first start.
    thread::sleep(Duration::from_secs(3));
    let before = daemon.written();
    let device_before = device_written(directory.path());
    load(bench, &daemon, 256, 1, bench.seconds * 2.0);
    // What goes behind the answers comes within a second.
    thread::sleep(Duration::from_secs(3));
    let written = (daemon.written() - before) as f64;
    let device = device_written(directory.path()).zip(device_before);
    daemon.stop();
    let stat = stat(directory.path());
    let encoded = stat["payloadBytes"].as_f64().unwrap_or(0.0);
    let entries = stat["entries"].as_f64().unwrap_or(0.0);
    let device = device.map_or("unknown".to_owned(), |(after, before)| {
        format!("{:.0} B", (after - before) as f64 / entries)
    });
    Target {
        what: "bytes written / bytes of encoded entries, at saturation",
        value: written / encoded,
        bound: Bound::AtMost(4.0),
        unit: "",
        detail: format!(
            "{:.0} and {:.0} B for each of {} entries, 256 connections, segments of 1 MiB; written to the device, by all processes: {device}",
            written / entries,
            encoded / entries,
            whole(entries)
        ),
    }
}

/// As large at every scale: beside little that is kept, what is always there would weigh most (segments, ballast, what
/// snapshots remember of the past).
fn kept(bench: &Bench) -> Target {
    let directory = bench.new_directory();
    let shape =
        Shape { namespaces: 1000, quotas_per_namespace: 1, live: 10_000, changes: 10_000_000 };
    shape.write(directory.path());
    let daemon = Quotad::start(
        directory.path(),
        &["--retention.max-bytes=384MiB", "--snapshot.every-entries=1000"],
    );
    // Two snapshots have to be behind what goes, and compaction follows a snapshot.
    for _ in 0..3 {
        load(bench, &daemon, 64, 1, 3.0);
    }
    daemon.stop();
    let stat = self::stat(directory.path());
    let encoded = stat["payloadBytes"].as_f64().unwrap_or(0.0);
    let size = allotted(&directory.path().join("data")) as f64;
    Target {
        what: "data directory after compaction / encoded entries kept",
        value: size / encoded,
        bound: Bound::AtMost(1.5),
        unit: "",
        detail: format!(
            "{} and {} MiB, entries kept from {} on of {}",
            whole(size / 1048576.0),
            whole(encoded / 1048576.0),
            stat["firstSequence"],
            stat["lastSequence"]
        ),
    }
}

fn stat(directory: &Path) -> Value {
    let output = Command::new(crate::support::programs::quotactl())
        .args(["ledger", "stat", "-o", "json", "--data-dir"])
        .arg(directory.join("data"))
        .output()
        .expect("quotactl is built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "quotactl ledger stat: {errors}");
    serde_json::from_slice(&output.stdout).expect("JSON")
}
