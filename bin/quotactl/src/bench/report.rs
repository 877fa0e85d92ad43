//! The result of a measurement.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use super::super::{
    args::Bench,
    failure::Outcome,
    output::{Output, note},
    table::Table,
};
use quota_load::{Kind, Plan, Tally};

/// A measurement as JSON.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Report<'a> {
    server: &'a str,
    #[serde(rename = "loop")]
    mode: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<f64>,
    connections: usize,
    threads: usize,
    namespaces: u32,
    batch: u16,
    seconds: f64,
    operations: u64,
    operations_per_second: f64,
    latency: Latency,
    by_kind: BTreeMap<&'static str, Part>,
    denied: u64,
    errors: u64,
    unanswered: u64,
    statuses: &'a BTreeMap<u16, u64>,
    /// The delay of requests by the generator's own timer; none without a fixed rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    late: Option<Latency>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Part {
    operations: u64,
    operations_per_second: f64,
    latency: Latency,
}

/// Times of requests, in microseconds.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Latency {
    requests: u64,
    min_us: f64,
    mean_us: f64,
    p50_us: f64,
    p90_us: f64,
    p99_us: f64,
    p999_us: f64,
    max_us: f64,
}

impl Latency {
    fn of(histogram: &Histogram<u64>) -> Self {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1000.0;
        let quantile = |quantile| us(histogram.value_at_quantile(quantile));
        Self {
            requests: histogram.len(),
            min_us: us(histogram.min()),
            mean_us: (histogram.mean() / 100.0).round() / 10.0,
            p50_us: quantile(0.5),
            p90_us: quantile(0.9),
            p99_us: quantile(0.99),
            p999_us: quantile(0.999),
            max_us: us(histogram.max()),
        }
    }

    fn cells(&self) -> [String; 5] {
        [
            self.p50_us,
            self.p90_us,
            self.p99_us,
            self.p999_us,
            self.max_us,
        ]
        .map(milliseconds)
    }
}

fn milliseconds(us: f64) -> String {
    format!("{:.3}ms", us / 1000.0)
}

impl<'a> Report<'a> {
    pub(super) fn new(bench: &Bench, plan: &Plan, server: &'a str, tally: &'a Tally) -> Self {
        let seconds = plan.duration.as_secs_f64();
        let per_second = |count: u64| {
            if seconds > 0.0 {
                (count as f64 / seconds).round()
            } else {
                0.0
            }
        };
        let part = |kind: Kind| {
            let share = tally.of(kind);
            let part = Part {
                operations: share.operations,
                operations_per_second: per_second(share.operations),
                latency: Latency::of(&share.latency),
            };
            (!share.latency.is_empty()).then_some((kind.name(), part))
        };
        Self {
            server,
            mode: if plan.rate.is_some() {
                "open"
            } else {
                "closed"
            },
            rate: plan.rate,
            connections: plan.connections,
            threads: plan.threads,
            namespaces: bench.namespaces,
            batch: bench.batch,
            seconds,
            operations: tally.operations(),
            operations_per_second: per_second(tally.operations()),
            latency: Latency::of(&tally.latency()),
            by_kind: Kind::ALL.into_iter().filter_map(part).collect(),
            denied: tally.denied,
            errors: tally.errors(),
            unanswered: tally.failures,
            statuses: &tally.statuses,
            late: (!tally.late.is_empty()).then(|| Latency::of(&tally.late)),
        }
    }

    pub(super) fn print(&self, output: &Output) -> Outcome {
        if output.is_structured() {
            return output.value(self);
        }
        note(self.heading());
        output.table(&self.table())?;
        note(self.ending());
        Ok(())
    }

    fn heading(&self) -> String {
        let pace = match self.rate {
            Some(rate) => format!("{rate} requests/s"),
            None => "closed loop".to_owned(),
        };
        format!(
            "{pace}, {}, {}, batches of {}, {} s, {}",
            counted(self.connections, "connection"),
            counted(self.namespaces as usize, "namespace"),
            self.batch,
            self.seconds,
            self.server
        )
    }

    fn table(&self) -> Table {
        let mut table = Table::new(&[
            "REQUEST", ">OPS/S", ">OPS", ">P50", ">P90", ">P99", ">P99.9", ">MAX",
        ]);
        let mut row = |name: &str, per_second: f64, operations: u64, latency: &Latency| {
            let counts = [
                name.to_owned(),
                per_second.to_string(),
                operations.to_string(),
            ];
            table.row(counts.into_iter().chain(latency.cells()));
        };
        for (name, part) in &self.by_kind {
            let per_second = part.operations_per_second;
            row(name, per_second, part.operations, &part.latency);
        }
        if self.by_kind.len() > 1 {
            row(
                "all",
                self.operations_per_second,
                self.operations,
                &self.latency,
            );
        }
        table
    }

    fn ending(&self) -> String {
        let mut parts: Vec<_> = self
            .statuses
            .iter()
            .map(|(status, count)| format!("{status}: {count}"))
            .collect();
        if self.unanswered > 0 {
            parts.push(format!("no answer: {}", self.unanswered));
        }
        if self.denied > 0 {
            parts.push(format!("denied: {}", self.denied));
        }
        if let Some(late) = &self.late {
            parts.push(format!(
                "generator's timer late: p99 {}",
                milliseconds(late.p99_us)
            ));
        }
        parts.join(", ")
    }
}

fn counted(number: usize, thing: &str) -> String {
    match number {
        1 => format!("1 {thing}"),
        _ => format!("{number} {thing}s"),
    }
}
