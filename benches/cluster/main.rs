//! Three nodes that keep one ledger, beside a single one and beside three etcds: grants, reads, and for how long nothing
//! is granted when the leader, or the server that leads the log, is killed, stopped or cut off.
//!
//! All on one machine, in one run, in turn; medians of several rounds. Needs a nats-server of 2.14.4 or newer
//! (`QUOTAD_NATS_SERVER`); etcd, as Debian packages it, is measured if it is there.
//!
//! `BENCH_SECONDS`, `BENCH_ROUNDS`, `BENCH_OUTAGES` (of each kind), `BENCH_DIR`, `BENCH_DOCUMENT` set what their names say.

#![allow(missing_docs, unreachable_pub, reason = "a program")]

mod append;
mod batches;
mod etcd;
mod outages;
mod rates;
mod report;

use quota_bench as support;
use std::{collections::BTreeMap, time::Duration};

use outages::Fault;
use quota_testkit as testing;
use rates::{Sent, System};
use support::{
    disk,
    measured::{self, Runs},
};

fn main() {
    if !support::is_wanted() {
        return;
    }
    let (rounds, seconds) =
        (support::setting("BENCH_ROUNDS", 3), support::setting("BENCH_SECONDS", 4.0));
    let directory = support::directory();
    let (mut runs, mut sent, mut syncs) = (Runs::default(), Sent::new(), Vec::new());
    for round in 1..=rounds {
        syncs.push(disk::fdatasync_us(directory.path(), SYNCS));
        for system in System::all() {
            let home = tempfile::tempdir_in(directory.path()).expect("there is room");
            for (case, measured) in rates::measure(system, home.path(), seconds, &mut sent) {
                let names = (case.name(), system.name());
                runs.add(round, names, (case, system), measured);
            }
        }
    }
    let home = tempfile::tempdir_in(directory.path()).expect("there is room");
    let outages = outages::measure(home.path(), support::setting("BENCH_OUTAGES", 20));
    let floor = Floor { sent, sync_us: measured::median(&mut syncs) };
    let text = report::text(&runs.medians(), &floor, &outages, (rounds, seconds));
    support::document::replace("cluster", &text);
    println!("{text}");
}

/// How long the disk is measured in each round.
const SYNCS: Duration = Duration::from_secs(1);

/// What the parts of a grant take at least.
struct Floor {
    /// Messages of the last round.
    sent: Sent,
    /// Writing 4 KiB and fdatasync, in microseconds.
    sync_us: f64,
}

/// For how long nothing was granted, each time.
type Outages = BTreeMap<Fault, Vec<Duration>>;
