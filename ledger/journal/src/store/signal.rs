//! Requests to the background threads.

use parking_lot::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Requests to the background threads. The lock guards the requests alone; no I/O happens under it.
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

    /// Asks for the next segment.
    pub(crate) fn prepare(&self) {
        self.request(|requests| requests.prepare = true);
    }

    /// Asks for what is durable to be flushed now.
    pub(crate) fn flush_now(&self) {
        self.request(|requests| requests.flush_now = true);
    }

    /// Asks for what is written to be synced soon.
    pub(crate) fn sync_soon(&self) {
        self.request(|requests| requests.sync_soon = true);
    }

    /// Asks for what is written to be synced now.
    pub(crate) fn sync_now(&self) {
        self.request(|requests| requests.sync_now = true);
    }

    pub(crate) fn stop(&self) {
        self.request(|requests| requests.stop = true);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.requests.lock().stop
    }

    /// Wakes those who wait for room.
    pub(crate) fn has_flushed(&self) {
        self.changed.notify_all();
    }

    /// Waits until there is something to prepare; false when it is time to stop.
    pub(crate) fn wait_to_prepare(&self) -> bool {
        let mut requests = self.wait_until(|requests| requests.prepare);
        requests.prepare = false;
        !requests.stop
    }

    /// Waits until it is time to move something; false when it is time to stop.
    pub(crate) fn wait_to_flush(&self) -> bool {
        let mut requests = self.wait_until(|requests| requests.flush_now);
        requests.flush_now = false;
        !requests.stop
    }

    /// Waits until what is written is to be synced: at the latest so long after it was requested. False when it is time to
    /// stop.
    pub(crate) fn wait_to_sync(&self, soon: Duration) -> bool {
        let mut requests = self.wait_until(|requests| requests.sync_soon || requests.sync_now);
        let goes_on = |requests: &mut Requests| !requests.stop && !requests.sync_now;
        self.changed.wait_while_for(&mut requests, goes_on, soon);
        (requests.sync_soon, requests.sync_now) = (false, false);
        !requests.stop
    }

    fn wait_until(&self, is_requested: impl Fn(&Requests) -> bool) -> MutexGuard<'_, Requests> {
        let mut requests = self.requests.lock();
        self.changed.wait_while(&mut requests, |requests| {
            !requests.stop && !is_requested(requests)
        });
        requests
    }

    /// Asks for frames to be flushed for as long as a condition holds, which is looked at whenever something was flushed, and
    /// at this interval.
    pub(crate) fn flush_while(&self, interval: Duration, mut condition: impl FnMut() -> bool) {
        let mut requests = self.requests.lock();
        while condition() {
            requests.flush_now = true;
            self.changed.notify_all();
            self.changed.wait_for(&mut requests, interval);
        }
    }
}
