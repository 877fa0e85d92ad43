//! Metrics: one table lists them, and makes the functions that record them.

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

use metrics_exporter_prometheus::{BuildError, PrometheusHandle};
use parking_lot::RwLock;
use quota_service::metrics::{Metric, builder};

pub use labels::{
    AuditEvent, AuthRefusal, CheckpointPlace, ClusterAppend, ClusterRole, Correction,
    CorrectionCause, Decision, Digest, Forwarded, Limit, Listener, LogServer, Operation, Outcome,
    Part, Rejection, RelistRequest, Relisted, ReservationState, Source, StateLock,
};
pub(crate) use quotas::largest_share;
pub use quotas::{QuotaSource, RoomFigure};
pub use record::*;
pub use requests::{decision_duration, decisions, http_request, state_lock};
pub use table::*;

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
    let handle = builder(table::ALL)?.install_recorder()?;
    initialise();
    Ok(Metrics(Arc::new(Inner {
        handle,
        quotas: OnceLock::new(),
        before_scrape: RwLock::default(),
        series,
    })))
}

fn initialise() {
    // Those of the process are read at each scrape instead.
    let is_recorded = |metric: &&Metric| !metric.name.starts_with("process_");
    quota_service::metrics::initialise(table::ALL.iter().filter(is_recorded));
    build_info(env!("CARGO_PKG_VERSION"), env!("BUILD_COMMIT"));
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
    pub fn render(&self) -> String {
        self.0.before_scrape.read().iter().for_each(|set| set());
        let mut text = self.0.handle.render();
        if let Some(source) = self.0.quotas.get() {
            let source = source.as_ref();
            let mut kinds = quotas::NotReportedKinds::default();
            let groups = groups::ChosenGroups::new(source, self.0.series, &mut kinds);
            let left = quotas::render(&mut text, source, groups.left, &mut kinds);
            let left = groups::render(&mut text, source, &groups, left);
            quotas::render_room(&mut text, source, left);
            kinds.render(&mut text);
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
