//! What a loss of power leaves of a replica: all that was synced, and any part of what was only written.

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::{
    scratch, states_are_the_same,
    support::{
        PATIENCE,
        cluster::NODES,
        nodes::{Nodes, Part, Setup},
        quotad::{Quotad, agent, with_config},
    },
    wait_until,
};

const PODS: &str = "/v1/namespaces/shop/reservations";
const QUOTA: &str = "/v1/namespaces/shop/quotas/all";

/// Grants of which each is a batch of its own.
const GRANTS: usize = 6;

/// What becomes of the first batch that was not synced. Those behind it are as they were written.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Lost,
    Cut,
    Garbled,
}

#[test]
fn a_node_whose_unsynced_tail_is_torn_follows_again_and_one_that_is_damaged_before_does_not() {
    let directory = scratch();
    let mut cluster = Nodes::start(directory.path(), Setup::default());
    let manifest = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "all", "namespace": "shop"},
        "spec": {"hard": {"pods": "1000000"}}
    });
    let put = agent(PATIENCE).put(format!("{}{QUOTA}", cluster.daemon(0).api));
    assert_eq!(put.send_json(manifest).unwrap().status(), 201);
    let mut granted = 0;
    for harm in [Harm::Lost, Harm::Cut, Harm::Garbled] {
        for is_leader in [true, false] {
            let leader = cluster.leader();
            let harmed = match is_leader {
                true => leader,
                false => (leader + 1) % NODES,
            };
            let tail = loop {
                grant(&cluster, &mut granted);
                cluster.kill(Part::Node(harmed));
                let log = Log::read(&cluster.home(harmed).join("data"));
                if log.unsynced().len() > 1 {
                    break log;
                }
                // It was synced in the moment before.
                cluster.start_node(harmed);
                cluster.wait_until_same();
            };
            tail.harm(harm);
            let before = repairs(&cluster, harmed);
            cluster.start_node(harmed);
            assert_eq!(repairs(&cluster, harmed), before + 1);
            wait_until("it has caught up", || cluster.daemon(harmed).is_ready());
            cluster.wait_until_same();
            for node in 0..NODES {
                let reserved = &cluster.daemon(node).get(QUOTA)["status"]["reserved"]["pods"];
                assert_eq!(
                    *reserved,
                    granted.to_string(),
                    "{harm:?} at n{harmed}, seen at n{node}"
                );
            }
        }
    }

    let harmed = (cluster.leader() + 1) % NODES;
    wait_until("all is synced", || {
        Log::read(&cluster.home(harmed).join("data")).unsynced().is_empty()
    });
    cluster.kill(Part::Node(harmed));
    let log = Log::read(&cluster.home(harmed).join("data"));
    let last = log.frames.last().unwrap();
    log.flip(last.at);
    let home = cluster.home(harmed);
    let mut command = with_config(&home);
    command.arg("--config").arg(home.join("quotad.toml"));
    let ended = Quotad::try_start(&home, &mut command).err().unwrap();
    assert_eq!(ended.status.code(), Some(4), "{ended:?}");
    log.flip(last.at);
    cluster.start_node(harmed);
    let end = cluster.wait_until_same();
    states_are_the_same(&mut cluster, end);
}

/// How often a node has said that it found a torn write.
fn repairs(cluster: &Nodes, node: usize) -> usize {
    let said = std::fs::read_to_string(cluster.home(node).join("quotad.log")).unwrap();
    said.matches("a torn write after sequence").count()
}

/// Some grants one after the other, each by any node.
fn grant(cluster: &Nodes, granted: &mut usize) {
    for _ in 0..GRANTS {
        *granted += 1;
        let uid = format!("pod-{granted}");
        let body = json!({
            "reservedBy": {"apiVersion": "v1", "kind": "Pod", "name": uid, "uid": uid},
            "reserved": {"pods": "1"}, "ttl": "10m"
        });
        let api = &cluster.daemon(*granted % NODES).api;
        let answer = agent(PATIENCE).post(format!("{api}{PODS}")).send_json(body);
        assert_eq!(answer.unwrap().status(), 201);
    }
}

/// The segment that a node wrote to last, and what it knew to be synced.
struct Log {
    file: PathBuf,
    frames: Vec<Frame>,
    synced: u64,
}

struct Frame {
    at: usize,
    length: usize,
    first: u64,
}

impl Log {
    /// As docs/storage-format.md says.
    fn read(data: &Path) -> Self {
        let anchor = std::fs::read(data.join("anchor")).unwrap();
        let number =
            |bytes: &[u8], at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        let synced = number(&anchor, 12).max(number(&anchor, 512 + 12));
        let segments = std::fs::read_dir(data.join("log")).unwrap();
        let segments = segments.map(|entry| entry.unwrap().path());
        let file = segments.filter(|path| path.extension().is_some_and(|it| it == "log")).max();
        let file = file.unwrap();
        let bytes = std::fs::read(&file).unwrap();
        let is_frame = |at: &usize| bytes.get(*at..*at + 3) == Some(b"QLF");
        let mut frames = Vec::new();
        let mut next = (0..bytes.len()).find(is_frame);
        while let Some(at) = next.filter(is_frame) {
            let payload = u32::from_le_bytes(bytes[at + 12..at + 16].try_into().unwrap());
            let length = 36 + usize::try_from(payload).unwrap() + 32;
            let first = number(&bytes, at + 20);
            frames.push(Frame { at, length, first });
            next = Some(at + length);
        }
        Self { file, frames, synced }
    }

    fn unsynced(&self) -> &[Frame] {
        let synced = self.frames.partition_point(|frame| frame.first <= self.synced);
        &self.frames[synced..]
    }

    fn harm(&self, harm: Harm) {
        let Frame { at, length, .. } = self.unsynced()[0];
        let lost = match harm {
            Harm::Lost => at,
            Harm::Cut => at + length / 2,
            Harm::Garbled => return self.flip(at + length / 2),
        };
        let mut bytes = std::fs::read(&self.file).unwrap();
        bytes[lost..at + length].fill(0);
        std::fs::write(&self.file, bytes).unwrap();
    }

    fn flip(&self, at: usize) {
        let mut bytes = std::fs::read(&self.file).unwrap();
        bytes[at] ^= 0xff;
        std::fs::write(&self.file, bytes).unwrap();
    }
}
