//! Checks whether this node's state equals the state of the other nodes at the same entries.
//!
//! Chain hashes prove that all nodes have the same entries. Digests of the states prove that all nodes have derived the
//! same state from them; every node takes digests after the same batches.

use std::{collections::VecDeque, time::Duration};

use futures::future::join_all;
use parking_lot::Mutex;
use quota_client::wire::{ClusterNode, StateDigest};
use quota_journal::Hash;
use tokio::sync::mpsc;

use super::Cluster;
use crate::{metrics, writer::Marked};

/// Digests that are kept, since a node may be several digests behind another.
const KEPT: usize = 8;

/// How often the digests are compared.
const COMPARE: Duration = Duration::from_secs(5);

/// The digests of this node's states.
#[derive(Default)]
pub(super) struct Digests {
    own: Mutex<VecDeque<StateDigest>>,
    /// How this node's state differs; set until the node restarts.
    differs: Mutex<Option<String>>,
}

impl Digests {
    /// The latest digests, oldest first.
    pub(super) fn own(&self) -> Vec<StateDigest> {
        self.own.lock().iter().cloned().collect()
    }

    /// Why this node must neither lead nor answer reads, if its state differs from that of the other nodes.
    pub(super) fn differs(&self) -> Option<String> {
        self.differs.lock().clone()
    }

    fn keep(&self, digest: StateDigest) {
        let mut own = self.own.lock();
        if own.len() == KEPT {
            own.pop_front();
        }
        own.push_back(digest);
    }
}

/// The result of a comparison.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    /// No other node has a digest at the same entry.
    NotYet,
    /// All nodes that were compared have the same state at this entry.
    Same(u64),
    /// Another node has a different state at this entry, and this node's state is not shown to be the wrong one.
    OtherDiffers(u64, String),
    /// This node's state is wrong.
    OwnDiffers(u64, String),
}

/// Compares this node's digests with those of others at the newest entry for which another node has a digest as well.
/// This node is wrong if more nodes have a different digest than have its own, or equally many and one of them leads.
fn compare(version: &str, own: &[StateDigest], others: &[ClusterNode]) -> Compared {
    let others = || {
        let same_version = |node: &&ClusterNode| node.version.as_deref() == Some(version);
        others.iter().filter(same_version)
    };
    let at = |node: &ClusterNode, sequence: u64| {
        let mut digests = node.digests.iter();
        let found = digests.find(|digest| digest.sequence == sequence);
        found.map(|digest| digest.digest.clone())
    };
    let common = own.iter().rev().find_map(|own| {
        let theirs: Vec<_> =
            others().filter_map(|node| Some((node, at(node, own.sequence)?))).collect();
        (!theirs.is_empty()).then_some((own, theirs))
    });
    let Some((own, theirs)) = common else {
        return Compared::NotYet;
    };
    let (same, other): (Vec<_>, Vec<_>) =
        theirs.into_iter().partition(|(_, digest)| *digest == own.digest);
    let Some((node, _)) = other.first() else {
        return Compared::Same(own.sequence);
    };
    let leads = other.iter().any(|(node, _)| node.role == "leader");
    // This node counts as well.
    let of_own = same.len() + 1;
    let sequence = own.sequence;
    match other.len() > of_own || (other.len() == of_own && leads) {
        true => Compared::OwnDiffers(sequence, node.name.clone()),
        false => Compared::OtherDiffers(sequence, node.name.clone()),
    }
}

impl Cluster {
    /// Takes digests, and compares them with those of the other nodes while the ledger is open.
    pub(super) async fn compare_digests(self) {
        let settings = &self.0.settings;
        let Some(marked) = self.0.replica.mark(settings.digest_interval.span()) else {
            return std::future::pending().await;
        };
        tokio::join!(self.take_digests(marked), self.compare_with_others());
    }

    async fn take_digests(&self, mut marked: mpsc::Receiver<Marked>) {
        while let Some(Marked { sequence, image }) = marked.recv().await {
            let digest = tokio::task::spawn_blocking(move || image.digest()).await;
            let digest = match digest {
                Ok(digest) => digest,
                Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                Err(_) => return,
            };
            self.0
                .digests
                .keep(StateDigest { sequence, digest: Hash::from_bytes(digest).to_string() });
        }
    }

    async fn compare_with_others(&self) {
        let mut compared_at = 0;
        loop {
            tokio::time::sleep(COMPARE).await;
            if self.0.digests.differs().is_some() {
                // The node may have been about to lead when the difference was found.
                self.set_bar();
                self.step_down().await;
                continue;
            }
            let own = self.0.digests.own();
            let is_news = own.last().is_some_and(|last| last.sequence > compared_at);
            if !is_news {
                continue;
            }
            let others: Vec<_> = self.others().collect();
            let others = join_all(others.iter().map(|node| self.query(node))).await;
            match compare(super::VERSION, &own, &others) {
                Compared::NotYet => {}
                Compared::Same(sequence) => {
                    compared_at = sequence;
                    metrics::cluster_digest(metrics::Digest::Same);
                }
                Compared::OtherDiffers(sequence, node) => {
                    compared_at = sequence;
                    metrics::cluster_digest(metrics::Digest::OtherDiffers);
                    tracing::error!(sequence, %node, "the state of another node differs from this one's");
                }
                Compared::OwnDiffers(sequence, node) => {
                    metrics::cluster_digest(metrics::Digest::OwnDiffers);
                    self.stop_serving(sequence, &node).await;
                }
            }
        }
    }

    async fn stop_serving(&self, sequence: u64, node: &str) {
        let why = format!(
            "its state differs from that of {node} at entry {sequence}: start it again; if it differs again, empty its \
             data_dir, and it joins from another node"
        );
        tracing::error!(sequence, node, "this node stops serving: {why}");
        *self.0.digests.differs.lock() = Some(why);
        self.0.replica.bar();
        self.set_bar();
        self.step_down().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(sequence: u64, digest: &str) -> StateDigest {
        let digest = digest.to_owned();
        StateDigest { sequence, digest }
    }

    fn node(name: &str, role: &str, digests: &[StateDigest]) -> ClusterNode {
        ClusterNode {
            name: name.to_owned(),
            role: role.to_owned(),
            version: Some("1".to_owned()),
            digests: digests.to_vec(),
            ..ClusterNode::default()
        }
    }

    #[test]
    fn the_newest_entry_that_nodes_have_in_common_is_compared() {
        let own = [digest(10, "a"), digest(20, "b"), digest(30, "c")];
        let behind = node("b", "follower", &own[..2]);
        assert_eq!(compare("1", &own, &[]), Compared::NotYet);
        assert_eq!(compare("1", &own[2..], std::slice::from_ref(&behind)), Compared::NotYet);
        assert_eq!(compare("1", &own, std::slice::from_ref(&behind)), Compared::Same(20));
        // Another version may write the same state as different bytes.
        assert_eq!(compare("2", &own, &[behind]), Compared::NotYet);
    }

    #[test]
    fn the_node_is_wrong_that_differs_from_most_or_from_the_leader() {
        let (right, wrong) = ([digest(10, "a")], [digest(10, "x")]);
        let same = node("b", "follower", &right);
        let other = |role| node("c", role, &wrong);
        let differs = |own: bool| match own {
            true => Compared::OwnDiffers(10, "c".to_owned()),
            false => Compared::OtherDiffers(10, "c".to_owned()),
        };
        assert_eq!(compare("1", &right, &[same.clone(), other("leader")]), differs(false));
        assert_eq!(compare("1", &right, &[other("leader")]), differs(true));
        assert_eq!(compare("1", &right, &[other("follower")]), differs(false));
        let two = [other("follower"), other("follower")];
        assert_eq!(compare("1", &right, &two), differs(true));
        assert_eq!(compare("1", &wrong, &[same]), { Compared::OtherDiffers(10, "b".to_owned()) });
    }
}
