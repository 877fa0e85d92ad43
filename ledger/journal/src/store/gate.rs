//! Mutual exclusion of compactions and backups.

use parking_lot::{Mutex, MutexGuard};
use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Lets one compaction run at a time, and none during a backup.
#[derive(Default)]
pub(crate) struct CompactionGate {
    running: Mutex<()>,
    holds: AtomicUsize,
}

/// Prevents compaction until it is dropped.
pub(crate) struct CompactionHold(Arc<CompactionGate>);

impl Drop for CompactionHold {
    fn drop(&mut self) {
        self.0.holds.fetch_sub(1, Ordering::AcqRel);
    }
}

impl CompactionGate {
    /// Waits for a running compaction. None while compaction is prevented.
    pub(crate) fn enter(&self) -> Option<MutexGuard<'_, ()>> {
        let running = self.running.lock();
        (self.holds.load(Ordering::Acquire) == 0).then_some(running)
    }

    /// Waits for a running compaction, and prevents others until the result is dropped.
    pub(crate) fn hold(self: &Arc<Self>) -> CompactionHold {
        let _running = self.running.lock();
        self.holds.fetch_add(1, Ordering::AcqRel);
        CompactionHold(Arc::clone(self))
    }
}
