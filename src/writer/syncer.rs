//! The syncing thread: makes batches durable, then lets the answers go.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Instant;

use crossbeam_channel::{Receiver, Sender};
use quota_ledger::{
    codec,
    journal::{self, Durable, Error, Journal},
};
use tokio::sync::{broadcast, watch};

use super::{Batch, decider::Closed};
use crate::metrics;

pub(super) struct Syncer<J> {
    pub(super) journal: J,
    pub(super) batches: Receiver<Closed>,
    pub(super) idle: Sender<()>,
    pub(super) durable: watch::Sender<Durable>,
    pub(super) watchers: broadcast::Sender<Batch>,
    pub(super) stopped: Arc<AtomicBool>,
}

impl<J: Journal> Syncer<J> {
    /// Runs until the decider is gone, or a write or fsync fails.
    pub(super) fn run(mut self, failed: impl FnOnce(&Error)) -> Result<J, Error> {
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
        let started = Instant::now();
        self.journal.append(journal::Batch {
            first_sequence: first.sequence,
            count: u32::try_from(closed.entries.len()).unwrap_or(u32::MAX),
            time: last.time,
            payload: codec::encode_entries(&closed.entries),
        })?;
        let written = Instant::now();
        let durable = self.journal.sync()?;
        metrics::ledger_batch(
            started.elapsed(),
            written.elapsed(),
            closed.entries.len() as u64,
        );
        Ok(durable)
    }

    fn publish(&self, closed: Closed, durable: Durable) {
        if !closed.entries.is_empty() {
            self.durable.send_replace(durable);
            metrics::recorded(&closed.entries);
            if self.watchers.receiver_count() > 0 {
                let _ = self.watchers.send(Arc::new(closed.entries));
            }
        }
        for answer in closed.answers {
            answer(&durable);
        }
    }
}
