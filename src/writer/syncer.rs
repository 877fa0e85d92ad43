//! Makes batches durable, then sends their answers.

use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use quota_journal::{Durable, Error, Journal};
use quota_ledger::group_commit::{ClosedBatch, CommittedBatch};
use tokio::{
    runtime::Handle,
    sync::{broadcast, watch},
};

use super::{Answer, Batch, digest_points::Marks, inbox::Inbox, recent::Recent};
use crate::metrics;

/// The journal, and the readers of durable entries as they come. One batch at a time: the syncing thread syncs a batch,
/// or the decider syncs the batch itself if it has nothing else to do meanwhile.
pub(super) struct Syncer<J> {
    pub(super) journal: Mutex<J>,
    pub(super) inbox: Arc<Inbox>,
    pub(super) durable: watch::Sender<Durable>,
    pub(super) followers: broadcast::Sender<Batch>,
    /// The latest batches, for watches.
    pub(super) recent: Arc<Recent>,
    /// The runtime of the callers that wait for answers, if there is one.
    pub(super) runtime: Option<Handle>,
    /// When images of the state are taken; none without a cluster.
    pub(super) marks: OnceLock<Marks>,
    /// Called when a write or fsync fails.
    pub(super) failed: Mutex<Option<Failed>>,
    /// The error after which nothing becomes durable any more.
    pub(super) error: Mutex<Option<Error>>,
}

pub(super) type Failed = Box<dyn FnOnce(&Error) + Send>;

/// A durable batch that has been published to watchers.
struct Synced {
    durable: Durable,
    entries: Batch,
    answers: Vec<Answer>,
}

/// Why a batch is not durable.
enum NotDurable {
    /// Another node leads: the batch is void.
    Deposed,
    /// A write or fsync failed.
    Failed,
}

impl<J: Journal> Syncer<J> {
    /// The syncing thread: runs until the decider is gone, or a write or fsync fails.
    pub(super) fn run(&self) {
        while let Some((closed, term)) = self.inbox.next_batch() {
            match self.make_durable(closed, term) {
                Ok(synced) => {
                    // The decider can continue while the answers are sent.
                    self.inbox.syncer_is_idle();
                    self.answer(synced);
                }
                Err(NotDurable::Deposed) => self.inbox.syncer_is_idle(),
                Err(NotDurable::Failed) => return,
            }
        }
    }

    /// Syncs a batch on the calling thread. None if a write or fsync failed; false if another node leads, and the batch
    /// is void.
    pub(super) fn sync(&self, closed: ClosedBatch<Answer>) -> Option<bool> {
        // Only the decider calls this: no other term begins before the decider has dropped its void decisions.
        match self.make_durable(closed, self.inbox.term()) {
            Ok(synced) => {
                self.answer(synced);
                Some(true)
            }
            Err(NotDurable::Deposed) => Some(false),
            Err(NotDurable::Failed) => None,
        }
    }

    fn make_durable(&self, closed: ClosedBatch<Answer>, term: u64) -> Result<Synced, NotDurable> {
        match self.append(closed) {
            // Published before the other thread can sync the next batch: watchers are notified in the ledger's order.
            Ok(committed) => Ok(self.publish(committed)),
            // The answers are dropped unsent: no caller may learn of a decision that may be lost.
            Err(Error::Deposed) => {
                self.inbox.void(term);
                Err(NotDurable::Deposed)
            }
            Err(error) => {
                self.fail(error);
                Err(NotDurable::Failed)
            }
        }
    }

    /// A write or fsync failed: nothing becomes durable any more.
    pub(super) fn fail(&self, error: Error) {
        self.inbox.end();
        if let Some(failed) = self.failed.lock().take() {
            failed(&error);
        }
        *self.error.lock() = Some(error);
    }

    fn append(&self, closed: ClosedBatch<Answer>) -> Result<CommittedBatch<Answer>, Error> {
        let mut journal = self.journal.lock();
        let started = Instant::now();
        let entries = closed.len() as u64;
        let appended = closed.append(&mut *journal)?;
        let written = Instant::now();
        let committed = appended.sync(&mut *journal)?;
        if entries > 0 {
            metrics::ledger_batch(started.elapsed(), written.elapsed(), entries);
        }
        Ok(committed)
    }

    fn publish(&self, committed: CommittedBatch<Answer>) -> Synced {
        let CommittedBatch { durable, entries, answers } = committed;
        let entries = Arc::new(entries);
        if !entries.is_empty() {
            self.durable.send_replace(durable);
            if let Some(marks) = self.marks.get() {
                marks.durable(durable.sequence);
            }
            self.show(&entries);
        }
        Synced { durable, entries, answers }
    }

    /// Publishes durable entries to followers and watches.
    pub(super) fn show(&self, entries: &Batch) {
        if self.followers.receiver_count() > 0 {
            let _ = self.followers.send(entries.clone());
        }
        self.recent.publish(entries);
    }

    fn answer(&self, synced: Synced) {
        let Synced { durable, entries, answers } = synced;
        metrics::recorded(&entries);
        let many = answers.len() > 1;
        let answer = move || answers.into_iter().for_each(|answer| answer(&durable));
        // One wake-up of the runtime, instead of one per task from outside.
        match &self.runtime {
            Some(runtime) if many => drop(runtime.spawn(async move { answer() })),
            _ => answer(),
        }
    }
}
