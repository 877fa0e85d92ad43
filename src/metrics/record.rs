//! One function per metric; without [`super::install`] they have no effect.

use std::time::Duration;

use ::metrics::{counter, gauge, histogram};

use super::{
    labels::{
        AuditEvent, AuthRefusal, CheckpointPlace, Correction, CorrectionCause, Label, Limit,
        Listener, Outcome, Part, Rejection, RelistRequest, Relisted, ReservationState, Source,
    },
    table,
};

pub(super) fn pair<L: Label>(label: L) -> (&'static str, &'static str) {
    (L::NAME, label.value())
}

/// A gauge holds a float; sequences, bytes and counts stay exact up to 2^53.
#[expect(clippy::cast_precision_loss, reason = "metrics are floats")]
fn float(number: u64) -> f64 {
    number as f64
}

/// Counts an answer that is made on a thread for large ones.
pub fn large_answer() {
    counter!(table::LARGE_ANSWERS.name).increment(1);
}

/// Counts a grant that exceeded a limit which is only audited.
pub fn limit_passed() {
    counter!(table::LIMITS_PASSED.name).increment(1);
}

/// Counts a denial that was not kept.
pub fn denials_dropped() {
    counter!(table::DENIALS_DROPPED.name).increment(1);
}

/// How many reservations are in a state.
pub fn reservations(state: ReservationState, count: u64) {
    gauge!(table::RESERVATIONS.name, &[pair(state)]).set(float(count));
}

/// How old the oldest pending reservation is; zero if there is none.
pub fn oldest_reservation_age(age: Duration) {
    gauge!(table::OLDEST_RESERVATION_AGE.name).set(age);
}

/// Counts reservations that ended.
pub fn reservation_outcomes(outcome: Outcome, count: u64) {
    counter!(table::RESERVATION_OUTCOMES.name, &[pair(outcome)]).increment(count);
}

/// Counts audit events of API servers.
pub fn audit_events(became: AuditEvent, count: usize) {
    counter!(table::AUDIT_EVENTS.name, &[pair(became)]).increment(count as u64);
}

/// Reports how many quotas the API server's own quota plugin enforces as well.
pub fn quotas_enforced_twice(quotas: usize) {
    gauge!(table::QUOTAS_ENFORCED_TWICE.name).set(float(quotas as u64));
}

/// Counts a creation that the API server's own quota plugin refused.
pub fn plugin_denied() {
    counter!(table::PLUGIN_DENIALS.name).increment(1);
}

/// The sequence of the last durable entry.
pub fn ledger_last_sequence(sequence: u64) {
    gauge!(table::LEDGER_LAST_SEQUENCE.name).set(float(sequence));
}

/// The size of a part of the ledger on disk.
pub fn ledger_bytes(part: Part, bytes: u64) {
    gauge!(table::LEDGER_BYTES.name, &[pair(part)]).set(float(bytes));
}

/// One batch became durable: how long that took, its fsync alone, and how many entries it has.
pub fn ledger_batch(append: Duration, fsync: Duration, entries: u64) {
    histogram!(table::LEDGER_APPEND_DURATION.name).record(append);
    histogram!(table::LEDGER_FSYNC_DURATION.name).record(fsync);
    histogram!(table::LEDGER_BATCH_ENTRIES.name).record(float(entries));
}

/// Counts objects that were corrected without an event of a source.
pub fn drift_corrected(correction: Correction, cause: CorrectionCause, count: u64) {
    let labels = [pair(correction), pair(cause)];
    counter!(table::DRIFT_CORRECTIONS.name, &labels).increment(count);
}

/// Counts relists.
pub fn relists(relisted: Relisted) {
    counter!(table::DRIFT_RELISTS.name, &[pair(relisted)]).increment(1);
}

/// Counts a relist request to publishers.
pub fn relist_requested(request: RelistRequest) {
    counter!(table::RELISTS_REQUESTED.name, &[pair(request)]).increment(1);
}

/// How many bytes of ended reservations are kept.
pub fn ended_reservations_bytes(bytes: u64) {
    gauge!(table::ENDED_RESERVATIONS_BYTES.name).set(float(bytes));
}

/// How many relists are open.
pub fn relists_open(count: u64) {
    gauge!(table::DRIFT_RELISTS_OPEN.name).set(float(count));
}

/// How many objects have the uid of an object of another namespace.
pub fn uid_collisions(count: u64) {
    gauge!(table::UID_COLLISIONS.name).set(float(count));
}

/// Counts accepted events.
pub fn events_consumed(source: Source, count: u64) {
    counter!(table::EVENTS_CONSUMED.name, &[pair(source)]).increment(count);
}

/// Counts events that changed nothing.
pub fn events_duplicate(source: Source, count: u64) {
    counter!(table::EVENTS_DUPLICATE.name, &[pair(source)]).increment(count);
}

/// Counts a rejected event.
pub fn events_rejected(reason: Rejection) {
    counter!(table::EVENTS_REJECTED.name, &[pair(reason)]).increment(1);
}

/// Counts resources of an object that were left out.
pub fn resources_left_out(resources: usize) {
    let resources = u64::try_from(resources).unwrap_or(u64::MAX);
    counter!(table::RESOURCES_LEFT_OUT.name).increment(resources);
}

/// How far the stream's consumption lags.
pub fn stream_lag(messages: u64, age: Duration) {
    gauge!(table::STREAM_LAG_MESSAGES.name).set(float(messages));
    gauge!(table::STREAM_LAG.name).set(age);
}

/// Counts kinds of a publisher's bookmark that were skipped.
pub fn watermarks_skipped(kinds: usize) {
    let kinds = u64::try_from(kinds).unwrap_or(u64::MAX);
    counter!(table::WATERMARKS_SKIPPED.name).increment(kinds);
}

/// The age of a publisher's watermark for a kind.
pub fn watermark_age(resource: &str, age: Duration) {
    let labels = [("resource", resource.to_owned())];
    gauge!(table::WATERMARK_AGE.name, &labels).set(age);
}

/// Whether the stream is connected.
pub fn stream_connected(connected: bool) {
    gauge!(table::STREAM_CONNECTED.name).set(f64::from(u8::from(connected)));
}

/// A snapshot of the state at this sequence was stored, at this time (seconds since 1970).
pub fn snapshot_stored(took: Duration, sequence: u64, at_seconds: u64) {
    histogram!(table::SNAPSHOT_DURATION.name).record(took);
    gauge!(table::SNAPSHOT_LAST_SEQUENCE.name).set(float(sequence));
    gauge!(table::SNAPSHOT_LAST_SUCCESS.name).set(float(at_seconds));
}

/// A snapshot could not be stored.
pub fn snapshot_failed() {
    counter!(table::SNAPSHOT_FAILURES.name).increment(1);
}

/// A compaction ended well, at this time (seconds since 1970).
pub fn compaction_done(took: Duration, removed_entries: u64, at_seconds: u64) {
    histogram!(table::COMPACTION_DURATION.name).record(took);
    counter!(table::COMPACTION_REMOVED.name).increment(removed_entries);
    gauge!(table::COMPACTION_LAST_SUCCESS.name).set(float(at_seconds));
}

/// A compaction failed.
pub fn compaction_failed() {
    counter!(table::COMPACTION_FAILURES.name).increment(1);
}

/// A checkpoint of this sequence was signed and stored.
pub fn checkpoint_signed(sequence: u64) {
    gauge!(table::CHECKPOINT_LAST_SEQUENCE.name).set(float(sequence));
}

/// A checkpoint of this sequence was delivered.
pub fn checkpoint_delivered(place: CheckpointPlace, sequence: u64) {
    gauge!(table::CHECKPOINT_DELIVERED_SEQUENCE.name, &[pair(place)]).set(float(sequence));
}

/// How many checkpoints wait to be delivered.
pub fn checkpoints_undelivered(place: CheckpointPlace, count: usize) {
    gauge!(table::CHECKPOINT_UNDELIVERED.name, &[pair(place)]).set(float(count as u64));
}

/// A checkpoint was dropped, since too many waited to be delivered.
pub fn checkpoint_given_up(place: CheckpointPlace) {
    counter!(table::CHECKPOINT_GIVEN_UP.name, &[pair(place)]).increment(1);
}

/// A checkpoint could not be stored or delivered.
pub fn checkpoint_failed() {
    counter!(table::CHECKPOINT_FAILURES.name).increment(1);
}

/// A backup up to this sequence was sent.
pub fn backup_done(sequence: u64) {
    gauge!(table::BACKUP_LAST_SEQUENCE.name).set(float(sequence));
}

/// A backup was not sent completely.
pub fn backup_failed() {
    counter!(table::BACKUP_FAILURES.name).increment(1);
}

/// A configured limit was hit.
pub fn limit_reached(limit: Limit) {
    counter!(table::LIMIT_REACHED.name, &[pair(limit)]).increment(1);
}

/// The free bytes on the disk, and whether they are too few.
pub fn disk(free: u64, low: bool) {
    gauge!(table::DISK_FREE.name).set(free as f64);
    gauge!(table::DISK_LOW.name).set(f64::from(u8::from(low)));
}

/// A write or fsync failed.
pub fn poisoned() {
    gauge!(table::POISONED.name).set(1.0);
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
    let open = gauge!(table::HTTP_CONNECTIONS.name, &[pair(listener)]);
    open.increment(1.0);
    Open(open)
}

/// When the webhook's certificate expires, in seconds since 1970.
pub fn certificate_expiration(seconds: i64) {
    gauge!(table::CERTIFICATE_EXPIRATION.name).set(float(u64::try_from(seconds).unwrap_or(0)));
}

/// New certificate files could not be used.
pub fn certificate_reload_failed() {
    counter!(table::CERTIFICATE_RELOAD_FAILURES.name).increment(1);
}

/// Counts a rejected caller.
pub fn auth_refused(reason: AuthRefusal) {
    counter!(table::AUTH_REFUSED.name, &[pair(reason)]).increment(1);
}

/// A new tokens file could not be used.
pub fn tokens_reload_failed() {
    counter!(table::TOKENS_RELOAD_FAILURES.name).increment(1);
}
