//! Requests to the background threads.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Requests to the background threads. The lock protects the requests alone; no I/O happens under it.
#[derive(Default)]
pub(crate) struct Signal {
    requests: Mutex<Requests>,
    changed: Condvar,
}

#[derive(Default)]
struct Requests {
    stop: bool,
    prepare: bool,
    flush_now: bool,
    sync_soon: bool,
    sync_now: bool,
}

impl Signal {
    fn request(&self, set: impl FnOnce(&mut Requests)) {
        set(&mut self.requests.lock());
        self.changed.notify_all();
    }

    /// Requests the next segment.
    pub(crate) fn prepare(&self) {
        self.request(|requests| requests.prepare = true);
    }

    /// Requests that all durable frames are flushed now.
    pub(crate) fn flush_now(&self) {
        self.request(|requests| requests.flush_now = true);
    }

    /// Requests that written frames are synced soon.
    pub(crate) fn sync_soon(&self) {
        self.request(|requests| requests.sync_soon = true);
    }

    /// Requests that written frames are synced now.
    pub(crate) fn sync_now(&self) {
        self.request(|requests| requests.sync_now = true);
    }

    pub(crate) fn stop(&self) {
        self.request(|requests| requests.stop = true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.requests.lock().stop
    }

    /// Wakes the threads that wait for room.
    pub(crate) fn has_flushed(&self) {
        self.changed.notify_all();
    }

    /// Waits until a segment has to be prepared; false at the stop.
    pub(crate) fn wait_to_prepare(&self) -> bool {
        let mut requests = self.wait_until(|requests| requests.prepare);
        requests.prepare = false;
        !requests.stop
    }

    /// Waits until frames have to be flushed; false at the stop.
    pub(crate) fn wait_to_flush(&self) -> bool {
        let mut requests = self.wait_until(|requests| requests.flush_now);
        requests.flush_now = false;
        !requests.stop
    }

    /// Waits until written frames have to be synced: at the latest `soon` after the request. False at the stop.
    pub(crate) fn wait_to_sync(&self, soon: Duration) -> bool {
        let mut requests = self.wait_until(|requests| requests.sync_soon || requests.sync_now);
        let goes_on = |requests: &mut Requests| !requests.stop && !requests.sync_now;
        self.changed.wait_while_for(&mut requests, goes_on, soon);
        (requests.sync_soon, requests.sync_now) = (false, false);
        !requests.stop
    }

    fn wait_until(&self, is_requested: impl Fn(&Requests) -> bool) -> MutexGuard<'_, Requests> {
        let mut requests = self.requests.lock();
        self.changed
            .wait_while(&mut requests, |requests| !requests.stop && !is_requested(requests));
        requests
    }

    /// Requests flushes while a condition holds. The condition is checked after each flush, and at this interval.
    pub(crate) fn flush_while(&self, interval: Duration, mut condition: impl FnMut() -> bool) {
        let mut requests = self.requests.lock();
        while condition() {
            requests.flush_now = true;
            self.changed.notify_all();
            self.changed.wait_for(&mut requests, interval);
        }
    }
}
