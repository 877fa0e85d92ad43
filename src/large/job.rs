//! Jobs that wait for their turn, and can be cancelled.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use super::turn::Turn;

/// The work that makes an answer.
pub(super) type Job = Box<dyn FnOnce(&Turn) + Send>;

/// A job that waits for its turn, and can be cancelled.
#[derive(Clone, Default)]
pub(super) struct Waiting {
    job: Arc<Mutex<Option<Job>>>,
    is_cancelled: Arc<AtomicBool>,
}

impl Waiting {
    pub(super) fn new(job: impl FnOnce(&Turn) + Send + 'static) -> Self {
        let job: Job = Box::new(job);
        Self {
            job: Arc::new(Mutex::new(Some(job))),
            is_cancelled: Arc::default(),
        }
    }

    /// Takes the job, unless it was cancelled.
    pub(super) fn take(&self) -> Option<Job> {
        self.job.lock().take()
    }

    fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
        drop(self.take());
    }

    /// Becomes true when the job is cancelled.
    pub(super) fn is_cancelled(&self) -> Arc<AtomicBool> {
        self.is_cancelled.clone()
    }
}

/// Cancels a job and frees its memory when its request is answered or dropped.
pub(super) struct CancelOnDrop(pub(super) Waiting);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}
