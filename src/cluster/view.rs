//! How a node stands in its cluster.

use std::time::Duration;

use quota_journal::Durable;
use quota_replication::{Counts, LedgerId, NodeName, Role};

use super::Cluster;

/// How a node stands in its cluster.
#[derive(Clone, Debug)]
pub struct View {
    /// Its role; none while it has none yet.
    pub role: Option<Role>,
    /// The ledger, once its first message was read.
    pub ledger: Option<LedgerId>,
    /// The term of the leader; 0: there has been none.
    pub epoch: u64,
    /// Who leads, as far as this node has read; while the lead is given away, to whom.
    pub leader: Option<NodeName>,
    /// The last message of the stream that it has applied.
    pub stream: u64,
    /// Where its replica ends.
    pub end: Durable,
    /// The replica held all that the log held so long ago; zero for a leader within its lease. None: never yet.
    pub age: Option<Duration>,
    /// For how long an append has been on its way.
    pub in_flight: Option<Duration>,
    /// Up to this message of the stream its replica is durable, and that is written down.
    pub noted: u64,
    /// For how long its replica has had entries that were not found in the stream, or the stream has ended before what was
    /// read of it.
    pub ahead: Option<Duration>,
    /// What has happened since it began.
    pub counts: Counts,
}

impl View {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let end = cluster.0.ledger.durable();
        let Some(member) = cluster.member() else {
            return Self {
                role: None,
                ledger: None,
                epoch: 0,
                leader: None,
                stream: 0,
                end,
                age: None,
                in_flight: None,
                noted: 0,
                ahead: None,
                counts: Counts::default(),
            };
        };
        let short_since = *cluster.0.short_since.lock();
        let short = short_since.map(|since| since.elapsed());
        let status = member.status.borrow();
        let now = member.clock.now();
        let since = |then: u64| Duration::from_millis(now.saturating_sub(then));
        let leads = status.role == Role::Leader && now < status.lease_until;
        Self {
            role: Some(status.role),
            ledger: status.ledger,
            epoch: status.leader.as_ref().map_or(0, |leader| leader.epoch),
            leader: status
                .leader
                .as_ref()
                .map(|leader| leader.handed_to.as_ref().unwrap_or(&leader.node).clone()),
            stream: status.stream,
            end,
            age: match leads {
                true => Some(Duration::ZERO),
                false => status.caught_up.map(since),
            },
            in_flight: status.in_flight_since.map(since),
            noted: status.noted,
            ahead: status.ahead_since.map(since).max(short),
            counts: status.counts,
        }
    }

    /// Its role in a word.
    #[must_use]
    pub(crate) const fn role_name(&self) -> &'static str {
        match self.role {
            Some(Role::Leader) => "leader",
            Some(Role::Candidate) => "candidate",
            Some(Role::Follower) => "follower",
            Some(Role::Over) | None => "starting",
        }
    }
}
