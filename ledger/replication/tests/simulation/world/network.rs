//! Messages between nodes and the stream, which may be lost, delayed, or duplicated.

use std::sync::Arc;

use quota_journal::{Durable, StoredBatch};
use quota_replication::protocol::Reply;

use super::{
    super::{
        account::Checked,
        stream::{Arrived, Origin},
    },
    Event, World,
};

impl World {
    pub(super) fn is_cut(&self, node: usize) -> bool {
        self.nodes[node].cut_until > self.now
    }

    pub(super) fn loses(&mut self) -> bool {
        self.is_troubled() && self.random.chance(self.odds.lost)
    }

    pub(super) fn publish(&mut self, bytes: Arc<[u8]>, origin: Origin) {
        if self.is_cut(origin.0) || self.loses() {
            return self.report.count("publish lost");
        }
        if self.stream.stale_until > self.now && self.random.chance(500) {
            // The server may name any number: one behind, or one ahead of what will ever be committed.
            self.report.count("refused by a deposed server");
            let last = self.random.below(self.stream.last() + 3);
            let delay = self.delay();
            self.after(delay, Event::Reply(origin, Reply::Refused(Some(last))));
            if self.random.chance(200) {
                return;
            }
        }
        let mut delay = self.delay();
        if self.is_troubled() && self.random.chance(self.odds.late) {
            self.report.count("publish late");
            delay += self.random.below(5_000);
        }
        if self.is_troubled() && self.random.chance(self.odds.twice) {
            self.report.count("publish delivered twice");
            let later = delay + self.random.below(3_000);
            self.after(later, Event::Publish(bytes.clone(), origin));
        }
        self.after(delay, Event::Publish(bytes, origin));
    }

    pub(super) fn arrives(&mut self, bytes: Arc<[u8]>, origin: Origin) -> Checked {
        let delay = self.delay();
        match self.stream.arrives(self.now, bytes, origin) {
            Arrived::Nobody => {
                if self.random.chance(500) {
                    self.reply(origin, Reply::Unknown);
                }
            }
            Arrived::Refused(last) => self.reply(origin, Reply::Refused(Some(last))),
            Arrived::Proposed => {
                let is_slow = self.is_troubled() && self.random.chance(self.odds.late);
                let more = if is_slow { self.random.below(3_000) } else { 0 };
                self.after(delay + more, Event::Commit(self.stream.term));
            }
        }
        Ok(())
    }

    pub(super) fn commits(&mut self, term: u64) -> Checked {
        if let Some((origin, reply)) = self.stream.commit(self.now, term) {
            self.reply(origin, reply);
        }
        Ok(())
    }

    fn reply(&mut self, origin: Origin, reply: Reply) {
        if self.is_cut(origin.0) || self.loses() {
            return self.report.count("acknowledgement lost");
        }
        let mut delay = self.delay();
        if self.is_troubled() && self.random.chance(self.odds.late) {
            delay += self.random.below(4_000);
        }
        self.after(delay, Event::Reply(origin, reply));
    }

    pub(super) fn reads(
        &mut self,
        node: usize,
        life: u64,
        from: u64,
        is_answered: bool,
    ) -> Checked {
        let lags = self.is_troubled() && self.random.chance(300);
        let lag = if lags { self.random.below(4) } else { 0 };
        let mut last = self.stream.last().saturating_sub(lag);
        if self.is_cut(node)
            && let Some(end) = self.nodes[node].cut_off_with
        {
            last = end;
            self.report.count("read from a server that is cut off");
        }
        let messages = is_answered.then(|| self.stream.read(from, last));
        self.with(node, life, |process, now| {
            process.member.read(now, messages.as_deref());
        })?;
        // At random times the position is to be stored, and at random times the replica is synced.
        let is_noted = self.random.chance(100);
        let is_synced = self.random.chance(100);
        let node = &mut self.nodes[node];
        if is_noted
            && let Some(process) = &node.process
            && process.member.in_flight_since().is_none()
        {
            node.pending.set(process.member.position());
        }
        if is_synced {
            node.synced = node.replica.len();
        }
        let synced = node.replica[..node.synced].last();
        let synced = synced.map_or(Durable::NOTHING, StoredBatch::end);
        if let Some(position) = node.pending.due(&synced) {
            node.position = position;
        }
        Ok(())
    }
}
