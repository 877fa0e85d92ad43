//! Metrics: one table defines them, one function per metric records it.

use std::time::Duration;

use ::metrics::{counter, describe_counter, describe_gauge, describe_histogram, gauge, histogram};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};

use crate::kubernetes::Failure;

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A value that only grows.
    Counter,
    /// A value that goes up and down.
    Gauge,
    /// A distribution.
    Histogram,
}

/// Name, type, labels and meaning of a metric.
pub(crate) type Metric = (&'static str, Kind, &'static str, &'static str);

/// All metrics.
pub(crate) const ALL: [Metric; 17] = [
    (
        "quota_bridge_leader",
        Kind::Gauge,
        "",
        "1 while this bridge publishes.",
    ),
    (
        "quota_bridge_nats_connected",
        Kind::Gauge,
        "",
        "1 while there is a connection to NATS.",
    ),
    (
        "quota_bridge_queue_lines",
        Kind::Gauge,
        "",
        "Lines that wait to be published.",
    ),
    (
        "quota_bridge_clock_skew_seconds",
        Kind::Gauge,
        "",
        "By how much this clock is ahead of that of NATS.",
    ),
    (
        "quota_bridge_publish_duration_seconds",
        Kind::Histogram,
        "",
        "How long a message took to be stored, with all attempts.",
    ),
    (
        "quota_bridge_publish_refused_total",
        Kind::Counter,
        "",
        "Messages that the stream refused, since another one was before them.",
    ),
    (
        "quota_bridge_suppressed_total",
        Kind::Counter,
        "",
        "Events that changed nothing that counts.",
    ),
    (
        "quota_bridge_watermark_age_seconds",
        Kind::Gauge,
        "resource",
        "Age of the watermark of a kind.",
    ),
    (
        "quota_bridge_watermarks_missing",
        Kind::Gauge,
        "",
        "Watched kinds that have no watermark yet.",
    ),
    (
        "quota_bridge_events_total",
        Kind::Counter,
        "resource",
        "Events of watches.",
    ),
    (
        "quota_bridge_relists_total",
        Kind::Counter,
        "resource, outcome",
        "Finished lists: complete, or doubtful (probably incomplete).",
    ),
    (
        "quota_bridge_watch_restarts_total",
        Kind::Counter,
        "resource",
        "Watches that were opened.",
    ),
    (
        "quota_bridge_errors_total",
        Kind::Counter,
        "resource, code",
        "Failed requests, by HTTP status or kind of error.",
    ),
    (
        "quota_bridge_unreadable_total",
        Kind::Counter,
        "resource",
        "Objects that could not be read: while there are such, nothing of the kind is ended.",
    ),
    (
        "quota_bridge_shortened_total",
        Kind::Counter,
        "resource",
        "Objects that were published without some of what they count for, since they are too long or cannot be read.",
    ),
    (
        "quota_bridge_relists_asked_total",
        Kind::Counter,
        "",
        "Requests of quotad for relists.",
    ),
    (
        "quota_bridge_group_status_written_total",
        Kind::Counter,
        "",
        "Statuses of ClusterResourceQuotas that were written to the cluster.",
    ),
];

const SECONDS: [f64; 12] = [
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 2.5, 10.0,
];

/// Installs the recorder of this process.
///
/// # Errors
/// The process already has a recorder.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for (name, kind, ..) in ALL {
        if kind == Kind::Histogram {
            builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &SECONDS)?;
        }
    }
    let handle = builder.install_recorder()?;
    for (name, kind, labels, help) in ALL {
        match kind {
            Kind::Counter => describe_counter!(name, help),
            Kind::Gauge => describe_gauge!(name, help),
            Kind::Histogram => describe_histogram!(name, help),
        }
        if labels.is_empty() {
            match kind {
                Kind::Counter => counter!(name).absolute(0),
                Kind::Gauge => gauge!(name).set(0.0),
                Kind::Histogram => {}
            }
        }
    }
    Ok(handle)
}

/// Sets whether this bridge publishes.
pub(crate) fn leader(is: bool) {
    gauge!("quota_bridge_leader").set(f64::from(u8::from(is)));
}

/// Sets whether there is a connection to NATS.
pub(crate) fn nats_connected(is: bool) {
    gauge!("quota_bridge_nats_connected").set(f64::from(u8::from(is)));
}

/// Sets the number of queued lines.
pub(crate) fn queue_lines(lines: usize) {
    gauge!("quota_bridge_queue_lines").set(lines as f64);
}

/// Sets the number of nanoseconds by which this clock is ahead of that of NATS.
pub(crate) fn clock_skew(nanoseconds: i64) {
    gauge!("quota_bridge_clock_skew_seconds").set(nanoseconds as f64 / 1e9);
}

/// Records a stored message, and the time that it took.
pub(crate) fn published(took: Duration) {
    histogram!("quota_bridge_publish_duration_seconds").record(took);
}

/// Counts a message that the stream refused.
pub(crate) fn publish_refused() {
    counter!("quota_bridge_publish_refused_total").increment(1);
}

/// Counts an event that changes no counted amount.
pub(crate) fn suppressed() {
    counter!("quota_bridge_suppressed_total").increment(1);
}

/// Sets the age of the watermark of a kind, in seconds.
pub(crate) fn watermark_age(resource: &str, seconds: f64) {
    gauge!("quota_bridge_watermark_age_seconds", "resource" => resource.to_owned()).set(seconds);
}

/// Sets the number of kinds that have no watermark yet.
pub(crate) fn watermarks_missing(kinds: usize) {
    gauge!("quota_bridge_watermarks_missing").set(kinds as f64);
}

/// Counts an event of a watch.
pub(crate) fn event(resource: &str) {
    counter!("quota_bridge_events_total", "resource" => resource.to_owned()).increment(1);
}

/// Counts a finished list.
pub(crate) fn relist(resource: &str, complete: bool) {
    let outcome = match complete {
        true => "complete",
        false => "doubtful",
    };
    let resource = resource.to_owned();
    counter!("quota_bridge_relists_total", "resource" => resource, "outcome" => outcome)
        .increment(1);
}

/// Counts an opened watch.
pub(crate) fn watch_opened(resource: &str) {
    counter!("quota_bridge_watch_restarts_total", "resource" => resource.to_owned()).increment(1);
}

/// Counts a failed request.
pub(crate) fn error(resource: &str, failure: &Failure) {
    let code = match failure {
        Failure::Status { code, .. } => code.to_string(),
        Failure::Unreachable(_) => "unreachable".to_owned(),
        Failure::Unreadable(_) => "unreadable".to_owned(),
        Failure::TooLong(_) => "too_long".to_owned(),
        Failure::Silent => "silent".to_owned(),
    };
    let resource = resource.to_owned();
    counter!("quota_bridge_errors_total", "resource" => resource, "code" => code).increment(1);
}

/// Counts an object that cannot be decoded.
pub(crate) fn unreadable(resource: &str) {
    counter!("quota_bridge_unreadable_total", "resource" => resource.to_owned()).increment(1);
}

/// Counts an object that is not published as a whole.
pub(crate) fn shortened(resource: &str) {
    counter!("quota_bridge_shortened_total", "resource" => resource.to_owned()).increment(1);
}

/// Counts a written status of a group.
pub(crate) fn status_written() {
    counter!("quota_bridge_group_status_written_total").increment(1);
}

/// Counts a relist request of quotad.
pub(crate) fn relist_requested() {
    counter!("quota_bridge_relists_asked_total").increment(1);
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        env, fs,
        path::Path,
    };

    use super::*;

    const BEGIN: &str = "<!-- metrics: begin -->\n";
    const END: &str = "<!-- metrics: end -->";

    /// `UPDATE_DOCS=1` writes the table in docs/bridge.md anew.
    #[test]
    fn the_documented_table_is_this_table() {
        let rows = ALL.map(|(name, kind, labels, help)| {
            let kind = match kind {
                Kind::Counter => "counter",
                Kind::Gauge => "gauge",
                Kind::Histogram => "histogram",
            };
            let labels = labels.split(", ").filter(|label| !label.is_empty());
            let labels: Vec<_> = labels.map(|label| format!("`{label}`")).collect();
            format!("| `{name}` | {kind} | {} | {help} |\n", labels.join(", "))
        });
        let head = "| metric | type | labels | meaning |\n|---|---|---|---|\n";
        let table = head.to_owned() + &rows.concat();
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bridge.md");
        let text = fs::read_to_string(&page).unwrap();
        let (before, rest) = text.split_once(BEGIN).unwrap();
        let (old, after) = rest.split_once(END).unwrap();
        if env::var_os("UPDATE_DOCS").is_some() {
            fs::write(&page, format!("{before}{BEGIN}{table}{END}{after}")).unwrap();
        } else {
            assert_eq!(
                old, table,
                "docs/bridge.md is not what the table is: UPDATE_DOCS=1"
            );
        }
    }

    #[test]
    fn each_metric_is_recorded_with_its_labels() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        ::metrics::with_local_recorder(&recorder, || {
            leader(true);
            nats_connected(true);
            queue_lines(1);
            clock_skew(1);
            published(Duration::from_millis(1));
            publish_refused();
            suppressed();
            watermark_age("pods", 1.0);
            watermarks_missing(1);
            event("pods");
            relist("pods", true);
            watch_opened("pods");
            error("pods", &Failure::Silent);
            unreadable("pods");
            shortened("pods");
            status_written();
            relist_requested();
        });
        let text = handle.render();
        let mut recorded: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for line in text
            .lines()
            .filter(|line| line.starts_with("quota_bridge_"))
        {
            let (series, _) = line.split_once(' ').unwrap();
            let (name, labels) = series.split_once('{').unwrap_or((series, ""));
            let name = name.trim_end_matches("_sum").trim_end_matches("_count");
            let keys = labels.split(',').filter_map(|label| label.split_once('='));
            let keys = keys.map(|(key, _)| key).filter(|&key| key != "quantile");
            recorded.entry(name).or_default().extend(keys);
        }
        let labels =
            |text: &'static str| text.split(", ").filter(|label| !label.is_empty()).collect();
        let documented: BTreeMap<_, BTreeSet<_>> = ALL
            .iter()
            .map(|&(name, _, keys, _)| (name, labels(keys)))
            .collect();
        assert_eq!(recorded, documented);
    }
}
