//! Wall-clock time.

use quota_semantics::Timestamp;

/// Wall-clock time in whole microseconds, as the API shows it: a query `at` a time from a response then finds that
/// state.
#[must_use]
pub fn now() -> Timestamp {
    let since_epoch = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let nanoseconds = since_epoch.map_or(0, |span| span.as_nanos());
    Timestamp::from_nanoseconds(i64::try_from(nanoseconds).unwrap_or(i64::MAX)).whole_microseconds()
}
