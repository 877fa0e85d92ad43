//! Three nodes that keep one ledger, beside a single one and beside three etcds: grants, reads, and for how long nothing
//! is granted when the leader, or the server that leads the log, is killed, stopped or cut off.
//!
//! All on one machine, in one run, in turn; medians of several rounds. Needs a nats-server of 2.14.4 or newer
//! (`QUOTAD_NATS_SERVER`); etcd, as Debian packages it, is measured if it is there.
//!
//! `BENCH_SECONDS`, `BENCH_ROUNDS`, `BENCH_OUTAGES` (of each kind), `BENCH_DIR`, `BENCH_DOCUMENT` set what their names say.

#![allow(missing_docs, unreachable_pub, reason = "a program")]

mod append;
mod etcd;
mod outages;
mod rates;
mod report;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;

use outages::Fault;
use quota_test_support as testing;
use rates::System;
use support::measured::Runs;

fn main() {
    if !support::is_wanted() {
        return;
    }
    let (rounds, seconds) = (
        support::setting("BENCH_ROUNDS", 3),
        support::setting("BENCH_SECONDS", 4.0),
    );
    let directory = support::directory();
    let mut runs = Runs::new();
    for round in 1..=rounds {
        for system in System::all() {
            let home = tempfile::tempdir_in(directory.path()).expect("there is room");
            for (case, measured) in rates::measure(system, home.path(), seconds) {
                let names = (case.name(), system.name());
                runs.add(round, names, (case, system), measured);
            }
        }
    }
    let home = tempfile::tempdir_in(directory.path()).expect("there is room");
    let outages = outages::measure(home.path(), support::setting("BENCH_OUTAGES", 20));
    let text = report::text(&runs.medians(), &outages, rounds, seconds);
    support::document::replace("cluster", &text);
    println!("{text}");
}

/// For how long nothing was granted, each time.
type Outages = BTreeMap<Fault, Vec<std::time::Duration>>;
