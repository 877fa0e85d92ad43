//! Functions that record several metrics, or one in its own way.

use std::time::Duration;

use quota_service::metrics::Label as _;

use super::{labels::Listener, table};

/// One batch became durable: how long that took, its fsync alone, and how many entries it has.
pub fn ledger_batch(append: Duration, fsync: Duration, entries: u64) {
    table::LEDGER_APPEND_DURATION.record([], append);
    table::LEDGER_FSYNC_DURATION.record([], fsync);
    table::LEDGER_BATCH_ENTRIES.record([], entries);
}

/// How far the stream's consumption lags.
pub fn stream_lag(messages: u64, age: Duration) {
    table::STREAM_LAG_MESSAGES.record([], messages);
    table::STREAM_LAG.record([], age);
}

/// A snapshot of the state at this sequence was stored, at this time (seconds since 1970).
pub fn snapshot_stored(took: Duration, sequence: u64, at_seconds: u64) {
    table::SNAPSHOT_DURATION.record([], took);
    table::SNAPSHOT_LAST_SEQUENCE.record([], sequence);
    table::SNAPSHOT_LAST_SUCCESS.record([], at_seconds);
}

/// A compaction ended well, at this time (seconds since 1970).
pub fn compaction_done(took: Duration, removed_entries: u64, at_seconds: u64) {
    table::COMPACTION_DURATION.record([], took);
    table::COMPACTION_REMOVED.record([], removed_entries);
    table::COMPACTION_LAST_SUCCESS.record([], at_seconds);
}

/// The free bytes on the disk, and whether they are too few.
pub fn disk(free: u64, low: bool) {
    table::DISK_FREE.record([], free);
    table::DISK_LOW.record([], low);
}

/// A connection was opened; it counts until the guard is dropped.
#[must_use]
pub fn http_connection(listener: Listener) -> impl Drop + Send {
    struct Open(::metrics::Gauge);
    impl Drop for Open {
        fn drop(&mut self) {
            self.0.decrement(1.0);
        }
    }
    let open = table::HTTP_CONNECTIONS.gauge([listener.text()]);
    open.increment(1.0);
    Open(open)
}

/// When the webhook's certificate expires, in seconds since 1970.
pub fn certificate_expiration(seconds: i64) {
    table::CERTIFICATE_EXPIRATION.record([], u64::try_from(seconds).unwrap_or(0));
}
