//! A replicated stream: a log whose leader may change, lose uncommitted messages, and be contradicted by its
//! predecessor.

use std::sync::Arc;

use quota_replication::protocol::{Reply, Stored};

use quota_testkit::simulation::Random;

/// The process that waits for a reply: its node, its life, and the sequence that it expected.
pub(crate) type Origin = (usize, u64, u64);

pub(crate) struct Stream {
    /// The messages with the times at which they were stored. Message N is at N - 1.
    pub(crate) committed: Vec<(u64, Arc<[u8]>)>,
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
            committed: vec![(0, genesis.into())],
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
        if origin.2 != last {
            return Arrived::Refused(last);
        }
        self.tail.push((bytes, Some(origin)));
        Arrived::Proposed
    }

    /// Commits the first message of the tail; returns the recipient of the reply, and the sequence.
    pub(crate) fn commit(&mut self, now: u64, term: u64) -> Option<(Origin, Reply)> {
        if term != self.term || self.tail.is_empty() {
            return None;
        }
        let (bytes, origin) = self.tail.remove(0);
        self.committed.push((now, bytes));
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
            self.committed.push((now, bytes));
        }
        self.leaderless_until = now + random.below(3_000);
        self.stale_until = self.leaderless_until + random.below(2_000);
        lost
    }

    pub(crate) fn heal(&mut self) {
        self.leaderless_until = 0;
        self.stale_until = 0;
    }

    /// The messages that a replica that ends with `last` returns from a sequence on.
    pub(crate) fn read(&self, from: u64, last: u64) -> Vec<Stored> {
        let numbers = from..=last.min(from + 255);
        let message = |sequence| {
            let place = usize::try_from(sequence - 1).ok()?;
            let (at, bytes) = self.committed.get(place)?;
            Some(Stored { sequence, at: Some(*at), bytes: bytes.to_vec() })
        };
        numbers.filter_map(message).collect()
    }

    /// Whether a replica that has applied the messages up to `applied` lacks one that was stored before a time.
    pub(crate) fn lacks(&self, applied: u64, time: u64) -> bool {
        let next = usize::try_from(applied).ok();
        let next = next.and_then(|next| self.committed.get(next));
        next.is_some_and(|(at, _)| *at < time)
    }
}
