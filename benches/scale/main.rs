//! What size does: starts, memory, reports and simulations, grants beside millions of objects, upkeep while serving, bytes
//! on disk, and intake from a real JetStream. Each figure stands beside its baseline, measured in the same run.
//!
//! `BENCH_ONLY=replay,past,start,grants,upkeep,disk,intake,tenants,groups` chooses; `BENCH_SCALE` (default 1) multiplies
//! the sizes; `BENCH_SECONDS`, `BENCH_ROUNDS`, `BENCH_DIR`, `BENCH_DOCUMENT` set what their names say. Needs nats-server.

#![allow(missing_docs, unreachable_pub, reason = "a program")]

mod generate;
mod groups;
mod intake;
mod ledgers;
mod past;
mod serving;
mod subject;
mod tenants;

use quota_bench as support;
use std::env;

use subject::{Bench, Target};

/// Measures one subject.
type Measure = fn(&Bench) -> Vec<Target>;

fn main() {
    if !support::is_wanted() {
        return;
    }
    let bench = Bench::new();
    let subjects: [(&str, Measure); 9] = [
        ("replay", ledgers::replay),
        ("past", past::all),
        ("start", ledgers::start),
        ("grants", serving::grants),
        ("upkeep", serving::upkeep),
        ("disk", serving::disk),
        ("intake", intake::all),
        ("tenants", tenants::all),
        ("groups", groups::all),
    ];
    let only = env::var("BENCH_ONLY").unwrap_or_default();
    let is_chosen = |name: &str| only.is_empty() || only.split(',').any(|one| one == name);
    let mut targets = Vec::new();
    for (name, measure) in subjects.into_iter().filter(|(name, _)| is_chosen(name)) {
        for target in measure(&bench) {
            eprintln!("{name}: {}: {} ({})", target.what, target.ratio(), target.detail);
            targets.push(target);
        }
    }
    let text = format!(
        "{}. Medians of {} rounds.\n\n{}",
        support::machine::description(env!("BUILD_PROFILE")),
        bench.rounds,
        subject::table(&targets)
    );
    // Some of the subjects would take the place of all.
    if only.is_empty() {
        support::document::replace("scale", &text);
    }
    println!("{text}");
}
