//! Metrics: one table lists them, and makes the functions that record them.

use std::time::Duration;

use metrics_exporter_prometheus::{BuildError, PrometheusHandle};
use quota_service::{
    metric_table,
    metrics::{
        Kind::{self, Counter, Gauge},
        Label as _, builder, initialise,
    },
};

use crate::kubernetes::Failure;

const SECONDS: Kind = Kind::Histogram(&[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05, 0.1, 0.5, 2.5, 10.0,
]);

metric_table! { pub(crate) const ALL:
    LEADER Gauge leader(is: bool) "quota_bridge_leader"
        "1 while this bridge publishes."
    NATS_CONNECTED Gauge nats_connected(is: bool) "quota_bridge_nats_connected"
        "1 while there is a connection to NATS."
    QUEUE_LINES Gauge queue_lines(lines: usize) "quota_bridge_queue_lines"
        "Lines that wait to be published."
    CLOCK_SKEW Gauge "quota_bridge_clock_skew_seconds"
        "By how much this clock is ahead of that of NATS."
    PUBLISH_DURATION SECONDS published(took: Duration) "quota_bridge_publish_duration_seconds"
        "How long a message took to be stored, with all attempts."
    PUBLISH_REFUSED Counter publish_refused() "quota_bridge_publish_refused_total"
        "Messages that the stream refused, since another one was before them."
    SUPPRESSED Counter suppressed() "quota_bridge_suppressed_total"
        "Events that changed nothing that counts."
    WATERMARK_AGE Gauge watermark_age[resource: &str](seconds: f64) "quota_bridge_watermark_age_seconds"
        "Age of the watermark of a kind."
    WATERMARKS_MISSING Gauge watermarks_missing(kinds: usize) "quota_bridge_watermarks_missing"
        "Watched kinds that have no watermark yet."
    LIMITED_KINDS Gauge limited_kinds(kinds: usize) "quota_bridge_limited_kinds"
        "Kinds that are needed only because quotas of the cluster limit their number."
    EVENTS Counter event[resource: &str]() "quota_bridge_events_total"
        "Events of watches."
    RELISTS Counter [resource: &str, outcome: &str] "quota_bridge_relists_total"
        "Finished lists: complete, or doubtful (probably incomplete)."
    WATCH_RESTARTS Counter watch_opened[resource: &str]() "quota_bridge_watch_restarts_total"
        "Watches that were opened."
    ERRORS Counter [resource: &str, code: &str] "quota_bridge_errors_total"
        "Failed requests, by HTTP status or kind of error."
    UNREADABLE Counter unreadable[resource: &str]() "quota_bridge_unreadable_total"
        "Unreadable objects: meanwhile nothing of their kind is ended."
    SHORTENED Counter shortened[resource: &str]() "quota_bridge_shortened_total"
        "Objects that were published without some of what they count for, since they are too long or unreadable."
    RELISTS_ASKED Counter relist_requested() "quota_bridge_relists_requested_total"
        "Requests of quotad for relists."
    GROUP_STATUS_WRITTEN Counter status_written() "quota_bridge_group_status_written_total"
        "Statuses of ClusterResourceQuotas that were written to the cluster."
}

/// Installs the recorder of this process.
///
/// # Errors
/// The process already has a recorder.
pub(crate) fn install() -> Result<PrometheusHandle, BuildError> {
    let handle = builder(ALL)?.install_recorder()?;
    initialise(ALL);
    for metric in ALL {
        if matches!(metric.kind, Gauge) && metric.labels.is_empty() {
            metric.record([], 0.0);
        }
    }
    Ok(handle)
}

/// Sets the number of nanoseconds by which this clock is ahead of that of NATS.
pub(crate) fn clock_skew(nanoseconds: i64) {
    CLOCK_SKEW.record([], nanoseconds as f64 / 1e9);
}

/// Counts a finished list.
pub(crate) fn relist(resource: &str, complete: bool) {
    let outcome = match complete {
        true => "complete",
        false => "doubtful",
    };
    RELISTS.record([resource.text(), outcome.into()], 1.0);
}

/// Counts a failed request.
pub(crate) fn error(resource: &str, failure: &Failure) {
    ERRORS.record([resource.text(), failure.label().into()], 1.0);
}

#[cfg(test)]
mod tests {
    use quota_service::metrics::Metric;
    use quota_testkit::docs::documented;

    use super::*;

    /// `UPDATE_DOCS=1` writes the list in docs/metrics.md anew.
    #[test]
    fn the_documented_list_is_this_table() {
        let list: String = ALL.iter().map(Metric::item).collect();
        documented("metrics.md", "quota-bridge", &list);
    }
}
