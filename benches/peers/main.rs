//! Side by side: the daemon, what could be used instead of it, and what no daemon can beat.
//!
//! Each system is started anew for each measurement, with an empty directory on the same disk, and measured by the
//! same generator, in turn: so what the neighbours of a shared machine do falls on all alike. Several rounds,
//! medians. Needs redis-server and postgresql, as Debian packages them.
//!
//! `BENCH_SECONDS`, `BENCH_ROUNDS`, `BENCH_DIR`, `BENCH_DOCUMENT` set what their names say. `BENCH_CASES` measures only the
//! cases whose names hold this text, and writes no document: `BENCH_CASES=admit` needs neither of the peers.

#![allow(missing_docs, unreachable_pub, reason = "a program")]

mod floor;
mod plan;
mod postgres;
mod redis;
mod report;
mod reviews;
mod tls;

use plan::{Bench, Case, System};
use quota_bench as support;
use support::measured::Runs;

fn main() {
    if std::env::args().nth(1).as_deref() == Some(support::process::SERVE_FLOOR) {
        return floor::run(std::env::args_os().skip(2)).expect("the floor serves");
    }
    if !support::is_wanted() {
        return;
    }
    let cases = Case::chosen(&support::setting("BENCH_CASES", String::new()));
    let missing = plan::missing(&cases);
    if !missing.is_empty() {
        eprintln!("peers: not measured, since there is no {}", missing.join(", no "));
        eprintln!("peers: on Debian: apt-get install redis-server postgresql");
        std::process::exit(1);
    }
    let bench = Bench::new(cases);
    let mut runs = Runs::default();
    let mut disk = Vec::new();
    for round in 1..=bench.rounds {
        disk.push(bench.disk());
        for &case in &bench.cases {
            for system in System::ALL.into_iter().filter(|system| system.does(case)) {
                let measured = bench.measure(system, case);
                let names = (case.name(), system.name());
                runs.add(round, names, (case, system), measured);
            }
        }
    }
    let text = report::text(&runs.medians(), support::measured::median(&mut disk), &bench);
    if bench.is_whole() {
        support::document::replace("peers", &text);
    }
    println!("{text}");
}

/// The namespaces that a connection works on: those of all connections together are all of them.
fn slots(connection: usize, connections: usize, namespaces: usize) -> Vec<usize> {
    let count = namespaces.div_ceil(connections);
    (0..count).map(|slot| (connection + slot * connections) % namespaces).collect()
}
