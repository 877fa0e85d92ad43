//! Metrics: one table lists them, and makes the functions that record them.

mod quotas;
pub mod table;

#[cfg(test)]
mod tests;

use std::{
    cell::RefCell,
    fs,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::Method;
use metrics::{Counter, Histogram};
use metrics_exporter_prometheus::{BuildError, PrometheusHandle};
use parking_lot::RwLock;
use quota_core::{
    decide::Refusal,
    event::{Entry, Event},
    state::End,
};
use quota_replication::{
    jetstream::servers::Condition,
    protocol::{Counts, Role},
};
use quota_service::metrics::{Label as _, Metric, builder};

pub(crate) use quotas::largest_share;
pub use quotas::{QuotaSource, RoomFigure};
use quotas::{head, sample};
use table::DecisionReason;
pub use table::*;

use crate::problem::{Reason, of_refusal};

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
            let groups = quotas::ChosenGroups::new(source, self.0.series, &mut kinds);
            let left = quotas::render(&mut text, source, groups.left, &mut kinds);
            let left = quotas::render_groups(&mut text, source, &groups, left);
            quotas::render_room(&mut text, source, left);
            kinds.render(&mut text);
        }
        render_process(&mut text);
        text
    }

    /// Moves recorded samples into the histograms; to be called every few seconds, since samples are kept in memory
    /// until then.
    pub fn run_upkeep(&self) {
        self.0.handle.run_upkeep();
    }
}

// Functions that record several metrics, or one in its own way.

/// One batch became durable: how long that took, its fsync alone, and how many entries it has.
pub fn ledger_batch(append: Duration, fsync: Duration, entries: u64) {
    table::LEDGER_APPEND_DURATION.record([], append);
    table::LEDGER_FSYNC_DURATION.record([], fsync);
    table::LEDGER_BATCH_ENTRIES.record([], entries);
}

/// How far the stream's consumption lags.
pub fn stream_lag(messages: u64, age: Duration) {
    table::STREAM_LAG_MESSAGES.record([], messages);
    table::STREAM_LAG.record([], age);
}

/// A snapshot of the state at this sequence was stored, at this time (seconds since 1970).
pub fn snapshot_stored(took: Duration, sequence: u64, at_seconds: u64) {
    table::SNAPSHOT_DURATION.record([], took);
    table::SNAPSHOT_LAST_SEQUENCE.record([], sequence);
    table::SNAPSHOT_LAST_SUCCESS.record([], at_seconds);
}

/// A compaction ended well, at this time (seconds since 1970).
pub fn compaction_done(took: Duration, removed_entries: u64, at_seconds: u64) {
    table::COMPACTION_DURATION.record([], took);
    table::COMPACTION_REMOVED.record([], removed_entries);
    table::COMPACTION_LAST_SUCCESS.record([], at_seconds);
}

/// The free bytes on the disk, and whether they are too few.
pub fn disk(free: u64, low: bool) {
    table::DISK_FREE.record([], free);
    table::DISK_LOW.record([], low);
}

/// A connection was opened; it counts until the guard is dropped.
pub fn http_connection(listener: Listener) -> impl Drop + Send {
    struct Open(::metrics::Gauge);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.decrement(1.0);
        }
    }
    let open = table::HTTP_CONNECTIONS.gauge([listener.text()]);
    open.increment(1.0);
    Open(open)
}

/// When the webhook's certificate expires, in seconds since 1970.
pub fn certificate_expiration(seconds: i64) {
    table::CERTIFICATE_EXPIRATION.record([], u64::try_from(seconds).unwrap_or(0));
}

/// Counts how reservations ended, from durable entries.
pub fn recorded(entries: &[Entry]) {
    let mut counts = ENDS.map(|end| (end, 0));
    for end in entries.iter().filter_map(|entry| ended(&entry.event)) {
        let counter = counts.iter_mut().find(|(outcome, _)| *outcome == end);
        counter.into_iter().for_each(|(_, count)| *count += 1);
    }
    for (end, count) in counts.into_iter().filter(|(_, count)| *count > 0) {
        reservation_outcomes(Outcome::from(end), count);
    }
}

/// Every way in which a reservation can end.
const ENDS: [End; 6] =
    [End::Observed, End::Committed, End::Released, End::Expired, End::Superseded, End::Returned];

fn ended(event: &Event) -> Option<End> {
    match event {
        Event::ObjectObserved(object) | Event::ObjectReplaced(object) => {
            object.ends_reservation.then_some(End::Observed)
        }
        Event::ObjectCorrected(correction) => {
            let ends = correction.object.ends_reservation;
            ends.then_some(End::Observed)
        }
        Event::ObjectRefreshed { ends_reservation, .. } => {
            ends_reservation.then_some(End::Observed)
        }
        Event::ReservationCommitted { .. } => Some(End::Committed),
        Event::ReservationReturned { .. } => Some(End::Returned),
        Event::ReservationReleased { .. } => Some(End::Released),
        Event::ReservationExpired { .. } => Some(End::Expired),
        Event::ReservationSuperseded { .. } => Some(End::Superseded),
        _ => None,
    }
}

/// Counts a refusal, and the limit that it hit, if any.
pub fn refused(refusal: &Refusal) {
    decisions(Decision::Denied, Some(of_refusal(refusal)));
    if let Some(limit) = Limit::hit_by(refusal) {
        limit_reached(limit);
    }
}

impl Limit {
    /// The limit that caused a refusal, if any.
    pub fn hit_by(refusal: &Refusal) -> Option<Self> {
        match refusal {
            Refusal::TooManyPending { limit, .. } | Refusal::LimitReached { limit, .. } => {
                Self::ALL.iter().copied().find(|limited| limited.value() == *limit)
            }
            Refusal::InvalidTtl { .. } => Some(Self::MaxTtl),
            _ => None,
        }
    }
}

impl From<End> for Outcome {
    fn from(end: End) -> Self {
        match end {
            End::Observed => Self::Observed,
            End::Committed => Self::Committed,
            End::Released => Self::Released,
            End::Expired => Self::Expired,
            End::Superseded => Self::Superseded,
            End::Returned => Self::Returned,
        }
    }
}

/// Sets the role of this node, the term of the leader, the age of the replica, how long an append has been pending, and
/// the counts of unusual appends.
pub fn cluster(
    role: Option<Role>,
    term: u64,
    age: Option<Duration>,
    in_flight: Option<Duration>,
    counts: Counts,
) {
    let role = match role {
        Some(Role::Leader) => ClusterRole::Leader,
        Some(Role::Candidate) => ClusterRole::Candidate,
        Some(Role::Follower) => ClusterRole::Follower,
        Some(Role::Over) | None => ClusterRole::Starting,
    };
    for each in ClusterRole::ALL {
        table::CLUSTER_ROLE.record([each.text()], *each == role);
    }
    table::CLUSTER_TERM.record([], term);
    let age = age.map_or(f64::INFINITY, |age| age.as_secs_f64());
    table::CLUSTER_REPLICA_AGE.record([], age);
    table::CLUSTER_IN_FLIGHT.record([], in_flight.unwrap_or(Duration::ZERO));
    for (was, count) in [
        (ClusterAppend::Ambiguous, counts.ambiguous),
        (ClusterAppend::Resolved, counts.resolved),
        (ClusterAppend::FalselyRefused, counts.false_refusals),
        (ClusterAppend::Resent, counts.resent),
    ] {
        table::CLUSTER_APPENDS.record([was.text()], count);
    }
}

/// How many servers of the log are in which condition.
pub fn cluster_servers<'a>(conditions: impl Iterator<Item = &'a Condition>) {
    let places = conditions.map(|condition| match condition {
        Condition::Healthy => LogServer::Healthy,
        Condition::Unhealthy(_) | Condition::Apart => LogServer::Unhealthy,
        Condition::Unreachable => LogServer::Unreachable,
    });
    let places: Vec<_> = places.collect();
    for each in LogServer::ALL {
        let count = places.iter().filter(|place| *place == each).count() as u64;
        table::CLUSTER_SERVERS.record([each.text()], count);
    }
}

/// How many milliseconds this node's clock is ahead of the other nodes'.
pub fn cluster_clock_skew(milliseconds: i64) {
    table::CLUSTER_CLOCK_SKEW.record([], milliseconds as f64 / 1_000.0);
}

/// The size and first message of the stream, as observed by the leader.
pub fn cluster_stream(bytes: u64, first: u64) {
    table::CLUSTER_STREAM_BYTES.record([], bytes);
    table::CLUSTER_STREAM_FIRST.record([], first);
}

// Metrics of requests: the most frequent ones, so each thread caches its series.

const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A map of few entries, searched linearly: names and labels need not be hashed.
struct Few<K, M>(Vec<(K, M)>);

/// The series of one route.
struct Route {
    duration: Histogram,
    /// The counters by method and status code.
    answers: Few<(&'static str, u16), Counter>,
}

thread_local! {
    /// The series by route: as many as the router has routes.
    static ROUTES: RefCell<Few<String, Route>> = RefCell::default();
    static DECISIONS: RefCell<Few<(Decision, Option<Reason>), Counter>> = RefCell::default();
    static DURATIONS: RefCell<Few<Operation, Histogram>> = RefCell::default();
    static LOCKS: RefCell<Few<StateLock, Histogram>> = RefCell::default();
}

/// Counts a decision; without a reason the request was granted.
pub fn decisions(decision: Decision, reason: Option<Reason>) {
    let make = || table::DECISIONS.counter([decision.text(), DecisionReason(reason).text()]);
    DECISIONS.with_borrow_mut(|series| series.of((decision, reason), make).increment(1));
}

/// How long a command took, from its arrival to its answer.
pub fn decision_duration(operation: Operation, took: Duration) {
    let make = || table::DECISION_DURATION.histogram([operation.text()]);
    DURATIONS.with_borrow_mut(|series| series.of(operation, make).record(took));
}

/// How long the state's lock was held.
pub fn state_lock(by: StateLock, held: Duration) {
    let make = || table::STATE_LOCK.histogram([by.text()]);
    LOCKS.with_borrow_mut(|series| series.of(by, make).record(held));
}

/// A request was answered. The route is the matched one, so that the number of series is bounded.
pub fn http_request(route: &str, method: &Method, code: u16, took: Duration) {
    let method = METHODS.into_iter().find(|listed| *listed == method.as_str()).unwrap_or(OTHER);
    ROUTES.with_borrow_mut(|routes| {
        let series = routes.of(route, || Route::new(route));
        series.answered(route, method, code, took);
    });
}

impl<K, M> Default for Few<K, M> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<K, M> Few<K, M> {
    fn of<Q>(&mut self, key: Q, make: impl FnOnce() -> M) -> &mut M
    where
        K: PartialEq<Q>,
        Q: Into<K>,
    {
        let existing = self.0.iter().position(|(candidate, _)| *candidate == key);
        let place = existing.unwrap_or_else(|| {
            self.0.push((key.into(), make()));
            self.0.len() - 1
        });
        &mut self.0[place].1
    }
}

impl Route {
    fn new(route: &str) -> Self {
        Self {
            duration: table::HTTP_REQUEST_DURATION.histogram([route.text()]),
            answers: Few::default(),
        }
    }

    fn answered(&mut self, route: &str, method: &'static str, code: u16, took: Duration) {
        self.duration.record(took);
        let make = || {
            let labels = [route.text(), method.into(), code.to_string().into()];
            table::HTTP_REQUESTS.counter(labels)
        };
        self.answers.of((method, code), make).increment(1);
    }
}

// `process_*`, with the names of all Prometheus client libraries, from `/proc/self`.

/// Linux reports times in hundredths of a second on every architecture (`USER_HZ`).
const TICKS_PER_SECOND: f64 = 100.0;

/// Writes the values that can be read, and leaves out the others.
fn render_process(text: &mut String) {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The second field is the program's name in parentheses and may hold anything.
    let fields: Vec<&str> = stat
        .rsplit_once(')')
        .map(|(_, rest)| rest.split_whitespace().collect())
        .unwrap_or_default();
    let field = |number: usize| fields.get(number - 3).and_then(|text| text.parse::<f64>().ok());
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS_PER_SECOND);
    let started = field(22).zip(boot_time()).map(|(ticks, boot)| boot + ticks / TICKS_PER_SECOND);
    let numbers = [
        (&table::PROCESS_CPU, cpu),
        (&table::PROCESS_START_TIME, started),
        (&table::PROCESS_THREADS, field(20)),
        (&table::PROCESS_VIRTUAL_MEMORY, field(23)),
        (&table::PROCESS_RESIDENT_MEMORY, resident_memory()),
        (&table::PROCESS_OPEN_FDS, open_fds()),
        (&table::PROCESS_MAX_FDS, max_fds()),
    ];
    for (metric, number) in numbers {
        write(text, metric, number);
    }
}

fn write(text: &mut String, metric: &Metric, number: Option<f64>) {
    if let Some(number) = number {
        head(text, metric);
        sample(text, metric, &[], number);
    }
}

fn boot_time() -> Option<f64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn resident_memory() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let number: f64 = kibibytes.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(number * 1024.0)
}

fn open_fds() -> Option<f64> {
    let count = u32::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()?;
    // Without the descriptor that lists the directory.
    Some(f64::from(count.saturating_sub(1)))
}

fn max_fds() -> Option<f64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}
