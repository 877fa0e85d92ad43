//! The status of a node in its cluster.

use std::time::Duration;

use quota_journal::Durable;
use quota_replication::protocol::{Counts, LedgerId, NodeName, Role};

use super::{AHEAD, Cluster};

/// The status of a node in its cluster.
#[derive(Clone, Debug)]
pub struct View {
    /// The node's role; none before it has one.
    pub role: Option<Role>,
    /// The ledger, once its first message was read.
    pub ledger: Option<LedgerId>,
    /// The term of the leader; 0 if there has been none.
    pub epoch: u64,
    /// The leader, as far as this node has read; during a handover, the target node.
    pub leader: Option<NodeName>,
    /// The last message of the stream that the node has applied.
    pub stream: u64,
    /// The end of the node's replica.
    pub end: Durable,
    /// How long ago the replica held everything that the log held; zero for a leader within its lease, none if never.
    pub age: Option<Duration>,
    /// For how long an append has been pending.
    pub in_flight: Option<Duration>,
    /// The persisted position in the stream up to which the replica is durable.
    pub noted: u64,
    /// For how long the replica has had entries that the stream lacks, or the stream has ended before the position that
    /// the node has read.
    pub ahead: Option<Duration>,
    /// Event counts since the start.
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
                false => status.current.map(since),
            },
            in_flight: status.in_flight_since.map(since),
            noted: status.noted,
            ahead: status.ahead_since.map(since).max(short),
            counts: status.counts,
        }
    }

    /// Why the servers are taken to have lost what they acknowledged; none if the stream has what this node has.
    pub(super) fn stream_loss(&self) -> Option<String> {
        let end = self.end.sequence;
        self.ahead.filter(|since| *since > AHEAD).map(|_| {
            format!(
                "the stream lacks the end of what this node has up to entry {end}: the servers have \
                 lost what they acknowledged (`quotactl cluster heal`)"
            )
        })
    }

    /// The role as one word.
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
