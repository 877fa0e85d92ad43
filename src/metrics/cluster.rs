//! The metrics of a node of a cluster.

use std::time::Duration;

use quota_replication::jetstream::servers::Condition;
use quota_replication::protocol::{Counts, Role};
use quota_service::metrics::Label as _;

use super::{
    labels::{ClusterAppend, ClusterRole, LogServer},
    table,
};

/// Sets the role of this node, the term of the leader, the age of the replica, how long an append has been pending, and
/// the counts of unusual appends.
pub fn cluster(
    role: Option<Role>,
    epoch: u64,
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
    table::CLUSTER_TERM.record([], epoch);
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
