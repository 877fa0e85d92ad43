//! Makes batches durable, then sends their answers; keeps the latest batches for watches.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
    time::Instant,
};

use parking_lot::Mutex;
use quota_core::{
    event::{Entry, Sequence},
    size,
    state::Image,
};
use quota_journal::{Durable, Error, Journal};
use quota_ledger::group_commit::{ClosedBatch, CommittedBatch};
use quota_semantics::{Span, Timestamp};
use tokio::{
    runtime::Handle,
    sync::{broadcast, mpsc, watch},
};

use super::{Answer, inbox::Inbox};
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
            self.notify(&entries);
        }
        Synced { durable, entries, answers }
    }

    /// Publishes durable entries to followers and watches.
    pub(super) fn notify(&self, entries: &Batch) {
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

/// A state at the end of a durable batch.
pub struct Marked {
    /// The last entry of the batch.
    pub sequence: Sequence,
    /// The state after the batch.
    pub image: Image,
}

/// Selects the batches after which all replicas take an image of their state, so that their digests can be compared.
///
/// All replicas have the same batches with the same times. The first batch of each period of ledger time is selected,
/// so no agreement is needed.
pub(super) struct Marks {
    period: Span,
    /// The image of a batch that is closed and not durable yet.
    closed: Mutex<Option<Marked>>,
    out: mpsc::Sender<Marked>,
}

impl Marks {
    /// While an image has not been received, further ones are skipped.
    pub(super) fn new(period: Span) -> (Self, mpsc::Receiver<Marked>) {
        let (out, marked) = mpsc::channel(1);
        let closed = Mutex::new(None);
        let marks = Self { period, closed, out };
        (marks, marked)
    }

    /// Whether a batch is due for an image, given its time and that of the previous batch.
    pub(super) fn is_due(&self, before: Timestamp, time: Timestamp) -> bool {
        let period = |time: Timestamp| time.nanoseconds().div_euclid(self.period.nanoseconds());
        period(before) != period(time)
    }

    /// Keeps the image of a closed batch.
    pub(super) fn put(&self, marked: Marked) {
        *self.closed.lock() = Some(marked);
    }

    /// Drops the image, since the closed batch will not become durable.
    pub(super) fn void(&self) {
        *self.closed.lock() = None;
    }

    /// Publishes the image of the batch with this end, which is durable now.
    pub(super) fn durable(&self, sequence: Sequence) {
        let closed = self.closed.lock().take_if(|marked| marked.sequence == sequence);
        if let Some(marked) = closed {
            self.take(marked);
        }
    }

    /// Publishes an image of a durable batch.
    pub(super) fn take(&self, marked: Marked) {
        let _ = self.out.try_send(marked);
    }
}

/// Entries that have just become durable.
pub type Batch = Arc<Vec<Entry>>;

/// Most bytes of the kept batches. The newest batch is kept even if it has more.
const BYTES: usize = 8 * 1024 * 1024;

/// The latest durable batches, shared by all watches.
///
/// A channel would keep each batch until the slowest watch has taken it: one client that does not read would keep
/// gigabytes alive. Here the number of bytes is bounded, whatever watches do; a watch that is too slow reads the
/// journal.
#[derive(Debug)]
pub struct Recent {
    kept: Mutex<Kept>,
    /// The last entry of the newest batch.
    last: watch::Sender<Sequence>,
}

#[derive(Debug, Default)]
struct Kept {
    /// In the ledger's order, each with its bytes.
    batches: VecDeque<(usize, Batch)>,
    bytes: usize,
}

impl Recent {
    pub(super) fn new() -> Self {
        Self { kept: Mutex::default(), last: watch::Sender::new(0) }
    }

    /// Publishes a durable batch. Without subscribers nothing is kept.
    pub(super) fn publish(&self, batch: &Batch) {
        let Some(last) = batch.last().map(|entry| entry.sequence) else {
            return;
        };
        if self.last.receiver_count() == 0 {
            *self.kept.lock() = Kept::default();
            return;
        }
        self.kept.lock().push(batch);
        self.last.send_replace(last);
    }

    /// The last entry of each batch, as it becomes durable. To be subscribed to before the durable position is read, so
    /// that no batch is missed in between.
    pub fn subscribe(&self) -> watch::Receiver<Sequence> {
        self.last.subscribe()
    }

    /// The batch that holds this entry, if it is still kept. Otherwise the journal holds it, once it is durable.
    pub fn holding(&self, sequence: Sequence) -> Option<Batch> {
        self.kept.lock().holding(sequence)
    }
}

impl Kept {
    fn push(&mut self, batch: &Batch) {
        let bytes = batch.iter().map(|entry| size::of_event(&entry.event)).sum();
        self.batches.push_back((bytes, batch.clone()));
        self.bytes += bytes;
        while self.bytes > BYTES && self.batches.len() > 1 {
            let dropped = self.batches.pop_front();
            self.bytes -= dropped.map_or(0, |(bytes, _)| bytes);
        }
    }

    fn holding(&self, sequence: Sequence) -> Option<Batch> {
        let ends_before = |(_, batch): &(usize, Batch)| {
            batch.last().is_some_and(|entry| entry.sequence < sequence)
        };
        let (_, batch) = self.batches.get(self.batches.partition_point(ends_before))?;
        // Batches are missing from the time without subscribers.
        let holds = batch.first().is_some_and(|entry| entry.sequence <= sequence);
        holds.then(|| batch.clone())
    }
}

#[cfg(test)]
mod tests {
    use quota_core::{
        event::{Actor, DeadLetter, Event},
        state::State,
    };
    use quota_semantics::Timestamp;

    use super::*;

    #[test]
    fn the_first_batch_of_a_period_is_marked_once_it_is_durable() {
        let (marks, mut marked) = Marks::new(Span::from_seconds(60));
        let at = |seconds| Timestamp::EPOCH.plus(Span::from_seconds(seconds));
        assert!(!marks.is_due(at(1), at(59)));
        assert!(marks.is_due(at(59), at(60)));
        assert!(marks.is_due(at(1), at(601)));
        let image = |sequence| Marked { sequence, image: State::default().image() };
        marks.put(image(7));
        marks.durable(6);
        assert!(marked.try_recv().is_err());
        marks.durable(7);
        assert_eq!(marked.try_recv().unwrap().sequence, 7);
        marks.put(image(8));
        marks.void();
        marks.durable(8);
        assert!(marked.try_recv().is_err());
    }

    /// A batch of entries with so many bytes each.
    fn batch(sequences: std::ops::RangeInclusive<Sequence>, bytes: usize) -> Batch {
        let entry = |sequence| Entry {
            sequence,
            time: Timestamp::EPOCH,
            actor: Actor::named("test"),
            event: Event::MessageRejected(Box::new(DeadLetter {
                source: "s".into(),
                position: 0,
                reason: "".into(),
                payload: "x".repeat(bytes).into(),
            })),
        };
        Arc::new(sequences.map(entry).collect())
    }

    #[test]
    fn a_watch_that_does_not_read_keeps_no_batch_alive() {
        let recent = Recent::new();
        let _stalled = recent.subscribe();
        let mut batches = Vec::new();
        for number in 1..=64 {
            let batch = batch(number..=number, 1024 * 1024);
            recent.publish(&batch);
            batches.push(Arc::downgrade(&batch));
        }
        let alive = batches.iter().filter(|batch| batch.upgrade().is_some());
        assert_eq!(alive.count(), 7);
        assert!(recent.holding(57).is_none() && recent.holding(65).is_none());
        for number in 58..=64 {
            assert_eq!(recent.holding(number).unwrap()[0].sequence, number);
        }
        // A batch that is too large by itself is kept while it is the newest.
        recent.publish(&batch(65..=76, 1024 * 1024));
        assert_eq!(recent.holding(70).unwrap().len(), 12);
        assert!(recent.holding(64).is_none());
    }

    #[test]
    fn batches_are_found_by_their_entries_and_gaps_are_not() {
        let recent = Recent::new();
        recent.publish(&batch(1..=3, 0));
        assert!(recent.holding(1).is_none(), "nobody watches");
        let last = recent.subscribe();
        for range in [4..=6, 7..=7, 10..=12] {
            recent.publish(&batch(range, 0));
        }
        assert_eq!(*last.borrow(), 12);
        let first = |sequence| Some(recent.holding(sequence)?[0].sequence);
        let found: Vec<_> = (3..=13).map(first).collect();
        let (a, b, c) = (Some(4), Some(7), Some(10));
        assert_eq!(found, [None, a, a, a, b, None, None, c, c, c, None]);
        drop(last);
        recent.publish(&batch(13..=13, 0));
        assert!(recent.holding(12).is_none(), "nobody watches any more");
    }
}
