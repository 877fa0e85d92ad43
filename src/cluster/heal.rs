//! A stream that is gone, or that has lost what was acknowledged, is made anew from a node that has it all.

use std::time::Instant;

use futures::future::join_all;
use quota_cluster::{
    stream::{self, Found},
    tail,
};
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
    /// The stream was made anew by another node, perhaps, and this node reads the one before.
    #[error("the stream was made at {0}, and this node does not read that one yet: try again")]
    OtherStream(String),
    /// The stream has messages that this node has not read.
    #[error(
        "the stream ends at message {last}, and this node has read up to {read}: making it anew could lose what is between"
    )]
    Unread {
        /// The last message.
        last: u64,
        /// The last that this node has read.
        read: u64,
    },
    /// Somebody writes to the stream, or makes it anew.
    #[error("the stream has changed meanwhile: see `quotactl cluster status`, and try again")]
    Changed,
    /// Another node makes the stream anew.
    #[error("{0} makes the stream anew, or has begun to less than two minutes ago")]
    Claimed(String),
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
        // An empty one was made, and the ledger not begun in it: by a node that ended then, or whose servers did not answer
        // in time. Only one beginning is stored there, so it needs no claim.
        let found = self.found().await?.filter(|found| found.last > 0);
        if let Some(found) = &found {
            self.has_all_of_stream(found).await?;
        }
        self.has_most(end, lost).await?;
        checks::servers(&shared.settings, true)
            .await
            .map_err(Error::Unfit)?;
        let begin = (&self.identity(), id, end);
        let replicas = shared.settings.replicas;
        if let Some(found) = &found {
            // Servers delete without a condition. So this node claims the stream first, as it was found, and others refuse to
            // touch one that is claimed.
            let claimed_at = Instant::now();
            if !tail::claim(&shared.client, &shared.names, found, &shared.claimant).await? {
                return Err(Refused::Changed.into());
            }
            let now = self.found().await?;
            is_claimed(found, now.as_ref())?;
            if claimed_at.elapsed() > tail::REMOVABLE {
                return Err(Refused::Changed.into());
            }
            stream::delete(&shared.client, &shared.names).await?;
        }
        stream::initialise(&shared.client, &shared.names, replicas, begin).await?;
        tracing::warn!(ledger = %id, sequence = end.sequence, "the stream was made anew from this node's replica");
        Ok(id)
    }

    /// The stream as it is, if there is one.
    async fn found(&self) -> Result<Option<Found>, stream::Error> {
        match stream::look(&self.0.client, &self.0.names).await {
            Ok(found) => Ok(Some(found)),
            Err(stream::Error::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The stream has ended before this node's replica, and the replica holds all of it.
    async fn has_all_of_stream(&self, found: &Found) -> Result<(), Error> {
        let not_followed = || Refused::OtherStream(found.created.clone());
        let member = self.member().ok_or_else(not_followed)?;
        if self.view().ahead.is_none_or(|since| since < AHEAD) {
            return Err(Refused::NotNeeded.into());
        }
        let position = member.status.borrow().stream;
        is_read(found, &self.0.followed.lock(), position)?;
        let tail = tail::read(&self.0.client, &self.0.names, found).await?;
        // Its own is that of an attempt that failed, which goes on here.
        let others = |claimant: &String| *claimant != self.0.claimant;
        if let Some(node) = tail.claimed_by.filter(others) {
            return Err(Refused::Claimed(node).into());
        }
        // An empty one holds nothing.
        match tail.end.filter(|end| !self.has(end)) {
            Some(end) => Err(Refused::Diverged(end.sequence).into()),
            None => Ok(()),
        }
    }

    /// Whether the replica has this position.
    fn has(&self, position: &Durable) -> bool {
        if position.sequence == 0 {
            return *position == Durable::NOTHING;
        }
        let mut batches = self.0.reader.batches(position.sequence);
        let batch = batches.next_batch();
        batch.is_some_and(|batch| batch.is_ok_and(|batch| batch.to_stored().end() == *position))
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

/// The stream is the one that was made at `followed`, and it has nothing behind message `read`.
fn is_read(found: &Found, followed: &str, read: u64) -> Result<(), Refused> {
    if found.created != followed {
        return Err(Refused::OtherStream(found.created.clone()));
    }
    match found.last {
        last if last > read => Err(Refused::Unread { last, read }),
        _ => Ok(()),
    }
}

/// The stream is there still, the same one, and nothing was added but the claim.
fn is_claimed(before: &Found, now: Option<&Found>) -> Result<(), Refused> {
    match now {
        Some(now) if now.created == before.created && now.last == before.last + 1 => Ok(()),
        _ => Err(Refused::Changed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(created: &str, last: u64) -> Found {
        Found {
            created: created.to_owned(),
            last,
            ..Found::default()
        }
    }

    #[test]
    fn a_stream_is_deleted_only_if_all_of_it_was_read_and_it_is_the_same_still() {
        let found = stream("monday", 7);
        assert!(is_read(&found, "monday", 7).is_ok());
        // It has lost what came behind message 7.
        assert!(is_read(&found, "monday", 9).is_ok());
        let unread = is_read(&found, "monday", 6);
        assert!(matches!(unread, Err(Refused::Unread { last: 7, read: 6 })));
        let other = is_read(&found, "sunday", 7);
        assert!(matches!(other, Err(Refused::OtherStream(_))));

        assert!(is_claimed(&found, Some(&stream("monday", 8))).is_ok());
        let others = [stream("monday", 9), stream("tuesday", 8)];
        for now in others.iter().map(Some).chain([None]) {
            let changed = is_claimed(&found, now);
            assert!(matches!(changed, Err(Refused::Changed)), "{now:?}");
        }
    }
}
