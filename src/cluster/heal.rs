//! Makes the stream anew, after its loss or the loss of acknowledged messages, from a node that has all entries.

use std::time::Instant;

use futures::future::join_all;
use quota_journal::Durable;
use quota_replication::{
    jetstream::stream::{self, Found},
    protocol::LedgerId,
};

use super::{AHEAD, Cluster, Error, checks};

impl Cluster {
    /// Makes the stream anew after all entries of this node: other nodes join, or go on if they have the same entries.
    ///
    /// # Errors
    /// [`Error::Refused`]: not needed, or entries might be lost, or the servers or the stream are not fit for a ledger.
    pub async fn heal(&self, confirmed: &str, lost: &[String]) -> Result<LedgerId, Error> {
        let shared = &self.0;
        let _one = shared.transfer.lock().await;
        let position = shared.position_file.read().ok().flatten();
        let id = position.and_then(|position| position.ledger);
        let id = id.ok_or_else(|| refused("this node has no replica"))?;
        if confirmed.parse() != Ok(id) {
            return Err(refused(format!(
                "to recreate the stream of the ledger {id}, confirm its id"
            )));
        }
        let end = shared.ledger.durable();
        if let Some(why) = self.server_apart().await {
            return Err(refused(why));
        }
        // An empty stream was made and the ledger not begun in it, by a node that ended then, or whose servers did not
        // answer in time. Only one beginning can be stored there, so it needs no claim.
        let found = self.found().await?.filter(|found| found.last > 0);
        if let Some(found) = &found {
            self.has_all_of_stream(found).await?;
        }
        self.has_most(end, lost).await?;
        checks::servers(&shared.settings, true).await.map_err(Error::Refused)?;
        let begin = (&self.identity(), id, end);
        let replicas = shared.settings.replicas;
        if let Some(found) = &found {
            // Servers cannot delete a stream conditionally. So this node first claims the stream as found, and other
            // nodes refuse to touch a claimed stream.
            let claimed_at = Instant::now();
            if !stream::claim(&shared.client, &shared.names, found, &shared.claimant).await? {
                return Err(changed());
            }
            let now = self.found().await?;
            is_claimed(found, now.as_ref())?;
            if claimed_at.elapsed() > stream::REMOVABLE {
                return Err(changed());
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
        let member = self.member().ok_or_else(|| not_followed(found))?;
        if self.view().ahead.is_none_or(|since| since < AHEAD) {
            return Err(refused("the stream is there, and lacks nothing that this node has"));
        }
        let position = member.status.borrow().stream;
        is_read(found, &self.0.followed.lock(), position)?;
        let tail = stream::read(&self.0.client, &self.0.names, found).await?;
        // A claim by this node remains from a failed attempt, which continues here.
        let others = |claimant: &String| *claimant != self.0.claimant;
        if let Some(node) = tail.claimed_by.filter(others) {
            return Err(refused(format!(
                "{node} is recreating the stream, or began to less than two minutes ago"
            )));
        }
        // An empty stream holds nothing.
        let has = |end: &Durable| matches!(self.0.reader.has(end), Ok(true));
        match tail.end.filter(|end| !has(end)) {
            Some(end) => Err(refused(format!(
                "the stream has entry {}, and this node has another one there: recreating the stream from this node \
                 would lose entries",
                end.sequence
            ))),
            None => Ok(()),
        }
    }

    /// Checks that no other node has, or may have, more entries.
    async fn has_most(&self, end: Durable, lost: &[String]) -> Result<(), Error> {
        let others: Vec<_> = self.others().collect();
        for node in join_all(others.iter().map(|node| self.query(node))).await {
            let name = node.name;
            let why = match (node.replica, lost.contains(&name)) {
                (None, true) => continue,
                (None, false) => format!(
                    "{name} does not answer: start it, or name it as lost, with all that it has and this node has not"
                ),
                (Some(_), true) => format!("{name} was named as lost, and answers"),
                (Some(_), false) if node.role == "leader" => format!("{name} leads"),
                (Some(replica), false) if replica.sequence > end.sequence => format!(
                    "{name} has entries up to {}, and this node up to {}: heal there",
                    replica.sequence, end.sequence
                ),
                (Some(_), false) => continue,
            };
            return Err(refused(why));
        }
        Ok(())
    }
}

fn refused(why: impl Into<String>) -> Error {
    Error::Refused(why.into())
}

/// Another node may have made the stream anew, and this node still reads the old one.
fn not_followed(found: &Found) -> Error {
    refused(format!(
        "the stream was made at {}, and this node does not read that one yet: try again",
        found.created
    ))
}

/// The stream was written to, recreated or removed since this node looked at it, or this node was too slow to be sure that it
/// was not.
fn changed() -> Error {
    refused("the stream has changed meanwhile: see `quotactl cluster status`, and try again")
}

/// Checks that the stream is the one made at `followed`, and that it has no messages after `read`.
fn is_read(found: &Found, followed: &str, read: u64) -> Result<(), Error> {
    if found.created != followed {
        return Err(not_followed(found));
    }
    match found.last {
        last if last > read => Err(refused(format!(
            "the stream ends at message {last}, and this node has read up to {read}: recreating the stream could lose \
             the messages between"
        ))),
        _ => Ok(()),
    }
}

/// Checks that the stream is still the same one, and that only the claim was added.
fn is_claimed(before: &Found, now: Option<&Found>) -> Result<(), Error> {
    match now {
        Some(now) if now.created == before.created && now.last == before.last.saturating_add(1) => {
            Ok(())
        }
        _ => Err(changed()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(created: &str, last: u64) -> Found {
        Found { created: created.to_owned(), last, ..Found::default() }
    }

    #[test]
    fn a_stream_is_deleted_only_if_all_of_it_was_read_and_it_is_the_same_still() {
        let found = stream("monday", 7);
        assert!(is_read(&found, "monday", 7).is_ok());
        // The stream has lost the messages after 7.
        assert!(is_read(&found, "monday", 9).is_ok());
        let unread = is_read(&found, "monday", 6).unwrap_err().to_string();
        assert!(unread.contains("message 7") && unread.contains("up to 6"));
        let other = is_read(&found, "sunday", 7).unwrap_err().to_string();
        assert!(other.contains("was made at monday"), "{other}");

        assert!(is_claimed(&found, Some(&stream("monday", 8))).is_ok());
        let others = [stream("monday", 9), stream("tuesday", 8)];
        for now in others.iter().map(Some).chain([None]) {
            let refused = is_claimed(&found, now).unwrap_err();
            assert_eq!(refused.to_string(), changed().to_string(), "{now:?}");
        }
    }
}
