//! The latest durable batches, shared by all watches.
//!
//! A channel would keep each batch until the slowest watch has taken it: one client that does not read would keep
//! gigabytes alive. Here the number of bytes is bounded, whatever watches do; a watch that is too slow reads the
//! journal.

use std::{collections::VecDeque, sync::Arc};

use parking_lot::Mutex;
use quota_core::{
    event::{Entry, Sequence},
    size,
};
use tokio::sync::watch;

/// Entries that have just become durable.
pub type Batch = Arc<Vec<Entry>>;

/// Most bytes of the kept batches. The newest batch is kept even if it has more.
const BYTES: usize = 8 * 1024 * 1024;

/// The latest durable batches.
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
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Sequence> {
        self.last.subscribe()
    }

    /// The batch that holds this entry, if it is still kept. Otherwise the journal holds it, once it is durable.
    #[must_use]
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
    use quota_core::event::{Actor, DeadLetter, Event};
    use quota_semantics::Timestamp;

    use super::*;

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
