//! The syncing thread: makes batches durable, then lets the answers go.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use crossbeam_channel::{Receiver, Sender};
use quota_ledger::{
    codec,
    journal::{self, Durable, Error, Journal},
};
use tokio::sync::{broadcast, watch};

use super::{Batch, decider::Closed};

pub(super) struct Syncer {
    pub(super) journal: Box<dyn Journal>,
    pub(super) batches: Receiver<Closed>,
    pub(super) idle: Sender<()>,
    pub(super) durable: watch::Sender<Durable>,
    pub(super) watchers: broadcast::Sender<Batch>,
    pub(super) stopped: Arc<AtomicBool>,
}

impl Syncer {
    /// Runs until the decider is gone, or a write or fsync fails.
    pub(super) fn run(mut self, failed: impl FnOnce(&Error)) -> Result<Box<dyn Journal>, Error> {
        while let Ok(closed) = self.batches.recv() {
            let durable = match self.make_durable(&closed) {
                Ok(durable) => durable,
                Err(error) => {
                    // The answers are dropped unsent: nobody may learn of what may be lost.
                    self.stopped.store(true, Ordering::Release);
                    failed(&error);
                    return Err(error);
                }
            };
            // The decider may go on while the answers leave.
            let _ = self.idle.try_send(());
            self.publish(closed, durable);
        }
        Ok(self.journal)
    }

    fn make_durable(&mut self, closed: &Closed) -> Result<Durable, Error> {
        let (Some(first), Some(last)) = (closed.entries.first(), closed.entries.last()) else {
            return Ok(*self.durable.borrow());
        };
        self.journal.append(journal::Batch {
            first_sequence: first.sequence,
            count: u32::try_from(closed.entries.len()).unwrap_or(u32::MAX),
            time: last.time,
            payload: codec::encode_entries(&closed.entries),
        })?;
        self.journal.sync()
    }

    fn publish(&self, closed: Closed, durable: Durable) {
        if !closed.entries.is_empty() {
            self.durable.send_replace(durable);
            if self.watchers.receiver_count() > 0 {
                let _ = self.watchers.send(Arc::new(closed.entries));
            }
        }
        for answer in closed.answers {
            answer(&durable);
        }
    }
}
