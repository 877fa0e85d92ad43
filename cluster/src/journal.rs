//! The journal of a leader: an entry is durable once the log holds it. The replica writes it, and syncs later.

use quota_journal::{Batch, Durable, Error, Journal};
use tokio::sync::oneshot;

use crate::{Handle, driver::Request, servers::LEAST_PAYLOAD};

/// Most bytes of a batch's entries: with what a message has besides them, servers have to take it.
pub const PAYLOAD_MAX: usize = LEAST_PAYLOAD as usize - 64 * 1024;

/// Batches are to be sealed at about so many bytes, so that the last decision of one, whatever it brings, still fits
/// into a message.
pub const BATCH_BYTES: usize = 2 * 1024 * 1024;

/// Appends each batch to the replicated log first, and to this node's replica once it stands there. A replica is never
/// ahead of the log.
pub struct ReplicatedJournal<J> {
    replica: J,
    handle: Option<Handle>,
    batch: Option<Batch>,
}

impl<J> ReplicatedJournal<J> {
    /// A journal that takes nothing before it is attached to a member.
    #[must_use]
    pub const fn new(replica: J) -> Self {
        Self {
            replica,
            handle: None,
            batch: None,
        }
    }

    /// From now on this member appends to the log. A batch that another left behind is dropped.
    pub fn attach(&mut self, handle: Handle) {
        self.handle = Some(handle);
        self.batch = None;
    }

    /// The replica: what others decided is appended there.
    pub const fn replica(&mut self) -> &mut J {
        &mut self.replica
    }

    /// The replica, to be closed.
    #[must_use]
    pub fn into_replica(self) -> J {
        self.replica
    }

    fn ask<T>(&self, request: impl FnOnce(oneshot::Sender<T>) -> Request) -> Result<T, Error> {
        let handle = self.handle.as_ref().ok_or(Error::Deposed)?;
        let (answer, answered) = oneshot::channel();
        let _ = handle.requests.send(request(answer));
        // It is dropped unanswered when this member is over.
        answered.blocking_recv().map_err(|_| Error::Deposed)
    }
}

impl<J: Journal> Journal for ReplicatedJournal<J> {
    /// Takes one batch: a message of the log is one batch.
    fn append(&mut self, batch: Batch) -> Result<(), Error> {
        if batch.payload.len() > PAYLOAD_MAX {
            return Err(Error::TooLarge {
                bytes: batch.payload.len(),
                limit: PAYLOAD_MAX,
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
        self.replica.write()
    }
}
