//! Pauses while a large answer is made.

use std::{
    cell::RefCell,
    io::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use quota_semantics::Name;
use serde::Serialize;

use super::{
    ACTIVITY,
    accounts::LONGEST,
    pool::{Kind, Pool},
    throttle::{self, Meter},
};
use crate::metrics;

/// Bytes that are written between two checks of the time.
const STEP_BYTES: usize = 4096;

/// The payload that unwinds a thread from a job whose caller has disconnected.
struct Cancelled;

/// The turn of a principal, through which its work pauses. Only [`Permit::make`](super::Permit::make) creates one, so
/// work that is long enough to pause cannot run elsewhere.
pub(crate) struct Turn(Option<RefCell<Served>>);

/// A running job: its principal, its request, and the processor time since the last charge.
struct Served {
    pool: &'static Pool,
    principal: Name,
    is_cancelled: Arc<AtomicBool>,
    meter: Meter,
    /// How long the job has been delayed because others were active.
    delayed: Duration,
}

impl Turn {
    /// The turn for a small answer that is made at once: it never pauses.
    pub(super) const SHORT: Self = Self(None);

    /// A turn on a thread of the pool.
    pub(super) fn begin(
        pool: &'static Pool,
        principal: &Name,
        is_cancelled: Arc<AtomicBool>,
    ) -> Self {
        Self(Some(RefCell::new(Served {
            pool,
            principal: principal.clone(),
            is_cancelled,
            meter: Meter::start(),
            delayed: Duration::ZERO,
        })))
    }

    /// Charges the processor time since the last pause.
    pub(super) fn end(self) {
        if let Some(served) = self.0 {
            let mut served = served.into_inner();
            served.pool.charge(&served.principal, served.meter.lap());
        }
    }

    /// Yields the processor if the work has run for long enough. Does not return if the caller no longer waits for the
    /// answer: no lock may be held here.
    pub(crate) fn pause(&self) {
        let Some(served) = &self.0 else { return };
        let is_in_vain = {
            let served = &mut *served.borrow_mut();
            throttle::pause_for(|| {
                let (pool, principal) = (served.pool, &served.principal);
                let wait = pool.charge(principal, served.meter.lap());
                let wait = wait.min(LONGEST.saturating_sub(served.delayed));
                served.delayed += wait;
                let pauses = pool.kind != Kind::Past
                    || ACTIVITY.of_others_until(principal, Instant::now()).is_some();
                pauses.then_some(wait)
            });
            served.is_cancelled.load(Ordering::Relaxed)
        };
        if is_in_vain {
            metrics::answer_given_up();
            std::panic::resume_unwind(Box::new(Cancelled));
        }
    }

    /// A value as JSON, with pauses.
    ///
    /// # Errors
    /// The value cannot be represented in JSON.
    pub(crate) fn to_json(
        &self,
        value: &impl Serialize,
        capacity: usize,
    ) -> serde_json::Result<Vec<u8>> {
        let mut text = Vec::with_capacity(capacity);
        serde_json::to_writer(Paced::new(&mut text, self), value)?;
        Ok(text)
    }
}

/// A writer that pauses at intervals.
struct Paced<'a, W> {
    inner: W,
    turn: &'a Turn,
    bytes: usize,
}

impl<'a, W> Paced<'a, W> {
    const fn new(inner: W, turn: &'a Turn) -> Self {
        Self { inner, turn, bytes: 0 }
    }
}

impl<W: Write> Write for Paced<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes += written;
        if self.bytes >= STEP_BYTES {
            self.bytes = 0;
            self.turn.pause();
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}
