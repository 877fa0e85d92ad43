//! The journal of a leader: durable is what stands in the log, and then in the replica.

use quota_journal::{Batch, Durable, Error, Journal, MAX_PAYLOAD_BYTES};
use tokio::sync::oneshot;

use crate::{Handle, driver::Request};

/// Appends each batch to the replicated log first, and to this node's replica once it stands there. A replica is never
/// ahead of the log.
pub struct ReplicatedJournal<J> {
    replica: J,
    handle: Handle,
    batch: Option<Batch>,
}

impl<J> ReplicatedJournal<J> {
    /// The journal of a member.
    #[must_use]
    pub const fn new(replica: J, handle: Handle) -> Self {
        Self {
            replica,
            handle,
            batch: None,
        }
    }

    /// The replica: what others decided is appended there.
    pub const fn replica(&mut self) -> &mut J {
        &mut self.replica
    }

    fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Error> {
        let (answer, answered) = oneshot::channel();
        let _ = self.handle.requests.send(request(answer));
        // It is dropped unanswered when this member is over.
        answered.blocking_recv().map_err(|_| Error::Deposed)
    }
}

impl<J: Journal> Journal for ReplicatedJournal<J> {
    /// Takes one batch: a message of the log is one batch.
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.payload.len() > MAX_PAYLOAD_BYTES / 4 {
            return Err(Error::TooLarge {
                bytes: batch.payload.len(),
                limit: MAX_PAYLOAD_BYTES / 4,
            });
        }
        if self.batch.is_some() {
            return Err(Error::OutOfOrder {
                why: "a batch is waiting for its sync".to_owned(),
            });
        }
        self.batch = Some(batch);
        Ok(())
    }

    /// Waits until the batch stands in the log, as long as that takes. Without a batch it waits until nobody else can
    /// lead: answers that rest on no entry may be out of date before.
    fn sync(&mut self) -> Result<Durable, Error> {
        if let Some(batch) = self.batch.take() {
            let stored = self.ask(|stored| Request::Propose(batch, stored))?;
            self.replica.append(stored.batch)?;
        } else {
            self.ask(Request::Confirm)?;
        }
        self.replica.sync()
    }
}
