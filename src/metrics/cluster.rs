//! The metrics of a node of a cluster.

use std::time::Duration;

use ::metrics::{counter, gauge};
use quota_replication::{Counts, Role};

use super::{
    labels::{ClusterAppend, ClusterRole, Digest, Forwarded},
    record::pair,
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
    let roles = [
        ClusterRole::Starting,
        ClusterRole::Follower,
        ClusterRole::Candidate,
        ClusterRole::Leader,
    ];
    for each in roles {
        let is_it = f64::from(u8::from(each == role));
        gauge!(table::CLUSTER_ROLE.name, &[pair(each)]).set(is_it);
    }
    gauge!(table::CLUSTER_TERM.name).set(float(epoch));
    let age = age.map_or(f64::INFINITY, |age| age.as_secs_f64());
    gauge!(table::CLUSTER_REPLICA_AGE.name).set(age);
    gauge!(table::CLUSTER_IN_FLIGHT.name).set(in_flight.unwrap_or(Duration::ZERO));
    for (was, count) in [
        (ClusterAppend::Ambiguous, counts.ambiguous),
        (ClusterAppend::Resolved, counts.resolved),
        (ClusterAppend::FalselyRefused, counts.false_refusals),
        (ClusterAppend::Resent, counts.resent),
    ] {
        gauge!(table::CLUSTER_APPENDS.name, &[pair(was)]).set(float(count));
    }
}

/// This node has begun to lead.
pub fn cluster_term_began() {
    counter!(table::CLUSTER_TERMS_BEGUN.name).increment(1);
}

/// Another node has deposed this leader.
pub fn cluster_deposed() {
    counter!(table::CLUSTER_DEPOSED.name).increment(1);
}

/// How many milliseconds this node's clock is ahead of the servers'.
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
pub fn cluster_clock_skew(milliseconds: i64) {
    gauge!(table::CLUSTER_CLOCK_SKEW.name).set(milliseconds as f64 / 1_000.0);
}

/// The states of nodes were compared.
pub fn cluster_digest(outcome: Digest) {
    counter!(table::CLUSTER_DIGESTS.name, &[pair(outcome)]).increment(1);
}

/// The size and first message of the stream, as observed by the leader.
pub fn cluster_stream(bytes: u64, first: u64) {
    gauge!(table::CLUSTER_STREAM_BYTES.name).set(float(bytes));
    gauge!(table::CLUSTER_STREAM_FIRST.name).set(float(first));
}

/// The used share of the fullest server that holds the log.
pub fn cluster_storage_used(share: f64) {
    gauge!(table::CLUSTER_STORAGE_USED.name).set(share);
}

/// A request was forwarded to the leader.
pub fn cluster_forwarded(outcome: Forwarded) {
    counter!(table::CLUSTER_FORWARDED.name, &[pair(outcome)]).increment(1);
}

/// A gauge holds a float; sequences and counts stay exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn float(number: u64) -> f64 {
    number as f64
}
