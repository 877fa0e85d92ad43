//! Makes the stream anew, after its loss or the loss of acknowledged messages, from a node that has all entries.

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
    /// The caller has to confirm the id of the ledger.
    #[error("to recreate the stream of the ledger {0}, confirm its id")]
    Unconfirmed(LedgerId),
    /// The stream has all entries of this node.
    #[error("the stream is there, and lacks nothing that this node has")]
    NotNeeded,
    /// Another node may have made the stream anew, and this node still reads the old one.
    #[error("the stream was made at {0}, and this node does not read that one yet: try again")]
    OtherStream(String),
    /// The stream has messages that this node has not read.
    #[error(
        "the stream ends at message {last}, and this node has read up to {read}: recreating the stream could lose the messages between"
    )]
    Unread {
        /// The last message.
        last: u64,
        /// The last message that this node has read.
        read: u64,
    },
    /// Another client writes to the stream, or makes it anew.
    #[error("the stream has changed meanwhile: see `quotactl cluster status`, and try again")]
    Changed,
    /// Another node makes the stream anew.
    #[error("{0} is recreating the stream, or began to less than two minutes ago")]
    Claimed(String),
    /// The stream's entries differ from those of this node.
    #[error(
        "the stream has entry {0}, and this node has another one there: recreating the stream from this node would lose entries"
    )]
    Diverged(u64),
    /// Another node may have more entries.
    #[error(
        "{0} does not answer: start it, or name it as lost, with all that it has and this node has not"
    )]
    Silent(String),
    /// A node that was named as lost answers.
    #[error("{0} was named as lost, and answers")]
    NotLost(String),
    /// Another node leads.
    #[error("{0} leads")]
    Led(String),
    /// Another node has more entries.
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
    /// Makes the stream anew after all entries of this node: other nodes join, or go on if they have the same entries.
    ///
    /// # Errors
    /// [`Error::Healing`]: not needed, or entries might be lost; [`Error::Unfit`], [`Error::Stream`].
    pub async fn heal(&self, confirmed: &str, lost: &[String]) -> Result<LedgerId, Error> {
        let shared = &self.0;
        let _one = shared.transfer.lock().await;
        let bookmark = shared.bookmark_file.read().ok().flatten();
        let id = bookmark.and_then(|bookmark| bookmark.ledger);
        let id = id.ok_or(Refused::NoReplica)?;
        if confirmed.parse() != Ok(id) {
            return Err(Refused::Unconfirmed(id).into());
        }
        let end = shared.ledger.durable();
        // An empty stream was made and the ledger not begun in it, by a node that ended then, or whose servers did not
        // answer in time. Only one beginning can be stored there, so it needs no claim.
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
            // Servers cannot delete a stream conditionally. So this node first claims the stream as found, and other
            // nodes refuse to touch a claimed stream.
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
        tracing::warn!(ledger = %id, sequence = end.sequence, "the stream was recreated from this node's replica");
        Ok(id)
    }

    /// The current stream, if there is one.
    async fn found(&self) -> Result<Option<Found>, stream::Error> {
        match stream::look(&self.0.client, &self.0.names).await {
            Ok(found) => Ok(Some(found)),
            Err(stream::Error::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Checks that the stream ends before this node's replica, and that the replica holds all of it.
    async fn has_all_of_stream(&self, found: &Found) -> Result<(), Error> {
        let not_followed = || Refused::OtherStream(found.created.clone());
        let member = self.member().ok_or_else(not_followed)?;
        if self.view().ahead.is_none_or(|since| since < AHEAD) {
            return Err(Refused::NotNeeded.into());
        }
        let position = member.status.borrow().stream;
        is_read(found, &self.0.followed.lock(), position)?;
        let tail = tail::read(&self.0.client, &self.0.names, found).await?;
        // A claim by this node remains from a failed attempt, which continues here.
        let others = |claimant: &String| *claimant != self.0.claimant;
        if let Some(node) = tail.claimed_by.filter(others) {
            return Err(Refused::Claimed(node).into());
        }
        // An empty stream holds nothing.
        let has = |end: &Durable| matches!(self.0.reader.has(end), Ok(true));
        match tail.end.filter(|end| !has(end)) {
            Some(end) => Err(Refused::Diverged(end.sequence).into()),
            None => Ok(()),
        }
    }

    /// Checks that no other node has, or may have, more entries.
    async fn has_most(&self, end: Durable, lost: &[String]) -> Result<(), Refused> {
        let others: Vec<_> = self.others().collect();
        for node in join_all(others.iter().map(|node| self.query(node))).await {
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

/// Checks that the stream is the one made at `followed`, and that it has no messages after `read`.
fn is_read(found: &Found, followed: &str, read: u64) -> Result<(), Refused> {
    if found.created != followed {
        return Err(Refused::OtherStream(found.created.clone()));
    }
    match found.last {
        last if last > read => Err(Refused::Unread { last, read }),
        _ => Ok(()),
    }
}

/// Checks that the stream is still the same one, and that only the claim was added.
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
        // The stream has lost the messages after 7.
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
