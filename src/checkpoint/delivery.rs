//! Delivers checkpoints to a destination. Nothing waits for a delivery: a failed delivery is retried, and metrics count
//! it.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::Notify, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::destination::{ATTEMPT, Destination, Signed};
use crate::{metrics, supervisor};

/// Most checkpoints that wait for a destination. A new one displaces the oldest, since the new one covers more.
const PENDING_MAX: usize = 1000;

/// Wait before the second attempt; doubled with each further attempt…
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// …up to this.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// The checkpoints that wait for a destination, oldest first.
#[derive(Default)]
struct Outbox {
    pending: Mutex<VecDeque<Signed>>,
    changed: Notify,
}

impl Outbox {
    /// Adds a checkpoint; answers whether another one is displaced.
    fn put(&self, signed: Signed) -> bool {
        let mut pending = self.pending.lock();
        let is_full = pending.len() >= PENDING_MAX;
        if is_full {
            pending.pop_front();
        }
        pending.push_back(signed);
        self.changed.notify_one();
        is_full
    }

    fn first(&self) -> Option<Signed> {
        self.pending.lock().front().cloned()
    }

    /// Removes a delivered checkpoint, unless it was displaced meanwhile.
    fn delivered(&self, signed: &Signed) {
        let mut pending = self.pending.lock();
        if pending.front() == Some(signed) {
            pending.pop_front();
        }
    }

    fn len(&self) -> usize {
        self.pending.lock().len()
    }
}

/// The wait after this many consecutive failures.
fn wait(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST_WAIT.saturating_mul(doubled).min(LONGEST_WAIT)
}

/// Delivers to one destination.
pub(super) struct Delivery {
    place: Destination,
    outbox: Arc<Outbox>,
    ends: CancellationToken,
    task: JoinHandle<()>,
}

impl Delivery {
    /// Starts the delivery task of a destination.
    pub(super) fn begin(place: Destination) -> Self {
        let outbox = Arc::<Outbox>::default();
        let ends = CancellationToken::new();
        let task = supervisor::spawn(
            "the delivery of checkpoints",
            ends.clone(),
            run(place.clone(), Arc::clone(&outbox), ends.clone()),
        );
        Self {
            place,
            outbox,
            ends,
            task,
        }
    }

    /// Queues a checkpoint for delivery.
    pub(super) fn send(&self, signed: Signed) {
        if self.outbox.put(signed) {
            metrics::checkpoint_given_up(self.place.kind());
            tracing::warn!(
                place = self.place.name(),
                "a checkpoint was dropped: too many wait to be delivered"
            );
        }
        metrics::checkpoints_undelivered(self.place.kind(), self.outbox.len());
    }

    /// Delivers the remaining checkpoints, as long as each succeeds at once.
    pub(super) async fn finish(self) {
        self.ends.cancel();
        let stop = self.task.abort_handle();
        if tokio::time::timeout(ATTEMPT, self.task).await.is_err() {
            stop.abort();
        }
        let left = self.outbox.len();
        if left > 0 {
            tracing::warn!(
                place = self.place.name(),
                left,
                "checkpoints were not delivered: the file has them"
            );
        }
    }
}

async fn run(place: Destination, outbox: Arc<Outbox>, ends: CancellationToken) {
    let mut failures = 0_u32;
    loop {
        let Some(signed) = outbox.first() else {
            tokio::select! {
                () = outbox.changed.notified() => continue,
                () = ends.cancelled() => return,
            }
        };
        match place.deliver(&signed).await {
            Ok(()) => {
                failures = 0;
                outbox.delivered(&signed);
                metrics::checkpoint_delivered(place.kind(), signed.sequence);
                metrics::checkpoints_undelivered(place.kind(), outbox.len());
            }
            Err(error) => {
                failures = failures.saturating_add(1);
                metrics::checkpoint_failed();
                tracing::warn!(
                    place = place.name(),
                    sequence = signed.sequence,
                    error,
                    "a checkpoint was not delivered"
                );
                if ends.is_cancelled() {
                    return;
                }
                tokio::select! {
                    () = tokio::time::sleep(wait(failures)) => {}
                    () = ends.cancelled() => {}
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(sequence: u64) -> Signed {
        Signed {
            sequence,
            note: "".into(),
        }
    }

    #[test]
    fn waits_are_bounded() {
        let waits = [1, 2, 3, 7, 8, u32::MAX].map(|failures| wait(failures).as_secs());
        assert_eq!(waits, [1, 2, 4, 60, 60, 60]);
    }

    #[test]
    fn what_waits_is_bounded_and_the_oldest_is_given_up() {
        let outbox = Outbox::default();
        for sequence in 1..=PENDING_MAX as u64 {
            assert!(!outbox.put(signed(sequence)));
        }
        let first = outbox.first().unwrap();
        assert!(outbox.put(signed(9999)));
        assert_eq!(outbox.len(), PENDING_MAX);
        // The delivery was in progress when the checkpoint was displaced.
        outbox.delivered(&first);
        assert_eq!(
            (outbox.len(), outbox.first()),
            (PENDING_MAX, Some(signed(2)))
        );
        outbox.delivered(&signed(2));
        assert_eq!(outbox.first(), Some(signed(3)));
    }
}
