//! Faults of nodes and of the stream.

use quota_replication::protocol::{PendingPosition, Position};

use super::{super::process::Process, Event, NODES, Node, World, name};

impl World {
    pub(super) fn kill(&mut self, node: usize, down: u64) {
        let killed = &mut self.nodes[node];
        killed.process = None;
        killed.paused_until = 0;
        killed.pending = PendingPosition::default();
        self.after(down, Event::Start(node));
    }

    pub(super) fn fault(&mut self) {
        if !self.is_troubled() {
            self.stream.heal();
            for node in &mut self.nodes {
                (node.paused_until, node.cut_until, node.barred_until) = (0, 0, 0);
            }
            return;
        }
        let every = self.odds.fault_every;
        let next = 1 + self.random.below(every);
        self.after(next, Event::Fault);
        if self.odds.faults.is_empty() {
            return;
        }
        let node = usize::try_from(self.random.below(NODES as u64)).unwrap();
        let (now, span) = (self.now, self.random.below(5_000));
        match self.random.one_of(&self.odds.faults.clone()) {
            0 => {
                self.report.count("process killed");
                self.kill(node, 50 + span / 3);
            }
            1 => {
                self.report.count("position lost");
                self.nodes[node].position = Position::NOTHING;
                self.kill(node, 50);
            }
            2 => {
                self.report.count("process paused");
                self.nodes[node].paused_until = now + span;
            }
            3 => {
                self.report.count("stream leader changed");
                if self.stream.change_leader(now, &mut self.random) > 0 {
                    self.report.count("uncommitted tail lost");
                }
            }
            4 => {
                self.report.count("node cut off");
                self.nodes[node].cut_until = now + span;
                let with_server = self.random.chance(500);
                self.nodes[node].cut_off_with = with_server.then(|| self.stream.last());
            }
            5 => {
                self.stream.stale_until = now + span / 2;
            }
            6 => {
                self.report.count("power of a node lost");
                let written = self.nodes[node].replica.len();
                let unsynced = (written - self.nodes[node].synced) as u64;
                let lost = usize::try_from(self.random.below(unsynced + 1)).unwrap();
                if lost > 0 {
                    self.report.count("unsynced tail of a replica lost");
                }
                self.nodes[node].replica.truncate(written - lost);
                self.kill(node, 50 + span / 3);
                // Recovery syncs everything that it reads.
                self.nodes[node].synced = written - lost;
            }
            7 => {
                self.nodes[node].barred_until = now + span;
            }
            _ => {
                let leads = |node: &Node| node.process.as_ref().is_some_and(Process::leads);
                if let Some(leader) = self.nodes.iter_mut().find(|node| leads(node)) {
                    leader.process.as_mut().unwrap().hand_over(name(node));
                }
            }
        }
    }
}
