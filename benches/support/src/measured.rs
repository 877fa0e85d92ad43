//! Figures of a run, and their medians.

use std::{collections::BTreeMap, process::Command};

use super::load::Tally;
use serde_json::Value;

/// What one run gave.
#[derive(Clone, Copy, Debug, Default)]
pub struct Measured {
    /// Operations per second.
    pub rate: f64,
    /// Median latency of a request, in microseconds.
    pub p50: f64,
    /// 99 of 100 requests took no longer, in microseconds.
    pub p99: f64,
}

impl Measured {
    /// From the counts of the generator.
    pub fn of(tally: &Tally, seconds: f64) -> Self {
        assert_eq!(tally.errors(), 0, "some requests failed: {:?}", tally.statuses);
        assert_eq!(tally.denied, 0, "something was denied");
        let latency = tally.latency();
        Self {
            rate: tally.operations() as f64 / seconds,
            p50: latency.value_at_quantile(0.5) as f64 / 1000.0,
            p99: latency.value_at_quantile(0.99) as f64 / 1000.0,
        }
    }

    /// The median of each figure.
    pub fn median(runs: &[Self]) -> Self {
        let of = |figure: fn(&Self) -> f64| {
            let mut figures: Vec<_> = runs.iter().map(figure).collect();
            median(&mut figures)
        };
        Self { rate: of(|run| run.rate), p50: of(|run| run.p50), p99: of(|run| run.p99) }
    }
}

/// All runs of a case of a system.
pub struct Runs<K>(BTreeMap<K, Vec<Measured>>);

impl<K> Default for Runs<K> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<K: Ord + Copy> Runs<K> {
    /// Says what a run gave, and keeps it.
    pub fn add(
        &mut self,
        round: usize,
        (case, system): (String, &str),
        key: K,
        measured: Measured,
    ) {
        eprintln!(
            "round {round}: {case}, {system}: {:.0}/s, p50 {:.0} us, p99 {:.0} us",
            measured.rate, measured.p50, measured.p99
        );
        self.0.entry(key).or_default().push(measured);
    }

    /// The medians of each.
    pub fn medians(&self) -> BTreeMap<K, Measured> {
        let runs = self.0.iter();
        runs.map(|(key, runs)| (*key, Measured::median(runs))).collect()
    }
}

/// The middle one; 0 of none.
pub fn median(figures: &mut [f64]) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}

/// Runs the load generator as a process of its own.
pub fn load_daemon(server: &str, arguments: &[String]) -> Measured {
    let output = Command::new(super::programs::quota_load())
        .args(["--server", server])
        .args(arguments)
        .output()
        .expect("quota-load is built");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "quota-load: {errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("a report");
    assert_eq!(report["errors"], 0, "some requests failed: {report}");
    assert_eq!(report["denied"], 0, "something was denied: {report}");
    let figure = |pointer: &str| report.pointer(pointer).and_then(Value::as_f64).unwrap_or(0.0);
    Measured {
        rate: figure("/operationsPerSecond"),
        p50: figure("/latency/p50Us"),
        p99: figure("/latency/p99Us"),
    }
}
