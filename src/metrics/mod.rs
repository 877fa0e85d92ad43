//! Metrics: one table lists them, one function per metric records it.

mod cluster;
mod domain;
mod groups;
mod labels;
mod process;
mod quotas;
mod record;
mod requests;
pub mod table;
mod text;

#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

use ::metrics::{counter, gauge};
use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder, PrometheusHandle};
use parking_lot::RwLock;

pub use cluster::{
    cluster, cluster_clock_skew, cluster_deposed, cluster_digest, cluster_forwarded,
    cluster_storage_used, cluster_stream, cluster_term_began,
};
pub use domain::{recorded, refused};
pub use labels::{
    AuditEvent, AuthRefusal, CheckpointPlace, ClusterAppend, ClusterRole, Correction,
    CorrectionCause, Decision, Digest, Forwarded, Label, Limit, Listener, Operation, Outcome, Part,
    Rejection, RelistRequest, Relisted, ReservationState, Source, StateLock,
};
pub use quotas::{QuotaSample, QuotaSource, ResourceSample};
pub use record::*;
pub use requests::{decision_duration, decisions, http_request, state_lock};

/// The label value for everything without a series of its own.
const OTHER: &str = "_other_";

/// Renders `/metrics`.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    handle: PrometheusHandle,
    quotas: OnceLock<Box<dyn QuotaSource>>,
    before_scrape: RwLock<Vec<Box<dyn Fn() + Send + Sync>>>,
    series: usize,
}

/// Installs the recorder of this process, and sets every counter with a closed set of labels to 0, so that rates
/// include the first event.
///
/// # Errors
/// This process has a recorder already.
pub fn install(series: usize) -> Result<Metrics, BuildError> {
    let handle = builder()?.install_recorder()?;
    initialise();
    Ok(Metrics(Arc::new(Inner {
        handle,
        quotas: OnceLock::new(),
        before_scrape: RwLock::default(),
        series,
    })))
}

fn builder() -> Result<PrometheusBuilder, BuildError> {
    let mut builder = PrometheusBuilder::new();
    for metric in table::ALL {
        if let table::Kind::Histogram(buckets) = metric.kind {
            builder =
                builder.set_buckets_for_metric(Matcher::Full(metric.name.to_owned()), buckets)?;
        }
    }
    Ok(builder)
}

fn initialise() {
    for metric in table::ALL {
        match metric.kind {
            table::Kind::Counter => ::metrics::describe_counter!(metric.name, metric.help),
            table::Kind::Gauge => ::metrics::describe_gauge!(metric.name, metric.help),
            table::Kind::Histogram(_) => ::metrics::describe_histogram!(metric.name, metric.help),
        }
        let is_read_at_scrape = metric.name.starts_with("process_");
        if matches!(metric.kind, table::Kind::Counter) && !is_read_at_scrape {
            for labels in combinations(metric.labels) {
                counter!(metric.name, &labels).absolute(0);
            }
        }
    }
    gauge!(table::POISONED.name).set(0.0);
    let revision = env!("BUILD_COMMIT");
    let version = env!("CARGO_PKG_VERSION");
    gauge!(table::BUILD_INFO.name, "version" => version, "revision" => revision).set(1.0);
}

/// Every combination of label values; none if a label has an open set of values.
fn combinations(labels: &[table::LabelKey]) -> Vec<Vec<(&'static str, &'static str)>> {
    labels.iter().fold(vec![Vec::new()], |shorter, label| {
        let longer = |labels: &Vec<_>| {
            let labels = labels.clone();
            label.values.iter().map(move |value| {
                let mut labels = labels.clone();
                labels.push((label.name, *value));
                labels
            })
        };
        shorter.iter().flat_map(longer).collect()
    })
}

impl Metrics {
    /// Sets the source of quotas, once; later calls change nothing.
    pub fn set_quotas(&self, source: impl QuotaSource + 'static) {
        let _ = self.0.quotas.set(Box::new(source));
    }

    /// Registers a function that sets time-dependent metrics, such as ages, at each scrape.
    pub fn before_scrape(&self, set: impl Fn() + Send + Sync + 'static) {
        self.0.before_scrape.write().push(Box::new(set));
    }

    /// All metrics in the Prometheus text format, version 0.0.4. Takes time in proportion to the
    /// number of quotas, so call it where blocking is allowed.
    #[must_use]
    pub fn render(&self) -> String {
        self.0.before_scrape.read().iter().for_each(|set| set());
        let mut text = self.0.handle.render();
        if let Some(source) = self.0.quotas.get() {
            let left = quotas::render(&mut text, source.as_ref(), self.0.series);
            groups::render(&mut text, source.as_ref(), left);
        }
        process::render(&mut text);
        text
    }

    /// Moves recorded samples into the histograms; to be called every few seconds, since samples are kept in memory
    /// until then.
    pub fn run_upkeep(&self) {
        self.0.handle.run_upkeep();
    }
}
