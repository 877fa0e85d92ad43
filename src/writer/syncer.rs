//! The syncing thread: makes batches durable, then lets the answers go.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};
use std::time::Instant;

use crossbeam_channel::Receiver;
use quota_ledger::{
    batcher::{Closed, Durably},
    journal::{Durable, Error, Journal},
};
use tokio::{
    runtime::Handle,
    sync::{broadcast, watch},
};

use super::{Answer, Batch, inbox::Inbox};
use crate::metrics;

pub(super) struct Syncer<J> {
    pub(super) journal: J,
    pub(super) batches: Receiver<Closed<Answer>>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) durable: watch::Sender<Durable>,
    pub(super) watchers: broadcast::Sender<Batch>,
    pub(super) stopped: Arc<AtomicBool>,
    /// Where those who wait for answers run, if that is known.
    pub(super) runtime: Option<Handle>,
}

impl<J: Journal> Syncer<J> {
    /// Runs until the decider is gone, or a write or fsync fails.
    pub(super) fn run(mut self, failed: impl FnOnce(&Error)) -> Result<J, Error> {
        while let Ok(closed) = self.batches.recv() {
            let durably = match self.make_durable(closed) {
                Ok(durably) => durably,
                Err(error) => {
                    // The answers are dropped unsent: nobody may learn of what may be lost.
                    self.stopped.store(true, Ordering::Release);
                    self.inbox.end();
                    failed(&error);
                    return Err(error);
                }
            };
            // The decider may go on while the answers leave.
            self.inbox.syncer_is_idle();
            self.publish(durably);
        }
        Ok(self.journal)
    }

    fn make_durable(&mut self, closed: Closed<Answer>) -> Result<Durably<Answer>, Error> {
        let started = Instant::now();
        let entries = closed.len() as u64;
        let appended = closed.append(&mut self.journal)?;
        let written = Instant::now();
        let durably = appended.sync(&mut self.journal)?;
        if entries > 0 {
            metrics::ledger_batch(started.elapsed(), written.elapsed(), entries);
        }
        Ok(durably)
    }

    fn publish(&self, durably: Durably<Answer>) {
        let Durably {
            durable,
            entries,
            answers,
        } = durably;
        if !entries.is_empty() {
            self.durable.send_replace(durable);
            metrics::recorded(&entries);
            if self.watchers.receiver_count() > 0 {
                let _ = self.watchers.send(Arc::new(entries));
            }
        }
        let answer = move || answers.into_iter().for_each(|answer| answer(&durable));
        // Waking many tasks from inside their runtime costs it one wake-up.
        match &self.runtime {
            Some(runtime) => drop(runtime.spawn(async move { answer() })),
            None => answer(),
        }
    }
}
