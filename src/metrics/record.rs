//! Functions that record several metrics, or one in its own way.

use std::time::Duration;

use quota_core::{
    decide::Refusal,
    event::{Entry, Event},
    state::End,
};
use quota_replication::{
    jetstream::servers::Condition,
    protocol::{Counts, Role},
};
use quota_service::metrics::Label as _;

use super::{
    Decision, Limit, Outcome, decisions,
    labels::{ClusterAppend, ClusterRole, Listener, LogServer},
    limit_reached, reservation_outcomes, table,
};
use crate::reason::of_refusal;

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
