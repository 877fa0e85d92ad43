//! When requests are sent, and which of them count.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio_util::sync::CancellationToken;

use super::Plan;

/// A plan before it begins.
pub(super) struct Course {
    warmup: Duration,
    duration: Duration,
    patience: Duration,
    rate: Option<f64>,
    stop: CancellationToken,
    began: OnceLock<Instant>,
    sent: Arc<AtomicU64>,
}

/// A plan in time: the same for all workers.
#[derive(Debug)]
pub(super) struct Running {
    began: Instant,
    counts_from: Instant,
    deadline: Instant,
    /// When answers are no longer waited for.
    pub(super) end: Instant,
    rate: Option<f64>,
    sent: Arc<AtomicU64>,
    stop: CancellationToken,
}

/// The right to send one request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    /// When it was meant to be sent: latency counts from here.
    pub(super) begin: Instant,
    /// How much later than its time it is sent because the timer was late, not the server.
    pub(super) late: Option<Duration>,
}

impl Course {
    pub(super) fn new<C>(plan: &Plan<C>, stop: CancellationToken) -> Self {
        Self {
            warmup: plan.warmup,
            duration: plan.duration,
            patience: plan.patience,
            rate: plan.rate,
            stop,
            began: OnceLock::new(),
            sent: Arc::default(),
        }
    }

    /// The first worker to call it sets the time.
    pub(super) fn begin(&self) -> Running {
        let began = *self.began.get_or_init(Instant::now);
        let counts_from = began + self.warmup;
        let deadline = counts_from + self.duration;
        Running {
            began,
            counts_from,
            deadline,
            end: deadline + self.patience,
            rate: self.rate,
            sent: self.sent.clone(),
            stop: self.stop.clone(),
        }
    }
}

impl Running {
    /// Waits for the next turn; none: the end has come.
    ///
    /// At a set rate the turns of all connections are one sequence, and a free connection takes the next. A turn that
    /// had to wait for a free connection begins when it was due, so a slow server cannot hide its latency by
    /// getting fewer requests.
    pub(super) async fn turn(&self) -> Option<Turn> {
        let now = Instant::now();
        if now >= self.deadline || self.stop.is_cancelled() {
            return None;
        }
        let Some(rate) = self.rate else {
            return Some(Turn { begin: now, late: None });
        };
        let number = self.sent.fetch_add(1, Ordering::Relaxed);
        let due = self.began + Duration::from_secs_f64(number as f64 / rate);
        if due >= self.deadline {
            return None;
        }
        if due <= now {
            return Some(Turn { begin: due, late: None });
        }
        tokio::select! {
            biased;
            () = self.stop.cancelled() => None,
            () = tokio::time::sleep_until(due.into()) => {
                let begin = Instant::now();
                let late = Some(begin.saturating_duration_since(due));
                Some(Turn { begin, late })
            }
        }
    }

    /// Whether an operation that ended at this time belongs to the rate.
    pub(super) fn counts(&self, end: Instant) -> bool {
        self.counts_from <= end && end < self.deadline
    }

    /// Whether a request that began at this time belongs to the latencies.
    pub(super) fn is_timed(&self, begin: Instant) -> bool {
        self.counts_from <= begin
    }
}
