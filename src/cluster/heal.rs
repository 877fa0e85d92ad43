//! A stream that is gone, or that has lost what was acknowledged, is made anew from a node that has it all.

use futures::future::join_all;
use quota_cluster::stream;
use quota_journal::Durable;
use quota_replication::LedgerId;

use super::{AHEAD, Cluster, Error, checks};

/// Why the stream is not made anew.
#[derive(Debug, thiserror::Error)]
pub enum Refused {
    /// This node was never part of the cluster.
    #[error("this node has no replica")]
    NoReplica,
    /// Whoever asks has to show that he means this ledger.
    #[error("to make the stream of the ledger {0} anew, confirm its id")]
    Unconfirmed(LedgerId),
    /// The stream has all that this node has.
    #[error("the stream is there, and lacks nothing that this node has")]
    NotNeeded,
    /// What the stream has is not what this node has.
    #[error(
        "the stream has entry {0}, and this node has not the same there: making it anew here would lose entries"
    )]
    Diverged(u64),
    /// Another node may have more.
    #[error(
        "{0} does not answer: start it, or name it as lost, with all that it has and this node has not"
    )]
    Silent(String),
    /// A node that was named as lost.
    #[error("{0} was named as lost, and answers")]
    NotLost(String),
    /// Another node leads.
    #[error("{0} leads")]
    Led(String),
    /// Another node has more.
    #[error("{node} has entries up to {theirs}, and this node up to {own}: heal there")]
    HasMore {
        /// The node.
        node: String,
        /// Its last entry.
        theirs: u64,
        /// This node's last entry.
        own: u64,
    },
}

impl Cluster {
    /// Makes the stream anew, behind all that this node has: other nodes join, or go on if they have the same.
    ///
    /// # Errors
    /// [`Error::Healing`]: it is not needed, or something might be lost; [`Error::Unfit`], [`Error::Stream`].
    pub async fn heal(&self, confirmed: &str, lost: &[String]) -> Result<LedgerId, Error> {
        let shared = &self.0;
        let _one = shared.transfer.lock().await;
        let place = shared.place.read().ok().flatten();
        let id = place.and_then(|place| place.ledger);
        let id = id.ok_or(Refused::NoReplica)?;
        if confirmed.parse() != Ok(id) {
            return Err(Refused::Unconfirmed(id).into());
        }
        let end = shared.ledger.durable();
        let is_there = match stream::look(&shared.client, &shared.names).await {
            Ok(_) => true,
            Err(stream::Error::Missing(_)) => false,
            Err(error) => return Err(error.into()),
        };
        if is_there {
            self.has_all_of_stream()?;
        }
        self.has_most(end, lost).await?;
        checks::servers(&shared.settings, true)
            .await
            .map_err(Error::Unfit)?;
        let begin = (&self.identity(), id, end);
        let replicas = shared.settings.replicas;
        if is_there {
            stream::delete(&shared.client, &shared.names).await?;
        }
        stream::initialise(&shared.client, &shared.names, replicas, begin).await?;
        tracing::warn!(ledger = %id, sequence = end.sequence, "the stream was made anew from this node's replica");
        Ok(id)
    }

    /// The stream has ended before this node's replica, and the replica holds all of it.
    fn has_all_of_stream(&self) -> Result<(), Refused> {
        let member = self.member().ok_or(Refused::NotNeeded)?;
        let read = member.status.borrow().end;
        if self.view().ahead.is_none_or(|since| since < AHEAD) {
            return Err(Refused::NotNeeded);
        }
        let diverged = Refused::Diverged(read.sequence);
        if read.sequence == 0 {
            return Ok(());
        }
        let mut batches = self.0.reader.batches(read.sequence);
        match batches.next_batch() {
            Some(Ok(batch)) if batch.to_stored().end() == read => Ok(()),
            _ => Err(diverged),
        }
    }

    /// No other node has more, or may have.
    async fn has_most(&self, end: Durable, lost: &[String]) -> Result<(), Refused> {
        let others: Vec<_> = self.others().collect();
        for node in join_all(others.iter().map(|node| self.ask(node))).await {
            let name = node.name.clone();
            match (node.replica, lost.contains(&name)) {
                (None, true) => {}
                (None, false) => return Err(Refused::Silent(name)),
                (Some(_), true) => return Err(Refused::NotLost(name)),
                (Some(_), false) if node.role == "leader" => return Err(Refused::Led(name)),
                (Some(replica), false) if replica.sequence > end.sequence => {
                    return Err(Refused::HasMore {
                        node: name,
                        theirs: replica.sequence,
                        own: end.sequence,
                    });
                }
                (Some(_), false) => {}
            }
        }
        Ok(())
    }
}
