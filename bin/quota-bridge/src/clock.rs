//! The wall clock.

use quota_semantics::Timestamp;

/// The time now.
#[must_use]
pub(crate) fn now() -> Timestamp {
    let time = jiff::Timestamp::now().as_nanosecond();
    Timestamp::from_nanoseconds(i64::try_from(time).unwrap_or(i64::MAX))
}
