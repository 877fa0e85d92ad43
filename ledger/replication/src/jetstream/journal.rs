//! The journal of a leader: an entry is durable once it is in the log. The replica writes it, and syncs later.

use quota_journal::{Batch, Durable, Error, Journal};
use tokio::sync::oneshot;

use crate::jetstream::{Handle, driver::Request, servers::LEAST_PAYLOAD};

/// Most bytes of a batch's entries: together with the rest of the message they have to fit into `max_payload`.
pub const PAYLOAD_MAX: usize = LEAST_PAYLOAD as usize - 64 * 1024;

/// Batches are sealed at about this many bytes, so that any last decision of a batch still fits into the message.
pub const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Appends each batch to the replicated log first, and to this node's replica once it is in the log. A replica is never
/// ahead of the log.
pub struct ReplicatedJournal<J> {
    replica: J,
    handle: Option<Handle>,
    batch: Option<Batch>,
}

impl<J> ReplicatedJournal<J> {
    /// A journal that accepts no batches before it is attached to a member.
    pub const fn new(replica: J) -> Self {
        Self { replica, handle: None, batch: None }
    }

    /// Attaches the journal to the log, since this member leads from now on. A batch that an earlier member left is
    /// dropped.
    pub fn attach(&mut self, handle: Handle) {
        self.handle = Some(handle);
        self.batch = None;
    }

    /// The replica, to which batches of other members are appended.
    pub const fn replica(&mut self) -> &mut J {
        &mut self.replica
    }

    /// The replica, to be closed.
    pub fn into_replica(self) -> J {
        self.replica
    }

    fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Error> {
        let handle = self.handle.as_ref().ok_or(Error::Deposed)?;
        let (answer, answered) = oneshot::channel();
        let _ = handle.requests.send(request(answer));
        // The request is dropped without an answer when this member has stopped.
        answered.blocking_recv().map_err(|_| Error::Deposed)
    }
}

impl<J: Journal> Journal for ReplicatedJournal<J> {
    /// Takes one batch, which becomes one message of the log.
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.payload.len() > PAYLOAD_MAX {
            return Err(Error::TooLarge { bytes: batch.payload.len(), limit: PAYLOAD_MAX });
        }
        if self.batch.is_some() {
            return Err(Error::OutOfOrder { why: "a batch is waiting for its sync".to_owned() });
        }
        self.batch = Some(batch);
        Ok(())
    }

    /// Waits until the batch is in the log, for any time. Without a batch it waits until no other member can lead:
    /// answers without an entry may be out of date before.
    fn sync(&mut self) -> Result<Durable, Error> {
        if let Some(batch) = self.batch.take() {
            let stored = self.ask(|stored| Request::Propose(batch, stored))?;
            self.replica.append(stored.batch)?;
        } else {
            self.ask(Request::Confirm)?;
        }
        self.replica.write()
    }
}
