//! Selects the batches after which all replicas take an image of their state, so that their digests can be compared.
//!
//! All replicas have the same batches with the same times. The first batch of each period of ledger time is selected,
//! so no agreement is needed.

use parking_lot::Mutex;
use quota_core::{event::Sequence, state::Image};
use quota_semantics::{Span, Timestamp};
use tokio::sync::mpsc;

/// A state at the end of a durable batch.
pub struct Marked {
    /// The last entry of the batch.
    pub sequence: Sequence,
    /// The state after the batch.
    pub image: Image,
}

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

#[cfg(test)]
mod tests {
    use quota_core::state::State;

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
}
