//! A replicated stream: a log whose leader may change, lose uncommitted messages, and be contradicted by its
//! predecessor.

use std::sync::Arc;

use planted::Bug;
use quota_replication::Reply;

use quota_simulation::Random;

/// The process that waits for a reply: its node, its life, and the sequence that it expected.
pub(crate) type Origin = (usize, u64, u64);

pub(crate) struct Stream {
    /// Message N is at N - 1.
    pub(crate) committed: Vec<Arc<[u8]>>,
    tail: Vec<(Arc<[u8]>, Option<Origin>)>,
    /// The term of the leader: commits of an earlier leader do not happen.
    pub(crate) term: u64,
    leaderless_until: u64,
    /// Until then a deposed leader also answers.
    pub(crate) stale_until: u64,
}

/// The result of a publish at the leader.
pub(crate) enum Arrived {
    /// No leader was there.
    Nobody,
    Refused(u64),
    Proposed,
}

impl Stream {
    pub(crate) fn new(genesis: Vec<u8>) -> Self {
        Self {
            committed: vec![genesis.into()],
            tail: Vec::new(),
            term: 1,
            leaderless_until: 0,
            stale_until: 0,
        }
    }

    pub(crate) fn last(&self) -> u64 {
        self.committed.len() as u64
    }

    pub(crate) fn arrives(&mut self, now: u64, bytes: Arc<[u8]>, origin: Origin) -> Arrived {
        if now < self.leaderless_until {
            return Arrived::Nobody;
        }
        let last = self.last() + self.tail.len() as u64;
        // These two bugs send no expected sequence.
        let checks = !planted::is(Bug::NoFence) && !planted::is(Bug::LeaseOnly);
        if checks && origin.2 != last {
            return Arrived::Refused(last);
        }
        self.tail.push((bytes, Some(origin)));
        Arrived::Proposed
    }

    /// Commits the first message of the tail; returns the recipient of the reply, and the sequence.
    pub(crate) fn commit(&mut self, term: u64) -> Option<(Origin, Reply)> {
        if term != self.term || self.tail.is_empty() {
            return None;
        }
        let (bytes, origin) = self.tail.remove(0);
        self.committed.push(bytes);
        origin.map(|origin| (origin, Reply::Stored(self.last())))
    }

    /// Changes the leader. The new one has some of the uncommitted messages, and commits those without replies. Returns
    /// the number of lost messages.
    pub(crate) fn change_leader(&mut self, now: u64, random: &mut Random) -> usize {
        self.term += 1;
        let kept = random.below(self.tail.len() as u64 + 1);
        let kept = usize::try_from(kept).unwrap_or(0);
        let lost = self.tail.split_off(kept).len();
        for (bytes, _) in self.tail.drain(..) {
            self.committed.push(bytes);
        }
        self.leaderless_until = now + random.below(3_000);
        self.stale_until = self.leaderless_until + random.below(2_000);
        lost
    }

    pub(crate) fn heal(&mut self) {
        self.leaderless_until = 0;
        self.stale_until = 0;
    }

    /// The messages that a replica that lags by some messages returns from a sequence on.
    pub(crate) fn read(&self, from: u64, lag: u64) -> Vec<(u64, Vec<u8>)> {
        let visible = self.last().saturating_sub(lag);
        let numbers = from..=visible.min(from + 255);
        let message = |number| {
            let at = usize::try_from(number - 1).ok()?;
            Some((number, self.committed.get(at)?.to_vec()))
        };
        numbers.filter_map(message).collect()
    }
}
