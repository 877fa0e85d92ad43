//! Three real servers, three nodes with real replicas, and clients, under faults: every acknowledged grant has to be in
//! the log, once, and no limit may be exceeded.
//!
//! The test runs itself as the nodes, so that they can be killed. `QUOTAD_NATS_SERVER`: the server, 2.14.4 or newer
//! (`tests/run` installs one). `QUOTAD_CLUSTER_FAULTS`: the number of faults (8). `QUOTAD_CLUSTER_SEED`: their seed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may fail")]

mod clients;
mod log;
mod node;
mod processes;

use std::time::Instant;

use clients::Load;
use processes::{Cluster, Fault};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.get(1).map(String::as_str) == Some("node") {
        node::run(&arguments[2..]);
    }
    // Handles arguments as a test harness does.
    if arguments.iter().any(|argument| argument == "--list") {
        return println!("faults: test");
    }
    let mut filters = arguments[1..]
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .peekable();
    if filters.peek().is_some() && !filters.any(|filter| "faults".contains(filter.as_str())) {
        return;
    }
    let faults = number("QUOTAD_CLUSTER_FAULTS").unwrap_or(8);
    let seed = number("QUOTAD_CLUSTER_SEED").unwrap_or_else(|| std::process::id().into());
    println!("QUOTAD_CLUSTER_FAULTS={faults} QUOTAD_CLUSTER_SEED={seed}");
    let mut random = seed;
    let mut next = move |below: u64| {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut cluster = Cluster::start();
    let load = Load::start(cluster.node_ports());
    load.wait_for_grants(200);
    for number in 0..faults {
        let fault = Fault::ALL[usize::try_from((number + seed) % Fault::ALL.len() as u64).unwrap()];
        let began = Instant::now();
        let what = cluster.strike(fault, usize::try_from(next(3)).unwrap());
        load.wait_for_grants(20);
        println!(
            "{what}: granted again after {:.1} s",
            began.elapsed().as_secs_f64()
        );
        cluster.mend();
        load.wait_for_grants(200);
    }
    let answers = load.stop();
    let digests = cluster.digests();
    let log = cluster.read_log();
    drop(cluster);
    log::check(&log, &answers, &digests);
    println!("ok");
}
